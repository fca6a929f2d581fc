/* A part's blocks: their list as it is encoded, checked and made places, and each block's arrays by its place. */
#include "partition/part/part_format.h"

enum status part_block_fail(enum part_direction d, int32_t q, const char *expected)
{
    return status_fail(STATUS_DATA, "encoded part: section '%s', block %d: expected %s",
                       part_section_name(part_side_section(d, PART_SIDE_BLOCKS)), q, expected);
}

/* A block's part and counts, and its edges as its indptr has them; `left` is what the blocks before have left of the
 * totals. */
static enum status check_listed(const struct part_header *h, enum part_direction d, const struct part_listed *b,
                                int64_t n_edge, const struct part_counts *left)
{
    int32_t q = (int32_t)b->part;
    bool own = q == h->part;
    if (b->n_row > h->n_own || b->n_col > h->n_node || (!own && (b->n_row > left->n_row || b->n_col > left->n_col))) {
        return part_block_fail(d, q, "rows and columns within the part, the graph and the total");
    }
    if (own && (b->n_row != h->n_own || b->n_col != h->n_own)) {
        return part_block_fail(d, q, "all own rows and columns on the diagonal");
    }
    if (n_edge < 0 || n_edge > left->n_edge) {
        return part_block_fail(d, q, "an indptr from 0 to the number of edges");
    }
    if (!own && (b->n_row == 0 || b->n_col == 0 || n_edge < b->n_row || n_edge < b->n_col)) {
        return part_block_fail(d, q, "an edge for each row and for each column");
    }
    return STATUS_OK;
}

/* Edges of a block whose indptr begins here; -1 where that is not with 0, or the indptr ends behind all others. */
static int64_t edges_of(const int64_t *indptr, const struct part_listed *b, int64_t n_left)
{
    return b->n_row < n_left && indptr[0] == 0 ? indptr[b->n_row] : -1;
}

enum status part_blocks_open(const struct part_header *h, enum part_direction d, struct part *part)
{
    const struct part_listed *listed = (const void *)((const char *)h +
                                                      h->section[part_side_section(d, PART_SIDE_BLOCKS)].offset);
    struct part_pairs *pairs = &part->halo.pairs[d];
    struct part_counts left = h->total[d];
    struct part_pair at = {0};
    int64_t n_indptr = left.n_row + h->n_own + pairs->n_pair;
    if (left.n_col > h->n_node - h->n_own) {
        return part_block_fail(d, h->part, "each node of another part once at most");
    }
    pairs->own = -1;
    for (int32_t k = 0; k < pairs->n_pair; k++) {
        const struct part_listed *b = &listed[k];
        if (b->part >= (uint32_t)h->n_part || (k > 0 && b->part <= listed[k - 1].part)) {
            return part_block_fail(d, (int32_t)b->part, "ascending part numbers below the number of parts");
        }
        int64_t n_edge = edges_of(part->arrays[d].indptr + at.row + k, b, n_indptr - at.row - k);
        enum status status = check_listed(h, d, b, n_edge, &left);
        if (status != STATUS_OK) {
            return status;
        }
        bool own = (int32_t)b->part == h->part;
        pairs->own = own ? k : pairs->own;
        at.part = (int32_t)b->part;
        pairs->pair[k] = at;
        at.row += b->n_row;
        at.col += b->n_col;
        at.edge += n_edge;
        left.n_row -= own ? 0 : b->n_row;
        left.n_col -= own ? 0 : b->n_col;
        left.n_edge -= n_edge;
    }
    at.part = h->n_part;
    pairs->pair[pairs->n_pair] = at;
    if (pairs->own < 0 || left.n_row != 0 || left.n_col != 0 || left.n_edge != 0) {
        return part_block_fail(d, h->part, "a diagonal, and block sizes that add up to the header's totals");
    }
    return STATUS_OK;
}

/* From element i of an array on; of what the part does not have, NULL. */
#define AT(array, i) ((array) != NULL ? (array) + (i) : NULL)

struct part_block part_block_at(const struct part *part, enum part_direction d, int32_t k)
{
    const struct part_pairs *pairs = &part->halo.pairs[d];
    const struct part_arrays *from = &part->arrays[d];
    const struct part_pair *at = &pairs->pair[k];
    bool own = k == pairs->own;
    int64_t before = k > pairs->own ? part->n_own : 0, col = (int64_t)at->col - before;
    return (struct part_block){.n_row = part_pair_rows(pairs, k),
                               .n_col = part_pair_cols(pairs, k),
                               .n_edge = part_pair_edges(pairs, k),
                               .rows = own ? NULL : from->rows + at->row - before,
                               .indptr = AT(from->indptr, at->row + k),
                               .cols = AT(from->cols, at->edge),
                               .types = AT(from->types, at->edge),
                               .weights = AT(from->weights, at->edge),
                               .degree = own ? part->degree : from->degree + col,
                               .strength = own ? part->strength : AT(from->strength, col),
                               .node = own ? part->node : from->node + col};
}

struct part_block part_block(const struct part *part, enum part_direction d, int32_t q)
{
    int32_t k = part_pair_find(&part->halo.pairs[d], q);
    return k >= 0 ? part_block_at(part, d, k) : (struct part_block){0};
}

/* The same array, as the bytes' owner has it. */
static void *owned(const struct part *part, const void *array)
{
    return array != NULL ? (char *)part->bytes + ((const char *)array - (const char *)part->bytes) : NULL;
}

struct part_edges part_take_edges(struct part *part, enum part_direction d, bool covers)
{
    struct part_arrays *from = &part->arrays[d];
    const struct part_edges out = {.indptr = covers ? owned(part, from->indptr) : NULL,
                                   .cols = owned(part, from->cols),
                                   .weights = covers ? owned(part, from->weights) : NULL};
    from->cols = NULL;
    if (covers) {
        from->indptr = NULL;
        from->weights = NULL;
    }
    if (part->facts.symmetric) {
        part->arrays[PART_DIRECTION_N - 1 - d] = *from;
    }
    return out;
}

struct part_send part_send(const struct part *part, enum part_direction d, int32_t q)
{
    const struct part_block opposite = part_block(part,
                                                  d == PART_DIRECTION_IN ? PART_DIRECTION_OUT : PART_DIRECTION_IN, q);
    return q == part->part ? (struct part_send){0}
                           : (struct part_send){.n_row = opposite.n_row, .rows = opposite.rows};
}

int64_t part_rows_own(const struct part *part, int32_t hop)
{
    return hop < part->n_hop ? part_halo_own(&part->halo, hop) : part->n_own;
}

int64_t part_edges(const struct part *part, enum part_direction d, int32_t hop)
{
    const struct part_pairs *pairs = &part->halo.pairs[d];
    return hop < part->n_hop ? part->halo.n_edge_hop[d][hop] : pairs->pair[pairs->n_pair].edge;
}
