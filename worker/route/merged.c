#include "worker/route/merged.h"

#include "protocol/base/memory.h"

#include <stdlib.h>
#include <string.h>

struct merged {
    const struct own_parts *own;
    const struct memory_rows *rows;
    int64_t most_edges;
    /* indptr NULL: there is none; both the same where the graph is symmetric */
    struct device_block block[PART_DIRECTION_N];
    struct part_lent made[PART_DIRECTION_N]; /* its arrays */
    struct part_lent scale;                  /* rows.n_row; empty: none */
};

/* The edges of one block add to the ends of its rows. end: of the part's first row */
static void rows_count(const struct part_block *block, int64_t *end)
{
    for (int64_t r = 0; r < block->n_row; r++) {
        end[block->rows != NULL ? block->rows[r] : r] += block->indptr[r + 1] - block->indptr[r];
    }
}

/* Ends of all rows, by their edges in all blocks; returns the edges of the longest. */
static int64_t indptr_fill(const struct merged *merged, enum part_direction d, int64_t *indptr)
{
    int64_t most = 0;
    for (int32_t i = 0; i < merged->own->n; i++) {
        const struct part *part = merged->own->part[i].part;
        for (int32_t k = 0; k < part->halo.pairs[d].n_pair; k++) {
            const struct part_block block = part_device_host_block(&merged->own->part[i], d, k);
            rows_count(&block, indptr + 1 + merged->rows->row_begin[i]);
        }
    }
    for (int64_t r = 0; r < merged->rows->n_row; r++) {
        most = indptr[r + 1] > most ? indptr[r + 1] : most;
        indptr[r + 1] += indptr[r];
    }
    return most;
}

/* Put the edges of one block behind those that its rows have so far. next: where each row's next one goes; border:
 * set in a row's first */
static void block_join(const struct part_block *block, uint32_t first_row, uint32_t border,
                       const struct part_edges *to, int64_t *next)
{
    for (int64_t r = 0; r < block->n_row; r++) {
        int64_t *at = &next[block->rows != NULL ? block->rows[r] : r];
        for (int64_t e = block->indptr[r]; e < block->indptr[r + 1]; e++, (*at)++) {
            to->cols[*at] = (first_row + block->cols[e]) | (e == block->indptr[r] ? border : 0);
            if (to->weights != NULL) {
                to->weights[*at] = block->weights[e];
            }
        }
    }
}

/* Own part i's blocks, in the order i, i+1, … (mod K). */
static void part_join(const struct merged *merged, enum part_direction d, int32_t i, const struct part_edges *to)
{
    const struct part *part = merged->own->part[i].part;
    const struct part_pairs *pairs = &part->halo.pairs[d];
    int64_t *next = memory_alloc((size_t)part->n_own, sizeof *next);
    memcpy(next, to->indptr + merged->rows->row_begin[i], (size_t)part->n_own * sizeof *next);
    for (int32_t s = 0; s < pairs->n_pair; s++) {
        int32_t k = (pairs->own + s) % pairs->n_pair, j = merged->own->index[pairs->pair[k].part];
        const struct part_block block = part_device_host_block(&merged->own->part[i], d, k);
        uint32_t border = s > 0 && part->covered ? DEVICE_BORDER : 0;
        block_join(&block, (uint32_t)merged->rows->row_begin[j], border, to, next);
    }
    free(next);
}

static enum status side_open(const struct merged *merged, enum part_direction d, struct device_block *block,
                             struct part_lent *lent)
{
    bool weighted = merged->own->part[0].part->weighted;
    int64_t n_row = merged->rows->n_row, n_edge = 0;
    for (int32_t i = 0; i < merged->own->n; i++) {
        n_edge += part_edges(merged->own->part[i].part, d, PROGRAM_HOP_ALL);
    }
    int64_t n_bytes = memory_merged_bytes(n_row, n_edge, weighted);
    char *made;
    enum status status = memory_acquire(MEMORY_STRUCTURE, (size_t)n_bytes, 1, &made);
    if (status != STATUS_OK) {
        return status;
    }
    struct part_edges to = {.indptr = (int64_t *)(void *)made};
    to.cols = (uint32_t *)(void *)(to.indptr + n_row + 1);
    to.weights = weighted ? (float *)(void *)(to.cols + n_edge) : NULL;
    if (indptr_fill(merged, d, to.indptr) > merged->most_edges) {
        memory_release(MEMORY_STRUCTURE, made, (size_t)n_bytes, 1);
        return STATUS_OK;
    }
    for (int32_t i = 0; i < merged->own->n; i++) {
        part_join(merged, d, i, &to);
    }
    status = part_lend(&merged->own->setup, made, n_bytes, lent);
    *block = (struct device_block){.n_row = n_row,
                                   .n_col = n_row,
                                   .n_edge = n_edge,
                                   .indptr = part_lent_view(lent, to.indptr),
                                   .cols = part_lent_view(lent, to.cols),
                                   .weights = part_lent_view(lent, to.weights),
                                   .bordered = merged->own->part[0].part->covered};
    return status == STATUS_OK ? merged->own->setup.device->ops->block_open(merged->own->setup.device, block)
                               : status;
}

/* All parts' scales, one behind the other. */
static enum status scale_open(const struct merged *merged, struct part_lent *out)
{
    float *scale;
    enum status status = memory_acquire(MEMORY_STRUCTURE, (size_t)merged->rows->n_row, sizeof *scale, &scale);
    for (int32_t i = 0; i < merged->own->n && status == STATUS_OK; i++) {
        memcpy(scale + merged->rows->row_begin[i], merged->own->part[i].scales.host,
               (size_t)merged->own->part[i].part->n_own * sizeof *scale);
    }
    return status == STATUS_OK
               ? part_lend(&merged->own->setup, scale, merged->rows->n_row * (int64_t)sizeof *scale, out)
               : status;
}

enum status merged_open(const struct own_parts *own, const struct memory_rows *rows,
                        const int64_t merges[PART_DIRECTION_N], int64_t most_edges, struct merged **out)
{
    struct merged *merged = *out = memory_alloc(1, sizeof *merged);
    merged->own = own;
    merged->rows = rows;
    merged->most_edges = most_edges;
    bool symmetric = own->part[0].part->symmetric, scaled = own->setup.scaled != NULL;
    int n_side = symmetric ? 1 : PART_DIRECTION_N;
    enum status status = STATUS_OK;
    for (int d = 0; d < n_side && status == STATUS_OK; d++) {
        if (merges[d] > 0) {
            status = side_open(merged, (enum part_direction)d, &merged->block[d], &merged->made[d]);
        }
    }
    if (symmetric) {
        merged->block[PART_DIRECTION_OUT] = merged->block[PART_DIRECTION_IN];
    }
    /* Either direction scales: a rank whose in-edges come from others may have all of its out-edges to itself. */
    bool any = merges[PART_DIRECTION_IN] > 0 || merges[PART_DIRECTION_OUT] > 0;
    return status == STATUS_OK && any && scaled ? scale_open(merged, &merged->scale) : status;
}

void merged_close(struct merged *merged)
{
    if (merged == NULL) {
        return;
    }
    for (int d = 0; d < PART_DIRECTION_N; d++) {
        if (merged->made[d].device != NULL) {
            merged->own->setup.device->ops->block_close(merged->own->setup.device, &merged->block[d]);
        }
        part_made_release(&merged->own->setup, &merged->made[d]);
    }
    part_made_release(&merged->own->setup, &merged->scale);
    free(merged);
}

const struct device_block *merged_block(const struct merged *merged, enum part_direction d)
{
    return merged->block[d].indptr != NULL ? &merged->block[d] : NULL;
}

const float *merged_scale(const struct merged *merged)
{
    return (const float *)(const void *)merged->scale.device;
}
