/* Products by cuBLAS, which is opened at run time if the machine has it; only blas.c uses it. */
#ifndef MODELS_CUDA_BLAS_H
#define MODELS_CUDA_BLAS_H

#include "models/cuda/cuda.h"

/* c (+)= a · b, as BLAS counts: element (i, j) of x lies at i + j · x_step, of a transposed one at j + i · x_step.
 * n_product of them, each matrix `a_next`, `b_next`, `c_next` floats behind the one before. */
struct cuda_blas_product {
    bool a_transposed, b_transposed, add;
    int64_t m, n, k; /* c m × n, sums of k */
    const float *a;
    int64_t a_step, a_next;
    const float *b;
    int64_t b_step, b_next;
    float *c;
    int64_t c_step, c_next;
    int64_t n_product;
};

/* In float32, without TF32. Only where cuda_has_blas; m, n and k are below 2^31. errors  kept for `wait` */
void cuda_blas_multiply(struct device *device, const struct cuda_blas_product *product);

static inline bool cuda_has_blas(struct device *device)
{
    return cuda_device(device)->blas != NULL;
}

#endif
