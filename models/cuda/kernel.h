/* Shared by .cu files: the spelling of shared memory and launches, sizes of blocks, reductions in a fixed tree,
 * draws.
 *
 * The same file is compiled by nvcc and by g++ against tests/emulator. Every product that is added is an explicit
 * fmaf, or a product rounded by itself: nvcc is told -fmad=false.
 */
#ifndef MODELS_CUDA_KERNEL_H
#define MODELS_CUDA_KERNEL_H

#include <cuda_runtime.h>

#ifdef __CUDACC__
#include <math_constants.h>
#define SHARED(T, name, n) __shared__ T name[n]
#define LAUNCH(kernel, grid, block, stream, ...) kernel<<<grid, block, 0, stream>>>(__VA_ARGS__)
/* Before a loop that must stay one: unrolled it takes more registers than there are. */
#define ROLLED _Pragma("unroll 1")
/* Before a loop whose arrays are registers: a long one would not be unrolled. */
#define UNROLLED _Pragma("unroll")
#else
#define ROLLED
#define UNROLLED
#endif

extern "C" {
#include "models/cuda/cuda.h"
}

#include <math.h>
#include <stdint.h>

#define ALL_LANES 0xffffffffU
#define WARP 32
/* Threads of a block where a kernel has no reason for another number. */
#define BLOCK_THREADS 256
/* Most blocks of one launch: kernels process the rest in steps of the grid. */
#define GRID_MOST 65535

/* Blocks for n pieces of work with `each` in a block; at least 1, since an empty launch is an error. */
static inline unsigned grid_size(int64_t n, int64_t each)
{
    int64_t n_block = (n + each - 1) / each;
    return (unsigned)(n_block < 1 ? 1 : n_block > GRID_MOST ? GRID_MOST : n_block);
}

/* This thread's number in the grid, and the number of threads: for (i = grid_thread(); i < n; i +=
 * grid_threads()). */
static __device__ __forceinline__ int64_t grid_thread()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ int64_t grid_threads()
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* Philox4x32-10, four draws of one quad of columns: protocol/base/random.h's. */
static __device__ __forceinline__ uint4 philox(uint4 c, unsigned k0, unsigned k1)
{
    for (int round = 0; round < RANDOM_PHILOX_ROUNDS; round++) {
        const unsigned high0 = __umulhi(RANDOM_PHILOX_M0, c.x), low0 = RANDOM_PHILOX_M0 * c.x;
        const unsigned high1 = __umulhi(RANDOM_PHILOX_M1, c.z), low1 = RANDOM_PHILOX_M1 * c.z;
        c = make_uint4(high1 ^ c.y ^ k0, low1, high0 ^ c.w ^ k1, low0);
        k0 += RANDOM_PHILOX_W0;
        k1 += RANDOM_PHILOX_W1;
    }
    return c;
}

/* random_u32's four draws for columns 4 · quad … of a row, in epoch `epoch`. */
static __device__ __forceinline__ uint4 draw_quad(const struct random_key key, uint32_t epoch, uint64_t row,
                                                  uint32_t quad)
{
    const uint32_t last = (uint32_t)key.op | ((uint32_t)(row >> 32) & 0xffU) << 16 | (uint32_t)key.stream << 24;
    return philox(make_uint4(quad, (uint32_t)row, epoch, last), (uint32_t)key.seed, (uint32_t)(key.seed >> 32));
}

static __device__ __forceinline__ uint32_t draw_at(const uint4 draws, unsigned k)
{
    return k == 0 ? draws.x : k == 1 ? draws.y : k == 2 ? draws.z : draws.w;
}

/* Which elements are kept: those whose draw is not below the threshold; 0: all. */
struct dropout {
    uint64_t threshold;
    struct random_key key;
    const struct device_now *now;
    const uint32_t *node;
};

static inline dropout dropout_make(const struct device_activate *activate)
{
    return {random_drop_threshold(activate->p), activate->key, activate->now, activate->node};
}

/* The draws of columns c / 4 · 4 … of row r. */
static __device__ __forceinline__ uint4 dropout_draws(const dropout &drop, int64_t r, int64_t c)
{
    const uint32_t epoch = drop.now != nullptr ? drop.now->epoch : drop.key.epoch;
    return draw_quad(drop.key, epoch, drop.node[r], (uint32_t)(c / 4));
}

/* Activations that take a comparison; others: x */
static __device__ __forceinline__ float activate_simple(int64_t kind, float x)
{
    const float slope = kind == DEVICE_ACTIVATION_RELU ? 0.0F : kind == DEVICE_ACTIVATION_LEAKY_RELU ? 0.01F : 1.0F;
    return x <= 0.0F && slope < 1.0F ? (slope > 0.0F ? slope * x : 0.0F) : x; /* NaN stays NaN */
}

#endif
