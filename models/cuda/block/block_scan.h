/* The sum of the numbers of all threads before each one of a block of BLOCK_THREADS. */
#ifndef MODELS_CUDA_BLOCK_SCAN_H
#define MODELS_CUDA_BLOCK_SCAN_H

#include "models/cuda/kernel.h"

/* All threads of the block call it; *sum becomes the sum over all of them. */
static __device__ int64_t block_scan(int64_t x, int64_t *sum)
{
    SHARED(int64_t, warp_sum, BLOCK_THREADS / WARP);
    const int lane = (int)(threadIdx.x % WARP), warp = (int)(threadIdx.x / WARP);
    int64_t behind = x, before = 0, all = 0;
    for (int d = 1; d < WARP; d *= 2) {
        const int64_t other = __shfl_up_sync(ALL_LANES, behind, d, WARP);
        behind += lane >= d ? other : 0;
    }
    __syncthreads(); /* what the call before has read is no longer needed */
    if (lane == WARP - 1) {
        warp_sum[warp] = behind;
    }
    __syncthreads();
    for (int w = 0; w < BLOCK_THREADS / WARP; w++) {
        before += w < warp ? warp_sum[w] : 0;
        all += warp_sum[w];
    }
    *sum = all;
    return before + behind - x;
}

#endif
