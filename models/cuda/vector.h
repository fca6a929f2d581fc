/* Columns as lanes hold them: one float, or four that are loaded at once. */
#ifndef MODELS_CUDA_VECTOR_H
#define MODELS_CUDA_VECTOR_H

#include "models/cuda/kernel.h"

/* Floats of a T. */
template <typename T> constexpr int width_of = (int)(sizeof(T) / sizeof(float));

/* Can rows of f floats at these addresses be taken four at a time? NULL can. */
static inline bool by_fours(int64_t f, const void *x, const void *y, const void *z)
{
    return f % 4 == 0 && ((uintptr_t)x | (uintptr_t)y | (uintptr_t)z) % sizeof(float4) == 0;
}

/* Memory that no running kernel writes. */
template <typename T> static __device__ __forceinline__ T vector_read(const float *x)
{
    return __ldg((const T *)x);
}

static __device__ __forceinline__ void bf16_read(const uint16_t *x, float *to)
{
    *to = __uint_as_float((uint32_t)__ldg(x) << 16);
}

static __device__ __forceinline__ void bf16_read(const uint16_t *x, float4 *to)
{
    const uint2 pairs = __ldg((const uint2 *)x);
    *to = make_float4(__uint_as_float(pairs.x << 16), __uint_as_float(pairs.x & 0xffff0000U),
                      __uint_as_float(pairs.y << 16), __uint_as_float(pairs.y & 0xffff0000U));
}

/* Element `at` of an array of floats or of BF16, and those that follow. */
template <typename T, bool BF16> static __device__ __forceinline__ T element_read(const void *x, int64_t at)
{
    if (BF16) {
        T value;
        bf16_read((const uint16_t *)x + at, &value);
        return value;
    }
    return vector_read<T>((const float *)x + at);
}

template <typename T> static __device__ __forceinline__ T vector_load(const float *x)
{
    return *(const T *)x;
}

template <typename T> static __device__ __forceinline__ void vector_store(float *x, T value)
{
    *(T *)x = value;
}

static __device__ __forceinline__ void vector_set(float x, float *to)
{
    *to = x;
}

static __device__ __forceinline__ void vector_set(float x, float4 *to)
{
    *to = make_float4(x, x, x, x);
}

template <typename T> static __device__ __forceinline__ T vector_fill(float x)
{
    T value;
    vector_set(x, &value);
    return value;
}

/* w · x + y, rounded once */
static __device__ __forceinline__ float vector_fma(float w, float x, float y)
{
    return fmaf(w, x, y);
}

static __device__ __forceinline__ float4 vector_fma(float w, float4 x, float4 y)
{
    return make_float4(fmaf(w, x.x, y.x), fmaf(w, x.y, y.y), fmaf(w, x.z, y.z), fmaf(w, x.w, y.w));
}

static __device__ __forceinline__ float vector_add(float x, float y)
{
    return x + y;
}

static __device__ __forceinline__ float4 vector_add(float4 x, float4 y)
{
    return make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}

static __device__ __forceinline__ float vector_scale(float w, float x)
{
    return w * x;
}

static __device__ __forceinline__ float4 vector_scale(float w, float4 x)
{
    return make_float4(w * x.x, w * x.y, w * x.z, w * x.w);
}

/* --- groups: LANES threads of a warp that take a row together --- */

/* This thread's group among the lanes of its warp. */
template <int LANES> static __device__ __forceinline__ unsigned group_mask()
{
    return LANES == WARP ? ALL_LANES : ((1U << (LANES % WARP)) - 1) << (threadIdx.x % WARP / LANES * LANES);
}

template <int LANES> static __device__ __forceinline__ int group_lane()
{
    return (int)(threadIdx.x % LANES);
}

/* The group's number in the grid, and how many there are. */
template <int LANES> static __device__ __forceinline__ int64_t grid_group()
{
    return grid_thread() / LANES;
}

template <int LANES> static __device__ __forceinline__ int64_t grid_groups()
{
    return grid_threads() / LANES;
}

/* The own row that is row r of a block. */
static __device__ __forceinline__ int64_t own_row(const uint32_t *rows, int64_t r)
{
    return rows != NULL ? (int64_t)rows[r] : r;
}

#endif
