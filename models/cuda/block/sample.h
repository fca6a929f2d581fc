/* The places of blocks made from others in scratch; for sample.cu and transpose.cu. */
#ifndef MODELS_CUDA_SAMPLE_H
#define MODELS_CUDA_SAMPLE_H

#include "models/cuda/cuda.h"

/* A block as kernels take it. */
struct cuda_edges {
    int64_t n_row, n_col;
    const uint32_t *rows;
    const int64_t *indptr;
    const uint32_t *cols;
    const float *weights;
    const uint16_t *types;
};

struct cuda_edges cuda_edges_make(const struct device_block *block);

/* The arrays of a result, and its workspace. */
struct cuda_made {
    void *schedule;
    int64_t *indptr; /* n_row + 1 */
    uint32_t *cols;
    float *weights;  /* or edges' rows of a table, moved as 4 bytes; NULL: the block is unweighted */
    uint16_t *types; /* likewise */
    char *work;
};

/* A result with n_row rows, of a block with these arrays. */
struct cuda_made cuda_made_place(int64_t n_row, int64_t n_col, int64_t n_edge, bool weighted, bool typed,
                                 char *scratch);

/* The result as a block. */
struct device_block cuda_made_block(const struct cuda_made *made, int64_t n_row, int64_t n_col, int64_t n_edge);

#endif
