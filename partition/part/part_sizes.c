/* Sizes of every part from one pass over the edges, without encoding any: for memory plans, placement and --plan.
 *
 * A part's in-edges give its pairs in that direction; the transposed direction's are the same counts as the other
 * part sees them, rows and columns exchanged.
 */
#include "partition/part/part.h"
#include "partition/part/part_columns.h"
#include "partition/part/part_format.h"
#include "protocol/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Counting one part's in-edges by the parts that they come from. */
struct counting {
    const struct dataset *dataset;
    const struct partition *partition;
    struct part_sizes *sizes;
    struct part_counts *count;       /* n_part; zero between two parts */
    uint32_t *n_row_hop, *n_col_hop; /* n_part × n_hop: by hop; likewise */
    uint32_t *touched;               /* n_part: those that edges come from, and half as much again to sort with */
    int32_t n_touched;
    int64_t *seen;    /* n_part: 1 + the place of the last row that had an edge from this part */
    int32_t *taken;   /* n_node: 1 + the last part that was seen taking this node */
    uint8_t *counted; /* a bit for each row of edges' features that is in the sizes; NULL: no features of edges */
};

static void touch(struct counting *c, int32_t part)
{
    if (c->count[part].n_edge == 0) {
        c->touched[c->n_touched++] = (uint32_t)part;
    }
}

static void hop_count(const struct counting *c, uint32_t *counts, int32_t part, int32_t hop)
{
    if (hop < c->partition->n_hop) {
        counts[part * (int64_t)c->partition->n_hop + hop]++;
    }
}

/* A halo row, whose features are stored with the part, too. */
static void halo_count(const struct counting *c, struct part_sizes *sizes, uint32_t u)
{
    if (c->partition->stores) {
        const int64_t *indptr = c->dataset->feature_indptr;
        sizes->n_halo++;
        sizes->n_halo_value += indptr != NULL ? indptr[u + (int64_t)1] - indptr[u] : c->dataset->n_feature;
    }
}

/* The features of edge i from part j to part p, which both parts have once, whichever edges between the two ends
 * share them. */
static void edge_row_count(struct counting *c, int64_t i, int32_t j, int32_t p)
{
    uint32_t row = c->dataset->edge_row[i];
    uint8_t bit = (uint8_t)(1u << row % 8);
    if ((c->counted[row / 8] & bit) == 0) {
        c->counted[row / 8] |= bit;
        c->sizes[p].n_edge_row++;
        c->sizes[j].n_edge_row += j != p;
    }
}

/* The in-edges of row v of part p, at this place. */
static void row_count(struct counting *c, int32_t p, int64_t place)
{
    const struct dataset *dataset = c->dataset;
    const struct partition *partition = c->partition;
    int64_t v = partition->order[place];
    int32_t n_hop = partition->n_hop, hop = n_hop > 0 ? partition->hop[v] : 0;
    for (int64_t i = dataset->indptr[v]; i < dataset->indptr[v + 1]; i++) {
        uint32_t u = dataset->indices[i];
        int32_t j = partition->owner[u];
        touch(c, j);
        c->count[j].n_edge++;
        if (c->counted != NULL) {
            edge_row_count(c, i, j, p);
        }
        if (hop < n_hop) {
            c->sizes[p].halo.n_edge_hop[PART_DIRECTION_IN][hop]++;
            c->sizes[j].halo.n_edge_hop[PART_DIRECTION_OUT][hop]++;
        }
        if (j != p && c->taken[u] != p + 1) {
            c->taken[u] = p + 1;
            c->count[j].n_col++;
            halo_count(c, &c->sizes[p], u);
            hop_count(c, c->n_col_hop, j, n_hop > 0 ? partition->hop[u] : 0);
        }
        if (j != p && c->seen[j] != place + 1) {
            c->seen[j] = place + 1;
            c->count[j].n_row++;
            hop_count(c, c->n_row_hop, j, hop);
        }
    }
}

/* The diagonal is listed, whether it has edges or not, and is all own rows. */
static void diagonal_count(struct counting *c, int32_t p)
{
    const struct partition *partition = c->partition;
    touch(c, p);
    c->count[p].n_row = c->count[p].n_col = c->sizes[p].n_own;
    for (int64_t place = partition->part_begin[p]; place < partition->part_begin[p + 1]; place++) {
        int32_t hop = partition->n_hop > 0 ? partition->hop[partition->order[place]] : 0;
        hop_count(c, c->n_row_hop, p, hop);
        hop_count(c, c->n_col_hop, p, hop);
    }
}

/* Counts by hop become counts of hop ≤ h. */
static void hops_list(uint32_t *counts, int32_t n_hop, uint32_t *out)
{
    uint32_t n = 0;
    for (int32_t h = 0; h < n_hop; h++) {
        out[h] = n += counts[h];
        counts[h] = 0;
    }
}

/* A pair behind those there are. */
static void pair_add(struct part_pairs *pairs, int32_t k, int32_t part, const struct part_counts *counts)
{
    struct part_pair *at = &pairs->pair[k];
    at->part = part;
    at[1] = (struct part_pair){
        .row = at->row + counts->n_row, .edge = at->edge + counts->n_edge, .col = at->col + (uint32_t)counts->n_col};
}

/* Part p's pairs along in-edges. */
static enum status part_count(struct counting *c, int32_t p)
{
    const struct partition *partition = c->partition;
    struct part_halo *halo = &c->sizes[p].halo;
    int64_t n_hop = partition->n_hop;
    c->n_touched = 0;
    for (int64_t place = partition->part_begin[p]; place < partition->part_begin[p + 1]; place++) {
        row_count(c, p, place);
    }
    diagonal_count(c, p);
    part_columns_sort(c->touched, NULL, NULL, c->n_touched, c->touched + partition->n_part);
    enum status status = part_halo_acquire(halo, PART_DIRECTION_IN, c->n_touched);
    struct part_pairs *pairs = &halo->pairs[PART_DIRECTION_IN];
    for (int32_t k = 0; k < c->n_touched && status == STATUS_OK; k++) {
        int32_t j = (int32_t)c->touched[k];
        pair_add(pairs, k, j, &c->count[j]);
        pairs->own = j == p ? k : pairs->own;
        c->count[j] = (struct part_counts){0};
        hops_list(c->n_row_hop + j * n_hop, (int32_t)n_hop, pairs->n_row_hop + k * n_hop);
        hops_list(c->n_col_hop + j * n_hop, (int32_t)n_hop, pairs->n_col_hop + k * n_hop);
    }
    return status;
}

/* All parts' pairs along in-edges. */
static enum status parts_count(const struct dataset *dataset, const struct partition *partition,
                               struct part_sizes *sizes)
{
    size_t n_part = (size_t)partition->n_part, n_hop = n_part * (size_t)partition->n_hop;
    struct counting c = {.dataset = dataset, .partition = partition, .sizes = sizes};
    size_t n_bit = dataset->edge_row != NULL ? (size_t)(dataset->n_edge_row + dataset->n_node) / 8 + 1 : 0;
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)dataset->n_node, sizeof *c.taken, &c.taken);
    if (status == STATUS_OK && n_bit > 0) {
        status = memory_acquire(MEMORY_OTHER, n_bit, sizeof *c.counted, &c.counted);
    }
    if (status != STATUS_OK) {
        memory_release(MEMORY_OTHER, c.taken, (size_t)dataset->n_node, sizeof *c.taken);
        return status;
    }
    c.count = memory_alloc(n_part, sizeof *c.count);
    c.n_row_hop = memory_alloc(n_hop, sizeof *c.n_row_hop);
    c.n_col_hop = memory_alloc(n_hop, sizeof *c.n_col_hop);
    c.touched = memory_alloc(2 * n_part, sizeof *c.touched);
    c.seen = memory_alloc(n_part, sizeof *c.seen);
    for (int32_t p = 0; p < partition->n_part && status == STATUS_OK; p++) {
        status = part_count(&c, p);
    }
    for (int32_t p = 0; p < partition->n_part; p++) {
        for (int d = 0; d < PART_DIRECTION_N; d++) {
            for (int32_t h = 1; h < partition->n_hop; h++) {
                sizes[p].halo.n_edge_hop[d][h] += sizes[p].halo.n_edge_hop[d][h - 1];
            }
        }
    }
    free(c.seen);
    free(c.touched);
    free(c.n_col_hop);
    free(c.n_row_hop);
    free(c.count);
    memory_release(MEMORY_OTHER, c.counted, n_bit, sizeof *c.counted);
    memory_release(MEMORY_OTHER, c.taken, (size_t)dataset->n_node, sizeof *c.taken);
    return status;
}

/* Pair k of part p along in-edges, as the other part has it along out-edges, behind its n pairs so far. */
static void pair_transpose(const struct part_sizes *sizes, int32_t p, int32_t k, struct part_pairs *to, int32_t n)
{
    const struct part_pairs *from = &sizes[p].halo.pairs[PART_DIRECTION_IN];
    size_t n_hop = (size_t)sizes[p].halo.n_hop, at = (size_t)n * n_hop, there = (size_t)k * n_hop;
    const struct part_counts counts = {
        .n_row = part_pair_cols(from, k), .n_col = part_pair_rows(from, k), .n_edge = part_pair_edges(from, k)};
    pair_add(to, n, p, &counts);
    to->own = k == from->own ? n : to->own;
    if (n_hop > 0) {
        memcpy(to->n_row_hop + at, from->n_col_hop + there, n_hop * sizeof *to->n_row_hop);
        memcpy(to->n_col_hop + at, from->n_row_hop + there, n_hop * sizeof *to->n_col_hop);
    }
}

/* The pairs along out-edges of a graph that is not symmetric. */
static enum status parts_transpose(int32_t n_part, struct part_sizes *sizes)
{
    int32_t *n = memory_alloc((size_t)n_part, sizeof *n);
    enum status status = STATUS_OK;
    for (int32_t p = 0; p < n_part; p++) {
        const struct part_pairs *in = &sizes[p].halo.pairs[PART_DIRECTION_IN];
        for (int32_t k = 0; k < in->n_pair; k++) {
            n[in->pair[k].part]++;
        }
    }
    for (int32_t j = 0; j < n_part && status == STATUS_OK; j++) {
        status = part_halo_acquire(&sizes[j].halo, PART_DIRECTION_OUT, n[j]);
        n[j] = 0;
    }
    for (int32_t p = 0; p < n_part && status == STATUS_OK; p++) {
        const struct part_pairs *in = &sizes[p].halo.pairs[PART_DIRECTION_IN];
        for (int32_t k = 0; k < in->n_pair; k++) {
            int32_t j = in->pair[k].part;
            pair_transpose(sizes, p, k, &sizes[j].halo.pairs[PART_DIRECTION_OUT], n[j]++);
        }
    }
    free(n);
    return status;
}

/* What is known of part p without its edges, and its bytes as part_layout makes them. */
static enum status part_fill(const struct dataset *dataset, const struct partition *partition, int32_t p,
                             struct part_sizes *sizes)
{
    sizes->n_feature_value = sizes->n_own * dataset->n_feature;
    if (dataset->feature_indptr != NULL) {
        sizes->n_feature_value = part_feature_values(dataset, partition->order + partition->part_begin[p],
                                                     sizes->n_own, &sizes->n_embedded);
    }
    struct part_header header;
    part_header_init(&header, dataset, partition);
    header.n_own = sizes->n_own;
    header.n_feature_value = header.features == PART_FEATURES_SPARSE ? sizes->n_feature_value : 0;
    header.n_embedded = sizes->n_embedded;
    header.n_edge_row = sizes->n_edge_row;
    header.n_halo = sizes->n_halo;
    header.n_halo_value = header.features == PART_FEATURES_SPARSE ? sizes->n_halo_value : 0;
    int n_direction = dataset->symmetric ? 1 : PART_DIRECTION_N;
    for (int d = 0; d < n_direction; d++) {
        const struct part_pairs *pairs = &sizes->halo.pairs[d];
        const struct part_pair *end = &pairs->pair[pairs->n_pair];
        header.n_block[d] = pairs->n_pair;
        header.total[d] = (struct part_counts){
            .n_row = end->row - sizes->n_own, .n_col = end->col - sizes->n_own, .n_edge = end->edge};
    }
    if (!part_layout(&header)) {
        return status_fail(STATUS_NOMEM, "part %d is too large to be encoded", p);
    }
    sizes->n_edge = header.total[PART_DIRECTION_IN].n_edge;
    sizes->n_bytes = header.n_bytes;
    return STATUS_OK;
}

enum status part_sizes_build(const struct dataset *dataset, const struct partition *partition,
                             struct part_sizes **out)
{
    int32_t n_part = partition->n_part;
    struct part_sizes *sizes = memory_alloc((size_t)n_part, sizeof *sizes);
    for (int32_t p = 0; p < n_part; p++) {
        sizes[p].n_own = partition->part_begin[p + 1] - partition->part_begin[p];
        sizes[p].halo = (struct part_halo){
            .part = p, .n_part = n_part, .n_hop = partition->n_hop, .symmetric = dataset->symmetric};
    }
    enum status status = parts_count(dataset, partition, sizes);
    if (status == STATUS_OK && !dataset->symmetric) {
        status = parts_transpose(n_part, sizes);
    }
    for (int32_t p = 0; p < n_part && status == STATUS_OK; p++) {
        part_halo_mirror(&sizes[p].halo);
        status = part_fill(dataset, partition, p, &sizes[p]);
    }
    if (status != STATUS_OK) {
        part_sizes_release(sizes, n_part);
        return status;
    }
    *out = sizes;
    return STATUS_OK;
}

void part_sizes_release(struct part_sizes *sizes, int32_t n_part)
{
    if (sizes == NULL) {
        return;
    }
    for (int32_t p = 0; p < n_part; p++) {
        part_halo_release(&sizes[p].halo);
    }
    free(sizes);
}
