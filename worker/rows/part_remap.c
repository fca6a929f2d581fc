#include "worker/rows/part_remap.h"

#include "protocol/base/memory.h"

#include <string.h>

int64_t part_remap_bytes(const struct part_pairs *pairs, bool covers, bool weighted)
{
    int64_t n_edge = part_pair_off_diagonal(pairs, pairs->n_pair).edge, n_ptr = part_remap_ptr(pairs, pairs->n_pair),
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
        any = k != pairs->own && (local ? setup->in_place : setup->shares);
    }
    return any;
}

/* A block as the part has it; of a part of this rank with that part's own rows as columns. */
static void block_copy(const struct part_device_setup *setup, const struct part *part, enum part_direction d,
                       int32_t k, const struct part_remap *to)
{
    const struct part_pairs *pairs = &part->halo.pairs[d];
    const struct part_block from = part_block_at(part, d, k);
    int64_t edge = part_pair_off_diagonal(pairs, k).edge;
    uint32_t *cols = to->cols + edge;
    memcpy(cols, from.cols, (size_t)from.n_edge * sizeof *cols);
    if (to->indptr != NULL) {
        memcpy(to->indptr + part_remap_ptr(pairs, k), from.indptr, ((size_t)from.n_row + 1) * sizeof *to->indptr);
    }
    if (to->weights != NULL) {
        memcpy(to->weights + edge, from.weights, (size_t)from.n_edge * sizeof *to->weights);
    }
    int32_t q = pairs->pair[k].part;
    if (setup->in_place && part_is_local(setup, part, q)) {
        const struct part_send rows = part_send(setup->parts[q], d, part->part);
        for (int64_t e = 0; e < from.n_edge; e++) {
            cols[e] = rows.rows[cols[e]];
        }
    }
}

enum status part_remap_open(const struct part_device_setup *setup, const struct part *part, enum part_direction d,
                            struct part_remap *out)
{
    const struct part_pairs *pairs = &part->halo.pairs[d];
    bool covers = setup->covers, weighted = part->arrays[d].weights != NULL;
    char *made;
    if (!is_wanted(setup, part, d)) {
        return STATUS_OK;
    }
    int64_t n_bytes = part_remap_bytes(pairs, covers, weighted), n_ptr = part_remap_ptr(pairs, pairs->n_pair);
    enum status status = memory_acquire(MEMORY_STRUCTURE, (size_t)n_bytes, 1, &made);
    if (status != STATUS_OK) {
        return status;
    }
    out->made = (struct part_lent){.host = made, .n_bytes = n_bytes};
    out->indptr = covers ? (int64_t *)(void *)made : NULL;
    out->cols = (uint32_t *)(void *)(made + (covers ? n_ptr * (int64_t)sizeof(int64_t) : 0));
    out->weights = covers && weighted
                       ? (float *)(void *)(out->cols + part_pair_off_diagonal(pairs, pairs->n_pair).edge)
                       : NULL;
    for (int32_t k = 0; k < pairs->n_pair; k++) {
        if (k != pairs->own) {
            block_copy(setup, part, d, k, out);
        }
    }
    return STATUS_OK;
}

void part_remap_close(const struct part_device_setup *setup, struct part_remap *remap)
{
    part_made_release(setup, &remap->made);
    *remap = (struct part_remap){0};
}

struct part_block part_remap_block(const struct part *part, enum part_direction d, int32_t k,
                                   const struct part_remap *remap)
{
    const struct part_pairs *pairs = &part->halo.pairs[d];
    struct part_block block = part_block_at(part, d, k);
    if (remap == NULL || k == pairs->own) {
        return block;
    }
    int64_t edge = part_pair_off_diagonal(pairs, k).edge;
    block.cols = remap->cols + edge;
    if (remap->indptr != NULL) {
        block.indptr = remap->indptr + part_remap_ptr(pairs, k);
        block.n_edge = block.indptr[block.n_row];
    }
    if (remap->weights != NULL) {
        block.weights = remap->weights + edge;
    }
    return block;
}
