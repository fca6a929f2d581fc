#include "worker/rows/part_remap.h"

#include "protocol/base/memory.h"

#include <string.h>

/* Where the block of pair k begins among a copy's ends: one more than rows for each block. */
static int64_t ptr_of(const struct part_pairs *pairs, int32_t k)
{
    return part_pair_off_diagonal(pairs, k).row + k - (k > pairs->own);
}

bool part_remap_copies(const struct program *program, enum part_direction d)
{
    bool returns = false;
    for (int i = 0; i < program->n_op && !returns; i++) {
        const struct op *op = &program->op[i];
        returns = op->kind == OP_KIND_AGGREGATE && aggregate_returns(program, op->aggregate);
    }
    return returns || (d == PART_DIRECTION_IN && program_stores(program));
}

int64_t part_remap_bytes(const struct part_pairs *pairs, bool covers, bool weighted)
{
    int64_t n_edge = part_pair_off_diagonal(pairs, pairs->n_pair).edge, n_ptr = ptr_of(pairs, pairs->n_pair),
            each = (int64_t)(sizeof(uint32_t) + (covers && weighted ? sizeof(float) : 0));
    return n_edge * each + (covers ? n_ptr * (int64_t)sizeof(int64_t) : 0);
}

/* Does some pass read blocks of this direction remapped: with parts of this rank in place, or with others from shared
 * lists? */
static bool is_wanted(const struct part_device_setup *setup, const struct part *part, enum part_direction d)
{
    const struct part_pairs *pairs = &part->halo.pairs[d];
    bool any = false;
    for (int32_t k = 0; k < pairs->n_pair && !any; k++) {
        bool local = part_is_local(setup, part, pairs->pair[k].part);
        any = k != pairs->own && (local ? setup->in_place : setup->dedups);
    }
    return any;
}

/* Columns of blocks with parts of this rank become those parts' own rows. */
static void columns_remap(const struct part_device_setup *setup, const struct part *part, enum part_direction d,
                          const struct part_remap *remap)
{
    const struct part_pairs *pairs = &part->halo.pairs[d];
    for (int32_t k = 0; k < pairs->n_pair && setup->in_place; k++) {
        int32_t q = pairs->pair[k].part;
        if (!part_is_local(setup, part, q)) {
            continue;
        }
        const struct part_send rows = part_send(setup->parts[q], d, part->part);
        uint32_t *cols = part_remap_edges(remap, pairs, k).cols;
        for (int64_t e = 0; e < part_pair_edges(pairs, k); e++) {
            cols[e] = rows.rows[cols[e]];
        }
    }
}

/* The blocks as the part has them. */
static enum status blocks_copy(const struct part *part, enum part_direction d, bool covers, struct part_remap *out)
{
    const struct part_pairs *pairs = &part->halo.pairs[d];
    bool weighted = part->arrays[d].weights != NULL;
    int64_t n_bytes = part_remap_bytes(pairs, covers, weighted), n_ptr = covers ? ptr_of(pairs, pairs->n_pair) : 0;
    char *made;
    enum status status = memory_acquire(MEMORY_STRUCTURE, (size_t)n_bytes, 1, &made);
    if (status != STATUS_OK) {
        return status;
    }
    out->made = (struct part_lent){.host = made, .n_bytes = n_bytes};
    out->edges.indptr = covers ? (int64_t *)(void *)made : NULL;
    out->edges.cols = (uint32_t *)(void *)(made + n_ptr * (int64_t)sizeof(int64_t));
    out->edges.weights = covers && weighted
                             ? (float *)(void *)(out->edges.cols + part_pair_off_diagonal(pairs, pairs->n_pair).edge)
                             : NULL;
    for (int32_t k = 0; k < pairs->n_pair; k++) {
        if (k == pairs->own) {
            continue;
        }
        const struct part_block from = part_block_at(part, d, k);
        const struct part_edges to = part_remap_edges(out, pairs, k);
        memcpy(to.cols, from.cols, (size_t)from.n_edge * sizeof *to.cols);
        if (to.indptr != NULL) {
            memcpy(to.indptr, from.indptr, ((size_t)from.n_row + 1) * sizeof *to.indptr);
        }
        if (to.weights != NULL) {
            memcpy(to.weights, from.weights, (size_t)from.n_edge * sizeof *to.weights);
        }
    }
    return STATUS_OK;
}

enum status part_remap_open(const struct part_device_setup *setup, struct part *part, enum part_direction d,
                            struct part_remap *out)
{
    bool wanted = is_wanted(setup, part, d), copies = part_remap_copies(setup->program, d);
    enum status status = wanted && copies ? blocks_copy(part, d, setup->covers, out) : STATUS_OK;
    if (wanted && !copies) {
        out->edges = part_take_edges(part, d, setup->covers);
    }
    if (wanted && status == STATUS_OK) {
        columns_remap(setup, part, d, out);
    }
    return status;
}

void part_remap_close(const struct part_device_setup *setup, struct part_remap *remap)
{
    part_made_release(setup, &remap->made);
    *remap = (struct part_remap){0};
}

struct part_edges part_remap_edges(const struct part_remap *remap, const struct part_pairs *pairs, int32_t k)
{
    const struct part_edges *all = &remap->edges;
    bool copied = remap->made.host != NULL;
    int64_t edge = copied ? part_pair_off_diagonal(pairs, k).edge : pairs->pair[k].edge,
            ptr = copied ? ptr_of(pairs, k) : pairs->pair[k].row + k;
    return (struct part_edges){.indptr = all->indptr != NULL ? all->indptr + ptr : NULL,
                               .cols = all->cols + edge,
                               .weights = all->weights != NULL ? all->weights + edge : NULL};
}

struct part_block part_remap_block(const struct part *part, enum part_direction d, int32_t k,
                                   const struct part_remap *remap)
{
    const struct part_pairs *pairs = &part->halo.pairs[d];
    struct part_block block = part_block_at(part, d, k);
    if (remap == NULL || remap->edges.cols == NULL || (k == pairs->own && block.cols != NULL)) {
        return block;
    }
    const struct part_edges edges = part_remap_edges(remap, pairs, k);
    block.cols = edges.cols;
    if (edges.indptr != NULL) {
        block.indptr = edges.indptr;
        block.n_edge = edges.indptr[block.n_row];
    }
    if (edges.weights != NULL) {
        block.weights = edges.weights;
    }
    return block;
}
