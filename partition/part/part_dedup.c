#include "partition/part/part_dedup.h"

#include "protocol/base/memory.h"

#include <stdlib.h>

static size_t n_count(const struct part_dedup *dedup)
{
    return (size_t)dedup->n_part * dedup->n_rank * PART_DEDUP_N_SIDE * ((size_t)dedup->n_hop + 1);
}

static size_t n_sums(const struct part_dedup *dedup)
{
    return (size_t)dedup->n_part * ((size_t)dedup->n_hop + 1);
}

static int n_direction(const struct part_dedup *dedup)
{
    return dedup->mirrors ? 1 : PART_DIRECTION_N;
}

int64_t part_dedup_bytes(int32_t n_part, uint32_t n_rank, int32_t n_hop, bool mirrors)
{
    const struct part_dedup dedup = {.n_part = n_part, .n_rank = n_rank, .n_hop = n_hop};
    return (int64_t)(n_count(&dedup) * sizeof *dedup.n_row[0]) * (mirrors ? 1 : PART_DIRECTION_N);
}

enum status part_dedup_acquire(int32_t n_part, uint32_t n_rank, int32_t n_hop, bool mirrors, struct part_dedup *out)
{
    *out = (struct part_dedup){.n_part = n_part, .n_rank = n_rank, .n_hop = n_hop, .mirrors = mirrors};
    enum status status = STATUS_OK;
    for (int d = 0; d < n_direction(out) && status == STATUS_OK; d++) {
        status = memory_acquire(MEMORY_STRUCTURE, n_count(out), sizeof *out->n_row[d], &out->n_row[d]);
    }
    if (mirrors) {
        out->n_row[PART_DIRECTION_OUT] = out->n_row[PART_DIRECTION_IN];
    }
    return status;
}

int64_t part_sums_bytes(int32_t n_part, int32_t n_hop, bool mirrors)
{
    const struct part_dedup dedup = {.n_part = n_part, .n_hop = n_hop};
    return (int64_t)(n_sums(&dedup) * sizeof *dedup.sums[0]) * (mirrors ? 1 : PART_DIRECTION_N);
}

enum status part_sums_acquire(struct part_dedup *dedup)
{
    enum status status = STATUS_OK;
    for (int d = 0; d < n_direction(dedup) && status == STATUS_OK; d++) {
        status = memory_acquire(MEMORY_STRUCTURE, n_sums(dedup), sizeof *dedup->sums[d], &dedup->sums[d]);
    }
    if (dedup->mirrors) {
        dedup->sums[PART_DIRECTION_OUT] = dedup->sums[PART_DIRECTION_IN];
    }
    return status;
}

void part_dedup_mirror(struct part_dedup *dedup)
{
    size_t n_each = (size_t)dedup->n_hop + 1;
    for (size_t at = n_each - 1; at < n_count(dedup); at += n_each) {
        dedup->n_row[PART_DIRECTION_OUT][at] = dedup->n_row[PART_DIRECTION_IN][at];
    }
    for (size_t at = n_each - 1; at < n_sums(dedup) && dedup->sums[PART_DIRECTION_IN] != NULL; at += n_each) {
        dedup->sums[PART_DIRECTION_OUT][at] = dedup->sums[PART_DIRECTION_IN][at];
    }
}

void part_dedup_release(struct part_dedup *dedup)
{
    for (int d = 0; d < n_direction(dedup); d++) {
        memory_release(MEMORY_STRUCTURE, dedup->sums[d], n_sums(dedup), sizeof *dedup->sums[d]);
        memory_release(MEMORY_STRUCTURE, dedup->n_row[d], n_count(dedup), sizeof *dedup->n_row[d]);
    }
    *dedup = (struct part_dedup){0};
}

uint32_t *part_dedup_at(const struct part_dedup *dedup, enum part_direction d, int32_t q, uint32_t rank,
                        enum part_dedup_side side)
{
    size_t list = ((size_t)q * dedup->n_rank + rank) * PART_DEDUP_N_SIDE + (size_t)side;
    return dedup->n_row[d] + list * ((size_t)dedup->n_hop + 1);
}

int64_t part_dedup_rows(const struct part_dedup *dedup, enum part_direction d, int32_t q, uint32_t rank,
                        enum part_dedup_side side, int32_t hop)
{
    return part_dedup_at(dedup, d, q, rank, side)[hop < dedup->n_hop ? hop : dedup->n_hop];
}

/* --- counting --- */

struct counting {
    const struct dataset *dataset;
    const struct partition *partition;
    const int32_t *rank_of_part;
    struct part_dedup *out;
    uint32_t *seen_by; /* n_node × PART_DEDUP_N_SIDE: 1 + the last rank that was seen taking this row */
    int64_t *seen;     /* n_rank × PART_DEDUP_N_SIDE: 1 + the last row that this rank was seen taking */
};

/* Node u travels to parts of another rank, on that side. */
static void node_add(const struct counting *c, enum part_direction d, uint32_t u, uint32_t rank,
                     enum part_dedup_side side)
{
    const struct partition *partition = c->partition;
    int32_t n_hop = partition->n_hop, hop = n_hop > 0 ? partition->hop[u] : 0;
    part_dedup_at(c->out, d, partition->owner[u], rank, side)[hop < n_hop ? hop : n_hop]++;
}

/* The in-edges of row v of part p: the rows of their sources travel here, and over the transposed edges its row to
 * them. */
static void row_count(const struct counting *c, int32_t p, uint32_t v)
{
    uint32_t rank = (uint32_t)c->rank_of_part[p];
    for (int64_t e = c->dataset->indptr[v]; e < c->dataset->indptr[v + 1]; e++) {
        uint32_t u = c->dataset->indices[e];
        int32_t q = c->partition->owner[u];
        uint32_t other = (uint32_t)c->rank_of_part[q];
        if (other == rank) {
            continue;
        }
        int64_t *seen = &c->seen[other * PART_DEDUP_N_SIDE + (uint32_t)part_dedup_side_at(p, q)];
        if (*seen != (int64_t)v + 1) {
            *seen = (int64_t)v + 1;
            node_add(c, PART_DIRECTION_OUT, v, other, part_dedup_side_at(p, q));
        }
        uint32_t *seen_by = c->seen_by != NULL
                                ? &c->seen_by[(size_t)u * PART_DEDUP_N_SIDE + (size_t)part_dedup_side_at(q, p)]
                                : NULL;
        if (seen_by != NULL && *seen_by != rank + 1) {
            *seen_by = rank + 1;
            node_add(c, PART_DIRECTION_IN, u, rank, part_dedup_side_at(q, p));
        }
    }
}

/* Worker after worker, so that one number per row says who was seen. */
static void rows_count(const struct counting *c)
{
    const struct partition *partition = c->partition;
    for (uint32_t rank = 0; rank < c->out->n_rank; rank++) {
        for (int32_t p = 0; p < partition->n_part; p++) {
            bool here = (uint32_t)c->rank_of_part[p] == rank;
            for (int64_t place = partition->part_begin[p]; here && place < partition->part_begin[p + 1]; place++) {
                row_count(c, p, (uint32_t)partition->order[place]);
            }
        }
    }
}

/* Counts by hop become counts of hop ≤ h. */
static void hops_sum(struct part_dedup *dedup)
{
    size_t n_each = (size_t)dedup->n_hop + 1;
    for (int d = 0; d < n_direction(dedup); d++) {
        for (size_t at = 0; at < n_count(dedup); at++) {
            dedup->n_row[d][at] += at % n_each > 0 ? dedup->n_row[d][at - 1] : 0;
        }
    }
}

enum status part_dedup_build(const struct dataset *dataset, const struct partition *partition,
                             const int32_t *rank_of_part, uint32_t n_rank, struct part_dedup *out)
{
    size_t n_seen = dataset->facts.symmetric ? 0 : (size_t)dataset->n_node * PART_DEDUP_N_SIDE;
    struct counting c = {.dataset = dataset, .partition = partition, .rank_of_part = rank_of_part, .out = out};
    enum status status = part_dedup_acquire(partition->n_part, n_rank, partition->n_hop, dataset->facts.symmetric,
                                            out);
    if (status == STATUS_OK && n_seen > 0) {
        status = memory_acquire(MEMORY_OTHER, n_seen, sizeof *c.seen_by, &c.seen_by);
    }
    if (status != STATUS_OK) {
        part_dedup_release(out);
        return status;
    }
    c.seen = memory_alloc((size_t)n_rank * PART_DEDUP_N_SIDE, sizeof *c.seen);
    rows_count(&c);
    hops_sum(out);
    free(c.seen);
    memory_release(MEMORY_OTHER, c.seen_by, n_seen, sizeof *c.seen_by);
    return STATUS_OK;
}
