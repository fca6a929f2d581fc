/* The sizes of parts whose rows are ordered by hop, hop by hop: one more pass over the edges. */
#include "partition/part/part_format.h"
#include "protocol/memory.h"

#include <stdlib.h>
#include <string.h>

/* One pass; every array is counted by hop first. */
struct hop_pass {
    const struct dataset *dataset;
    const struct partition *partition;
    struct part_sizes *sizes;
    int32_t *taken; /* n_node: 1 + the last part that was seen taking this row */
    int64_t *seen;  /* n_part: 1 + the place of the last row that had an edge from this part */
};

/* All arrays of all parts are one piece, which the first part's `own` begins. */
static size_t n_entry(int32_t n_part, int32_t n_hop)
{
    return (size_t)n_part * (size_t)n_hop * (3 + 2 * (size_t)n_part);
}

static void arrays_point(const struct partition *partition, int64_t *at, struct part_sizes *sizes)
{
    for (int32_t p = 0; p < partition->n_part; p++) {
        int64_t **const arrays[] = {&sizes[p].n_own_hop, &sizes[p].n_edge_hop[PART_DIRECTION_IN],
                                    &sizes[p].n_edge_hop[PART_DIRECTION_OUT], &sizes[p].n_payload_hop[PART_DIRECTION_IN],
                                    &sizes[p].n_payload_hop[PART_DIRECTION_OUT]};
        sizes[p].n_hop = partition->n_hop;
        for (int k = 0; k < 5; k++) {
            *arrays[k] = at;
            at += (k < 3 ? 1 : partition->n_part) * (int64_t)partition->n_hop;
        }
    }
}

/* What row v of part p, at this place, takes; and what others will take of it. */
static void row_count(struct hop_pass *l, int32_t p, int64_t place)
{
    const struct dataset *dataset = l->dataset;
    const struct partition *partition = l->partition;
    int64_t v = partition->order[place], n_part = partition->n_part;
    int32_t n_hop = partition->n_hop, hop = partition->hop[v];
    if (hop < n_hop) {
        l->sizes[p].n_own_hop[hop]++;
    }
    for (int64_t i = dataset->indptr[v]; i < dataset->indptr[v + 1]; i++) {
        uint32_t u = dataset->indices[i];
        int32_t j = partition->owner[u];
        if (hop < n_hop) {
            l->sizes[p].n_edge_hop[PART_DIRECTION_IN][hop]++;
            l->sizes[j].n_edge_hop[PART_DIRECTION_OUT][hop]++;
        }
        if (j != p && l->taken[u] != p + 1 && partition->hop[u] < n_hop) {
            l->sizes[p].n_payload_hop[PART_DIRECTION_IN][partition->hop[u] * n_part + j]++;
        }
        if (j != p && l->seen[j] != place + 1 && hop < n_hop) {
            l->sizes[j].n_payload_hop[PART_DIRECTION_OUT][hop * n_part + p]++;
        }
        l->taken[u] = p + 1;
        l->seen[j] = place + 1;
    }
}

/* Counts by hop become counts of hop ≤ h. */
static void add_up(int64_t *counts, int32_t n_hop, int64_t n)
{
    for (int64_t i = n; i < n_hop * n; i++) {
        counts[i] += counts[i - n];
    }
}

enum status part_sizes_hops(const struct dataset *dataset, const struct partition *partition, struct part_sizes *sizes)
{
    int32_t n_part = partition->n_part, n_hop = partition->n_hop;
    if (n_hop == 0) {
        return STATUS_OK;
    }
    struct hop_pass l = {.dataset = dataset, .partition = partition, .sizes = sizes};
    int64_t *piece;
    enum status status = memory_acquire(MEMORY_OTHER, n_entry(n_part, n_hop), sizeof *piece, &piece);
    if (status != STATUS_OK) {
        return status;
    }
    arrays_point(partition, piece, sizes);
    status = memory_acquire(MEMORY_OTHER, (size_t)dataset->n_node, sizeof *l.taken, &l.taken);
    if (status != STATUS_OK) {
        return status;
    }
    l.seen = memory_alloc((size_t)n_part, sizeof *l.seen);
    for (int32_t p = 0; p < n_part; p++) {
        for (int64_t place = partition->part_begin[p]; place < partition->part_begin[p + 1]; place++) {
            row_count(&l, p, place);
        }
    }
    for (int32_t p = 0; p < n_part; p++) {
        add_up(sizes[p].n_own_hop, n_hop, 1);
        for (int d = 0; d < PART_DIRECTION_N; d++) {
            add_up(sizes[p].n_edge_hop[d], n_hop, 1);
            add_up(sizes[p].n_payload_hop[d], n_hop, n_part);
        }
    }
    free(l.seen);
    memory_release(MEMORY_OTHER, l.taken, (size_t)dataset->n_node, sizeof *l.taken);
    return STATUS_OK;
}

void part_sizes_hops_release(struct part_sizes *sizes, int32_t n_part)
{
    memory_release(MEMORY_OTHER, sizes[0].n_own_hop, n_entry(n_part, sizes[0].n_hop), sizeof(int64_t));
}
