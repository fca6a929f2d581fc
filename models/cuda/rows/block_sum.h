/* Sums of doubles over the lanes of a row and the threads of a block, in fixed trees; for losses. */
#ifndef MODELS_CUDA_BLOCK_SUM_H
#define MODELS_CUDA_BLOCK_SUM_H

#include "models/cuda/kernel.h"

/* In all lanes. */
template <int LANES> static __device__ __forceinline__ double lanes_sum(double x)
{
    for (int apart = LANES / 2; apart > 0; apart /= 2) {
        x += __shfl_xor_sync(ALL_LANES, x, apart, WARP);
    }
    return x;
}

/* The sum over the block's threads of a number each, in a fixed tree; thread 0's. */
static __device__ __forceinline__ double block_sum(double *kept, double x)
{
    const int t = (int)threadIdx.x;
    x = lanes_sum<WARP>(x);
    __syncthreads();
    if (t % WARP == 0) {
        kept[t / WARP] = x;
    }
    __syncthreads();
    double sum = 0.0;
    for (int i = 0; t == 0 && i < BLOCK_THREADS / WARP; i++) {
        sum += kept[i];
    }
    return sum;
}

/* sum += factor · the chunks' sums, in order. */
extern "C" void cuda_sums_combine(struct device *device, int64_t n_chunk, const double *partial, double factor,
                                  double *sum);

#endif
