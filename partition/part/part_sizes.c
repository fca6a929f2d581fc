/* Sizes of every part from one pass over the edges, without encoding any: for memory plans, placement and --plan.
 *
 * A part's in-edges give its pairs in that direction; the transposed direction's are the same counts as the other
 * part sees them, rows and columns exchanged.
 */
#include "partition/links/links_places.h"
#include "partition/part/part.h"
#include "partition/part/part_format.h"
#include "partition/part/part_side.h"
#include "protocol/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* The features of the edges between part p and others, which both parts have once, whichever edges between the two
 * ends share them. counted: a bit for each row of them that is in the sizes */
static void edge_rows_count(const struct dataset *dataset, const struct partition *partition, int32_t p,
                            uint8_t *counted, struct part_sizes *sizes)
{
    for (int64_t place = partition->part_begin[p]; place < partition->part_begin[p + 1]; place++) {
        int64_t v = partition->order[place];
        for (int64_t i = dataset->indptr[v]; i < dataset->indptr[v + 1]; i++) {
            uint32_t row = dataset->edges.row[i];
            int32_t j = partition->owner[dataset->indices[i]];
            uint8_t bit = (uint8_t)(1u << row % 8);
            if ((counted[row / 8] & bit) == 0) {
                counted[row / 8] |= bit;
                sizes[p].n_edge_row++;
                sizes[j].n_edge_row += j != p;
            }
        }
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

/* Pair k by hop. Edges are those into its rows, and to the other part those out of it. */
static void pair_hops(const struct side_tables *tables, const struct side *side, int32_t k, struct part_sizes *sizes)
{
    struct part_halo *own = &sizes[side->part].halo, *other = &sizes[side->block[k].part].halo;
    struct part_pairs *pairs = &own->pairs[PART_DIRECTION_IN];
    int64_t n_hop = tables->partition->n_hop, n_edge[PART_N_HOP_MOST] = {0};
    if (n_hop == 0) {
        return;
    }
    side_columns_hops(tables, side, k, pairs->n_col_hop + k * n_hop);
    side_rows_hops(tables, side, k, pairs->n_row_hop + k * n_hop, n_edge);
    for (int64_t h = 0; h < n_hop; h++) {
        own->n_edge_hop[PART_DIRECTION_IN][h] += n_edge[h];
        other->n_edge_hop[PART_DIRECTION_OUT][h] += n_edge[h];
    }
}

/* Part p's pairs along in-edges, and the rows that are stored with it. */
static enum status part_count(const struct side_tables *tables, int32_t p, struct part_sizes *sizes)
{
    struct part_halo *halo = &sizes[p].halo;
    struct part_pairs *pairs = &halo->pairs[PART_DIRECTION_IN];
    struct side side;
    enum status status = side_count(tables, PART_DIRECTION_IN, p, NULL, false, &side);
    if (status == STATUS_OK) {
        status = part_halo_acquire(halo, PART_DIRECTION_IN, side.n_block);
    }
    for (int32_t k = 0; k < side.n_block && status == STATUS_OK; k++) {
        const struct side_block *block = &side.block[k];
        pair_add(pairs, k, block->part, &block->counts);
        pairs->own = block->part == p ? k : pairs->own;
        pair_hops(tables, &side, k, sizes);
    }
    if (tables->partition->stores && status == STATUS_OK) {
        sizes[p].n_halo = pairs->pair[pairs->n_pair].col - sizes[p].n_own;
        sizes[p].n_halo_value = tables->dataset->features.indptr != NULL
                                    ? side_values(tables, &side)
                                    : sizes[p].n_halo * tables->dataset->facts.n_feature;
    }
    side_release(&side);
    return status;
}

/* All parts' pairs along in-edges. */
static enum status parts_count(const struct dataset *dataset, const struct partition *partition,
                               struct part_sizes *sizes)
{
    struct side_tables tables;
    size_t n_bit = dataset->edges.row != NULL ? (size_t)(dataset->edges.n_row + dataset->n_node) / 8 + 1 : 0;
    uint8_t *counted = NULL;
    enum status status = side_tables_open(dataset, partition, &tables);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, n_bit, sizeof *counted, &counted);
    }
    for (int32_t p = 0; p < partition->n_part && status == STATUS_OK; p++) {
        status = part_count(&tables, p, sizes);
        if (n_bit > 0) {
            edge_rows_count(dataset, partition, p, counted, sizes);
        }
    }
    side_tables_close(&tables);
    memory_release(MEMORY_OTHER, counted, n_bit, sizeof *counted);
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
                             int64_t n_link, struct part_sizes *sizes)
{
    sizes->n_feature_value = sizes->n_own * dataset->facts.n_feature;
    if (dataset->features.indptr != NULL) {
        sizes->n_feature_value = part_feature_values(dataset, partition->order + partition->part_begin[p],
                                                     sizes->n_own, &sizes->n_embedded);
    }
    struct part_header header;
    part_header_init(&header, dataset, partition);
    header.n_own = sizes->n_own;
    header.links.n = n_link;
    header.links.n_here = sizes->n_link_here;
    header.features.n_value = header.flags.features == PART_FEATURES_SPARSE ? sizes->n_feature_value : 0;
    header.features.n_embedded = sizes->n_embedded;
    header.edges.n_row = sizes->n_edge_row;
    header.n_halo = sizes->n_halo;
    header.features.n_halo_value = header.flags.features == PART_FEATURES_SPARSE ? sizes->n_halo_value : 0;
    int n_direction = dataset->facts.symmetric ? 1 : PART_DIRECTION_N;
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
            .part = p, .n_part = n_part, .n_hop = partition->n_hop, .symmetric = dataset->facts.symmetric};
    }
    int64_t *links = memory_alloc((size_t)n_part, sizeof *links),
            n_link = links_places_count(dataset, partition->owner, n_part, links);
    for (int32_t p = 0; p < n_part; p++) {
        sizes[p].n_link_here = links[p];
    }
    free(links);
    enum status status = parts_count(dataset, partition, sizes);
    if (status == STATUS_OK && !dataset->facts.symmetric) {
        status = parts_transpose(n_part, sizes);
    }
    for (int32_t p = 0; p < n_part && status == STATUS_OK; p++) {
        part_halo_mirror(&sizes[p].halo);
        status = part_fill(dataset, partition, p, n_link, &sizes[p]);
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
