/* Sums over neighbours by cuSPARSE's SpMM, in place of aggregate.cu's kernels (model.kernel = "cusparse").
 *
 * A block is a sparse matrix A of n_row × n_node, its sums are A · X by CUSPARSE_SPMM_CSR_ALG3: the algorithm for CSR
 * that by its documentation gives the same bits in each run. Our own small kernels do the rest (scales, self terms,
 * existing values, listed rows), before and after it. Descriptors are made when a block is opened, memory that all
 * blocks use in turn is taken once.
 */
#ifndef MODELS_CUDA_SPMM_H
#define MODELS_CUDA_SPMM_H

#include "models/cuda/cuda.h"

/* out = A · x or A · x added to it, by cuSPARSE where the block has a matrix for rows of f columns. false: there is
 * no such matrix, and nothing is done.
 * errors  kept for `wait` */
bool cuda_spmm(struct device *device, const struct device_block *block, const struct device_aggregate *how, int64_t f,
               const float *x, float *out);

/* Descriptors of an opened block without types; NULL for one without edges.
 * errors  STATUS_DATA more edges than cuSPARSE takes; STATUS_PEER it cannot sum such a block */
enum status cuda_spmm_block_open(struct device *device, struct device_block *block);
void cuda_spmm_block_close(struct device *device, struct device_block *block);

/* --- spmm.cu --- */
/* Ends of rows in 32 bits, as wide as columns: n_row + 1. */
void cuda_spmm_offsets(struct device *device, int64_t n_row, const int64_t *indptr, int32_t *out);
/* out[e] = weights[e] · scale[cols[e]]; NULL: 1 */
void cuda_spmm_values(struct device *device, int64_t n_edge, const uint32_t *cols, const float *weights,
                      const float *scale, float *out);

/* out[rows[r]] = row_scale · (start + sum[r]), start: what is there, or self_scale · self, or 0. */
struct cuda_spmm_end {
    int64_t n_row, f;
    const uint32_t *rows;                       /* NULL: row r */
    const float *sum;                           /* n_row × f; may be out where rows is NULL */
    int64_t adds;                               /* 1: start from what is there. No hole: kernels take it by value */
    const float *self, *self_scale, *row_scale; /* NULL: none; 1 */
    float *out;
};
void cuda_spmm_finish(struct device *device, const struct cuda_spmm_end *how);

#endif
