/* Feature rows in CSR between sparse.c, which opens them, and the kernels of sparse.cu. */
#ifndef MODELS_CUDA_SPARSE_H
#define MODELS_CUDA_SPARSE_H

#include "models/cuda/cuda.h"

/* The csr by columns, in device memory: the rows that store column c, ascending, and where the value lies. */
struct cuda_columns {
    int64_t n_col, n_value;
    int64_t *indptr;          /* n_col + 1 */
    uint32_t *rows;           /* n_value */
    uint32_t *position;       /* n_value */
    float *values;            /* n_value: those of a call, by column */
    int64_t n_run;            /* of the columns that are single rows' own */
    struct embedded_run *run; /* n_run */
    void *by_row, *by_column; /* schedules of the blocks whose sums the products are */
};

/* The csr as a block: y's row r adds up the rows of wᵀ at its stored columns; and by columns: grad_wᵀ's row c those
 * of grad_y at the rows that store column c. */
struct device_block cuda_csr_by_row(const struct device_csr *csr, const float *weights);
struct device_block cuda_csr_by_column(const struct device_csr *csr, const float *weights);

#endif
