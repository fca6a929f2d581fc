/* Rows of columns, four columns per thread: shared by element-by-element kernels.
 *
 * A map is a struct of its inputs and outputs with
 *     template <bool VECTOR> __device__ void quad(int64_t r, int64_t c, int n) const
 * for columns c … c+n-1 of row r, where n is 4 but at the end of a row. Flat arrays are one row.
 */
#ifndef MODELS_CUDA_QUADS_H
#define MODELS_CUDA_QUADS_H

#include "models/cuda/kernel.h"

struct quad {
    float v[4];
};

/* VECTOR: 16 bytes at once; then `from` is a multiple of 16 bytes where n is 4. */
template <bool VECTOR> static __device__ __forceinline__ quad quad_load(const float *from, int n)
{
    quad out;
    if (VECTOR && n == 4) {
        const float4 x = *(const float4 *)from;
        out.v[0] = x.x;
        out.v[1] = x.y;
        out.v[2] = x.z;
        out.v[3] = x.w;
        return out;
    }
    for (int k = 0; k < 4; k++) {
        out.v[k] = k < n ? from[k] : 0.0F;
    }
    return out;
}

template <bool VECTOR> static __device__ __forceinline__ void quad_store(float *to, int n, const quad &x)
{
    if (VECTOR && n == 4) {
        *(float4 *)to = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
        return;
    }
    for (int k = 0; k < 4; k++) {
        if (k < n) {
            to[k] = x.v[k];
        }
    }
}

/* to = x, or to + x */
template <bool VECTOR> static __device__ __forceinline__ void quad_put(float *to, int n, bool add, const quad &x)
{
    quad out = x;
    if (add) {
        out = quad_load<VECTOR>(to, n);
        for (int k = 0; k < 4; k++) {
            out.v[k] = out.v[k] + x.v[k];
        }
    }
    quad_store<VECTOR>(to, n, out);
}

template <bool VECTOR, class Map>
__global__ void __launch_bounds__(BLOCK_THREADS) quads_map(int64_t n, int64_t f, int64_t n_quad, const Map map)
{
    const int64_t all = n * n_quad;
    for (int64_t i = grid_thread(); i < all; i += grid_threads()) {
        int64_t r = 0, q = i;
        if (n > 1 && all <= 0xffffffffLL) { /* a division of 32 bits is much faster */
            r = (unsigned)i / (unsigned)n_quad;
            q = (unsigned)i % (unsigned)n_quad;
        } else if (n > 1) {
            r = i / n_quad;
            q = i % n_quad;
        }
        const int64_t left = f - 4 * q;
        map.template quad<VECTOR>(r, 4 * q, left < 4 ? (int)left : 4);
    }
}

/* Is this the address of 16 bytes that can be read at once? NULL is never read. */
static inline bool quad_aligned(const void *at)
{
    return (uintptr_t)at % 16 == 0;
}

/* aligned: are all arrays that quads are read from, and the steps between their rows? */
template <class Map>
static void quads_launch(struct device *device, int64_t n, int64_t f, bool aligned, const Map &map)
{
    const int64_t n_quad = (f + 3) / 4;
    if (n * f == 0) {
        return;
    }
    const unsigned grid = grid_of(n * n_quad, BLOCK_THREADS);
    if (aligned) {
        LAUNCH((quads_map<true, Map>), dim3(grid), dim3(BLOCK_THREADS), cuda_stream(device), n, f, n_quad, map);
    } else {
        LAUNCH((quads_map<false, Map>), dim3(grid), dim3(BLOCK_THREADS), cuda_stream(device), n, f, n_quad, map);
    }
}

#endif
