/* Dense products between dense.c, which chooses, and the kernels of product.cu. */
#ifndef MODELS_CUDA_DENSE_H
#define MODELS_CUDA_DENSE_H

#include "models/cuda/cuda.h"

/* c[m, n] (+)= Σ_k a[m, k] · b[n, k] (+ bias[n]); element [i, j] of x lies at i · x_<row> + j · x_k, where one of
 * the two steps of a and of b is 1, and the other is the length of what that one steps along. Each is floats or BF16
 * (device->bf16): b only where its rows lie side by side, c only where c_n is 1 and there is one chunk. */
struct cuda_product {
    int64_t m, n, k;
    const void *a;
    int64_t a_m, a_k;
    const void *b;
    int64_t b_n, b_k;
    const float *bias; /* n, or NULL */
    void *c;
    int64_t c_m, c_n;
    int64_t chunk; /* so many of the k are added up by themselves, … */
    int64_t size;  /* … chunk i at c + i · size; 0: there is one chunk */
    int64_t c_is_bf16;
    int64_t add; /* words alone: arguments of kernels have no holes */
};

/* As device->products says; fp32: one fma after another in the order of k. n, k and steps are below 2^31 (D91). */
void cuda_multiply(struct device *device, const struct cuda_product *product);

/* out (+)= chunk 0 + chunk 1 + …, of n_value each */
void cuda_chunks_sum(struct device *device, int64_t n_value, int64_t n_chunk, const float *chunk, bool add,
                     float *out);

#endif
