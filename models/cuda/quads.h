/* Rows of columns, four columns per thread: shared by element-by-element kernels.
 *
 * A map is a struct of its inputs and outputs with
 *     template <bool VECTOR> __device__ void quad(int64_t r, int64_t c, int n) const
 * for columns c … c+n-1 of row r, where n is 4 but at the end of a row. Flat arrays are one row.
 */
#ifndef MODELS_CUDA_QUADS_H
#define MODELS_CUDA_QUADS_H

#include "models/cuda/kernel.h"

extern "C" {
#include "models/device/codec.h"
}

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

/* Rows of floats, or of BF16, whose lines are whole words: an odd one ends with 0. `step`: numbers from a row to the
 * next. Alignment is that of floats. */
struct quad_rows {
    void *at;
    int64_t step, is_bf16;

    template <bool VECTOR> __device__ __forceinline__ quad load(int64_t r, int64_t c, int n) const
    {
        const int64_t place = r * step + c;
        if (is_bf16 == 0) {
            return quad_load<VECTOR>((const float *)at + place, n);
        }
        const uint32_t *from = (const uint32_t *)at + place / 2;
        const uint2 word = VECTOR && n == 4 ? *(const uint2 *)from : uint2{from[0], n > 2 ? from[1] : 0};
        return {{codec_from_bits(word.x << 16), codec_from_bits(word.x & 0xffff0000U), codec_from_bits(word.y << 16),
                 codec_from_bits(word.y & 0xffff0000U)}};
    }

    /* x, rounded to the nearest; `add`: that and what is there */
    template <bool VECTOR>
    __device__ __forceinline__ void put(int64_t r, int64_t c, int n, bool add, const quad &x) const
    {
        const int64_t place = r * step + c;
        if (is_bf16 == 0) {
            quad_put<VECTOR>((float *)at + place, n, add, x);
            return;
        }
        struct quad all = x;
        for (int k = 0; add && k < 4; k++) {
            all.v[k] = load<VECTOR>(r, c, n).v[k] + x.v[k];
        }
        uint32_t word[2], *to = (uint32_t *)at + place / 2;
        for (int k = 0; k < 4; k += 2) {
            const uint32_t high = k + 1 < n ? codec_bf16_nearest(all.v[k + 1]) : 0U;
            word[k / 2] = codec_bf16_nearest(all.v[k]) | high << 16;
        }
        if (VECTOR && n == 4) {
            *(uint2 *)to = uint2{word[0], word[1]};
            return;
        }
        to[0] = word[0];
        if (n > 2) {
            to[1] = word[1];
        }
    }
};

/* x, of rows of f numbers, as the device finds it. */
static inline quad_rows quad_rows_make(const struct device *device, const void *x, int64_t f)
{
    const quad_rows out = {(void *)x, cuda_row_step(device, x, f), cuda_bf16(device, x) > 0};
    return out;
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

/* Likewise of all rows, each of them but where they are one. */
template <class... Rows> static bool quad_rows_aligned(bool are_one, const Rows &...rows)
{
    return (((are_one || rows.step % 4 == 0) && quad_aligned(rows.at)) && ...);
}

/* aligned: are all arrays that quads are read from, and the steps between their rows? */
template <class Map>
static void quads_launch(struct device *device, int64_t n, int64_t f, bool aligned, const Map &map,
                         enum device_lane lane = DEVICE_LANE_COMPUTE)
{
    const int64_t n_quad = (f + 3) / 4;
    if (n * f == 0) {
        return;
    }
    const unsigned grid = grid_size(n * n_quad, BLOCK_THREADS);
    cudaStream_t stream = ((struct cuda_device *)device)->lane[lane].stream;
    if (aligned) {
        LAUNCH((quads_map<true, Map>), dim3(grid), dim3(BLOCK_THREADS), stream, n, f, n_quad, map);
    } else {
        LAUNCH((quads_map<false, Map>), dim3(grid), dim3(BLOCK_THREADS), stream, n, f, n_quad, map);
    }
}

#endif
