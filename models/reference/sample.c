/* Blocks made of others for one halo pass: edges of listed columns, and edges from their other ends. */
#include "models/reference/reference.h"
#include "protocol/base/amounts.h"

#include <string.h>

/* Of a block being made. */
struct arrays {
    int64_t *indptr; /* n_row + 1 */
    uint32_t *cols;
    float *weights; /* or edges' rows of a table */
    uint16_t *types;
};

/* One behind another in scratch. */
static struct arrays arrays_place(const struct device_block *block, int64_t n_row, void *scratch)
{
    struct arrays a = {.indptr = scratch};
    a.cols = (uint32_t *)(void *)(a.indptr + n_row + 1);
    a.weights = (float *)(void *)(a.cols + block->n_edge);
    a.types = (uint16_t *)(void *)(a.weights + (block->weights != NULL ? block->n_edge : 0));
    a.weights = block->weights != NULL ? a.weights : NULL;
    a.types = block->types != NULL ? a.types : NULL;
    return a;
}

static struct device_block block_of(const struct arrays *a, int64_t n_row, int64_t n_col)
{
    return (struct device_block){.n_row = n_row,
                                 .n_col = n_col,
                                 .n_edge = a->indptr[n_row],
                                 .indptr = a->indptr,
                                 .cols = a->cols,
                                 .types = a->types,
                                 .weights = a->weights};
}

/* The block's edge e is the next one of row r, which ends behind it. */
static void edge_put(const struct device_block *block, int64_t e, int64_t r, uint32_t col, const struct arrays *to)
{
    int64_t at = to->indptr[r + 1]++;
    to->cols[at] = col;
    if (to->weights != NULL) {
        memcpy(&to->weights[at], &block->weights[e], sizeof *to->weights);
    }
    if (to->types != NULL) {
        to->types[at] = block->types[e];
    }
}

/* Place of a column in the list; n_kept where it is not there. */
static int64_t place_of(uint32_t col, int64_t n_kept, const uint32_t *kept)
{
    int64_t at = ascending_find(kept, 0, n_kept, col);
    return at < n_kept && kept[at] == col ? at : n_kept;
}

void reference_block_sample(struct device *device, const struct device_block *block, int64_t n_kept,
                            const uint32_t *kept, void *scratch, struct device_block *out)
{
    const struct arrays to = arrays_place(block, block->n_row, scratch);
    (void)device;
    to.indptr[0] = 0;
    for (int64_t r = 0; r < block->n_row; r++) {
        to.indptr[r + 1] = to.indptr[r];
        for (int64_t e = block->indptr[r]; e < block->indptr[r + 1]; e++) {
            int64_t place = place_of(block->cols[e], n_kept, kept);
            if (place < n_kept) {
                edge_put(block, e, r, (uint32_t)place, &to);
            }
        }
    }
    *out = block_of(&to, block->n_row, n_kept);
    out->rows = block->rows;
    out->edge_table = block->edge_table;
}

/* Put the edges of one type (of all, in an untyped block), row after row; returns how many there are. */
static int64_t type_put(const struct device_block *block, int64_t type, const struct arrays *to)
{
    int64_t n = 0;
    for (int64_t r = 0; r < block->n_row; r++) {
        for (int64_t e = block->indptr[r]; e < block->indptr[r + 1]; e++) {
            if (block->types == NULL || block->types[e] == type) {
                edge_put(block, e, block->cols[e], block->rows != NULL ? block->rows[r] : (uint32_t)r, to);
                n++;
            }
        }
    }
    return n;
}

void reference_block_transpose(struct device *device, const struct device_block *block, int64_t n_own, void *scratch,
                               struct device_block *out)
{
    const struct arrays to = arrays_place(block, block->n_col, scratch);
    int64_t n_edge = block->indptr[block->n_row] - block->indptr[0];
    (void)device;
    memset(to.indptr, 0, (size_t)(block->n_col + 1) * sizeof *to.indptr);
    for (int64_t e = block->indptr[0]; e < block->indptr[block->n_row]; e++) {
        int64_t behind = (int64_t)block->cols[e] + 2;
        to.indptr[behind <= block->n_col ? behind : 0]++;
    }
    to.indptr[0] = 0;
    for (int64_t c = 0; c < block->n_col; c++) { /* indptr[c + 1]: where column c's edges begin, until they are put */
        to.indptr[c + 1] += to.indptr[c];
    }
    for (int64_t type = 0; n_edge > 0; type++) {
        n_edge -= type_put(block, type, &to);
    }
    *out = block_of(&to, block->n_col, n_own);
    out->edge_table = block->edge_table;
}
