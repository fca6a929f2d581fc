/* Products by tiles: in float32 for narrow outputs (below 64 columns a library's tiles are mostly empty) and for all
 * others without a library; in TF32 and BF16, by tensor cores, for all.
 *
 * A block computes 128 rows of up to 128 columns, 16 of the k at a time, while the tiles of the next 32 are on their
 * way. What a thread computes is a struct of sums: `add` two tiles, `store`. Tiles of rows of BF16 are BF16, which
 * products in BF16 alone take.
 */
#include "models/cuda/dense/tensor.h"

extern "C" {
#include "models/cuda/dense/dense.h"
#include "models/device/codec.h"
}

#define TILE_M 128
#define TILE_K 16
/* Tiles of a and of b in shared memory: one is read, others are on their way. */
#define N_STAGE 3

/* --- tiles in shared memory: ROWS × TILE_K of T; K_FIRST: numbers of one row lie side by side --- */

/* The place of number k of row `row` + more: what the lanes of a warp read at a time meets in no bank. `more` is a
 * multiple of 8 that the compiler knows; of it what is below 32 goes into bits 3 and 4 of row. Rows of BF16 lie as
 * they are: a half warp reads four of them. */
template <int ROWS, bool K_FIRST, typename T> static __device__ __forceinline__ int place(int row, int more, int k)
{
    constexpr bool turns = sizeof(T) == sizeof(float);
    return K_FIRST ? (row + more) * TILE_K + ((k >> 2 ^ (turns ? row >> 1 & 3 : 0)) << 2) + (k & 3)
                   : k * ROWS + ((row + more % 32) ^ (k >> 2 << 3)) + more / 32 * 32;
}

/* A matrix from a tile's first number on: lines of numbers side by side, `step` apart. */
template <typename T> struct source {
    const T *at;
    int step, n_row, n_k; /* n_k: that are left */
    bool by_four;         /* lines begin on 16 bytes, and end so */
};

/* A line's numbers by WORDS, as many lines at once as the block has threads for. */
template <int ROWS, bool K_FIRST, int WORDS, typename T>
static __device__ __forceinline__ void numbers_copy(const struct source<T> &from, T *tile)
{
    constexpr int W = WORDS * (int)(sizeof(float) / sizeof(T));
    constexpr int n_line = K_FIRST ? ROWS : TILE_K, in_line = (K_FIRST ? TILE_K : ROWS) / W;
    constexpr int at_once = BLOCK_THREADS / in_line;
    const int first = (int)threadIdx.x / in_line, at = (int)threadIdx.x % in_line * W;
    const T *next = from.at + (int64_t)first * from.step + at;
    ROLLED
    for (int line = first; line < n_line; line += at_once) {
        const int row = K_FIRST ? line : at, k = K_FIRST ? at : line;
        copy_async<WORDS>((float *)(tile + place<ROWS, K_FIRST, T>(row, 0, k)), (const float *)next,
                          row < from.n_row && k < from.n_k);
        next += (int64_t)at_once * from.step;
    }
}

/* Begin to copy a tile, zeros where the matrix ends, and step to the next k. */
template <int ROWS, bool K_FIRST, typename T>
static __device__ __forceinline__ void tile_copy(struct source<T> *from, T *tile)
{
    if (from->by_four) {
        numbers_copy<ROWS, K_FIRST, 4>(*from, tile);
    } else {
        numbers_copy<ROWS, K_FIRST, 1>(*from, tile);
    }
    from->at += TILE_K * (int64_t)(K_FIRST ? 1 : from->step);
    from->n_k -= TILE_K;
}

/* x, on 16 bytes, = numbers k … k + 3 of row `row` + more. */
template <int ROWS, bool K_FIRST>
static __device__ __forceinline__ void four_read(const float *tile, int row, int more, int k, float (&x)[4])
{
    if constexpr (K_FIRST) {
        *(float4 *)x = *(const float4 *)(tile + place<ROWS, true, float>(row, more, k));
    } else {
        for (int l = 0; l < 4; l++) {
            x[l] = tile[place<ROWS, false, float>(row, more, k + l)];
        }
    }
}

/* x[i] = those of N rows, one after another where K_FIRST is false, else `step` apart. */
template <int ROWS, bool K_FIRST, int N>
static __device__ __forceinline__ void fours_read(const float *tile, int row, int step, int k, float (&x)[N][4])
{
    for (int i = 0; i < (K_FIRST ? N : 4); i++) {
        if constexpr (K_FIRST) {
            four_read<ROWS, true>(tile, step == 1 ? row + i : row, step == 1 ? 0 : i * step, k, x[i]);
        } else {
            for (int r = 0; r < N; r += 4) {
                alignas(16) float four[4];
                *(float4 *)four = *(const float4 *)(tile + place<ROWS, false, float>(row + r, 0, k + i));
                for (int j = 0; j < 4; j++) {
                    x[r + j][i] = four[j];
                }
            }
        }
    }
}

/* --- sums --- */

static __device__ __forceinline__ float all_of(const struct cuda_product &p, int64_t n, float before, float sum)
{
    const float all = p.add != 0 ? before + sum : sum;
    return p.bias != nullptr ? all + p.bias[n] : all;
}

/* Columns n, which is even, and n + 1, rounded; behind the last column there is 0. */
static __device__ __forceinline__ void pair_store(const struct cuda_product &p, int64_t m, int64_t n,
                                                  const float *sum)
{
    uint32_t *to = (uint32_t *)p.c + (m * p.c_m + n) / 2;
    const uint32_t before = p.add != 0 ? *to : 0;
    const float low = all_of(p, n, codec_from_bits(before << 16), sum[0]);
    const float high = n + 1 < p.n ? all_of(p, n + 1, codec_from_bits(before & 0xffff0000U), sum[1]) : 0.0F;
    *to = codec_bf16_nearest(low) | (uint32_t)codec_bf16_nearest(high) << 16;
}

/* Sums of N columns, one or two, which are stored at a time where they lie side by side on 8 bytes. */
template <int N>
static __device__ __forceinline__ void sums_store(const struct cuda_product &p, int64_t m, int64_t n, float *c,
                                                  const float *sum)
{
    float *to = c + m * p.c_m + n * p.c_n;
    if (N == 2 && p.c_is_bf16 != 0) {
        if (m < p.m && n < p.n) {
            pair_store(p, m, n, sum);
        }
        return;
    }
    if (N == 2 && p.c_n == 1 && m < p.m && n + 1 < p.n && (uintptr_t)to % sizeof(float2) == 0) {
        const float2 before = p.add != 0 ? *(const float2 *)to : make_float2(0.0F, 0.0F);
        *(float2 *)to = make_float2(all_of(p, n, before.x, sum[0]), all_of(p, n + 1, before.y, sum[1]));
        return;
    }
    for (int e = 0; e < N && m < p.m && n + e < p.n; e++) {
        to[e * p.c_n] = all_of(p, n + e, p.add != 0 ? to[e * p.c_n] : 0.0F, sum[e]);
    }
}

template <class PARTS, int TILE_N, bool A_K_FIRST, bool B_K_FIRST, typename A, typename B> struct sums;
struct fp32_parts;

/* In float32, one fma after another in the order of k: a few rows, one after another, of four columns. */
template <int TILE_N, bool A_K_FIRST, bool B_K_FIRST>
struct sums<fp32_parts, TILE_N, A_K_FIRST, B_K_FIRST, float, float> {
    using a_type = float;
    using b_type = float;
    static constexpr int tile_n = TILE_N, n_row = TILE_N / 8, n_column = 4, in_row = TILE_N / n_column;
    static constexpr int n_block = TILE_N > 64 ? 1 : TILE_N > 32 ? 2 : 3; /* on a processor: what registers allow */
    static constexpr bool a_k_first = A_K_FIRST, b_k_first = B_K_FIRST;
    static constexpr int step = B_K_FIRST ? in_row : 1; /* from a column to the next */
    int row = (int)threadIdx.x / in_row * n_row;
    int column = (int)threadIdx.x % in_row * (B_K_FIRST ? 1 : n_column);
    float sum[n_row][n_column] = {};

    __device__ __forceinline__ void add(const float *a, const float *b)
    {
        UNROLLED
        for (int k = 0; k < TILE_K; k += 4) {
            alignas(16) float x[n_row][4], y[n_column][4];
            fours_read<TILE_M, A_K_FIRST>(a, row, 1, k, x);
            fours_read<TILE_N, B_K_FIRST>(b, column, step, k, y);
            for (int l = 0; l < 4; l++) {
                for (int i = 0; i < n_row; i++) {
                    for (int j = 0; j < n_column; j++) {
                        sum[i][j] = fmaf(x[i][l], y[j][l], sum[i][j]);
                    }
                }
            }
        }
    }

    __device__ __forceinline__ void store(const struct cuda_product &p, int64_t m, int64_t n, float *c) const
    {
        for (int i = 0; i < n_row; i++) {
            for (int j = 0; j < n_column; j++) {
                sums_store<1>(p, m + row + i, n + column + j * step, c, &sum[i][j]);
            }
        }
    }
};

/* The parts of four numbers k of a lane, two for each product of 8 of the k. big is rounded to TF32, ties away from
 * 0; of small, tensor cores ignore what TF32 does not hold: one bit. A NaN may have only bits that rounding carries
 * away, which then are in small. Where numbers are sums of two of TF32 (SMALL), of their products all count but that
 * of the small ones, which come first. */
template <bool SMALL> struct tf32_parts {
    float big[2][2], small[2][2];
    __device__ __forceinline__ void make(const float (&x)[4])
    {
        for (int i = 0; i < 4; i++) {
            const float rounded = __uint_as_float((__float_as_uint(x[i]) + 0x1000U) & 0xffffe000U);
            big[i / 2][i % 2] = SMALL || x[i] == x[i] ? rounded : x[i];
            small[i / 2][i % 2] = SMALL ? x[i] - rounded : 0.0F;
        }
    }

    /* more[j] += the product of 16 rows, `upper` and `lower`, and 8 columns, y[j] */
    template <int N>
    static __device__ __forceinline__ void multiply(const tf32_parts &upper, const tf32_parts &lower,
                                                    const tf32_parts (&y)[N], float (&more)[N][4])
    {
        for (int term = SMALL ? 0 : 2; term < 3; term++) { /* small · big, big · small, big · big */
            for (int k = 0; k < 2; k++) {
                const float(&u)[2] = term == 0 ? upper.small[k] : upper.big[k];
                const float(&l)[2] = term == 0 ? lower.small[k] : lower.big[k];
                const float both[4] = {u[0], l[0], u[1], l[1]};
                for (int j = 0; j < N; j++) {
                    tf32_multiply(more[j], both, term == 1 ? y[j].small[k] : y[j].big[k]);
                }
            }
        }
    }
};

/* Four numbers rounded to the nearest BF16, in two words: all 16 of the k are one product. */
struct bf16_parts {
    uint32_t pair[2];
    __device__ __forceinline__ void make(const float (&x)[4])
    {
        pair[0] = bf16_pair(x[0], x[1]);
        pair[1] = bf16_pair(x[2], x[3]);
    }

    template <int ROWS, bool K_FIRST>
    __device__ __forceinline__ void read(const uint16_t *tile, int row, int more, int k)
    {
        if constexpr (K_FIRST) {
            const uint2 both = *(const uint2 *)(tile + place<ROWS, true, uint16_t>(row, more, k));
            pair[0] = both.x;
            pair[1] = both.y;
        } else {
            for (int i = 0; i < 2; i++) {
                pair[i] = tile[place<ROWS, false, uint16_t>(row, more, k + 2 * i)] |
                          (uint32_t)tile[place<ROWS, false, uint16_t>(row, more, k + 2 * i + 1)] << 16;
            }
        }
    }

    template <int N>
    static __device__ __forceinline__ void multiply(const bf16_parts &upper, const bf16_parts &lower,
                                                    const bf16_parts (&y)[N], float (&more)[N][4])
    {
        const uint32_t both[4] = {upper.pair[0], lower.pair[0], upper.pair[1], lower.pair[1]};
        for (int j = 0; j < N; j++) {
            bf16_multiply(more[j], both, y[j].pair);
        }
    }
};

/* By tensor cores: a warp computes n_row · 16 rows of 32 columns. Of a tile's 16 of the k a lane has four that lie
 * side by side. Tensor cores cut off what a sum in float32 does not hold, so sums of 16 begin at 0 and are added
 * here, rounded. */
template <class PARTS, int TILE_N, bool A_K_FIRST, bool B_K_FIRST, typename A, typename B> struct sums {
    using a_type = A;
    using b_type = B;
    static constexpr int tile_n = TILE_N, n_row = TILE_N / 32, n_column = 4, n_block = TILE_N > 32 ? 1 : 2;
    static constexpr bool a_k_first = A_K_FIRST, b_k_first = B_K_FIRST;
    int row = (int)threadIdx.x / WARP / n_row * n_row * 16 + (int)threadIdx.x % WARP / 4;
    int column = (int)threadIdx.x / WARP % n_row * 32, lane = (int)threadIdx.x % WARP;
    float sum[n_row][n_column][4] = {};

    template <int ROWS, bool K_FIRST, typename T>
    __device__ __forceinline__ PARTS read(const T *tile, int first, int more) const
    {
        PARTS out;
        if constexpr (sizeof(T) == sizeof(float)) {
            alignas(16) float x[4];
            four_read<ROWS, K_FIRST>(tile, first, more, lane % 4 * 4, x);
            out.make(x);
        } else {
            out.template read<ROWS, K_FIRST>(tile, first, more, lane % 4 * 4);
        }
        return out;
    }

    __device__ __forceinline__ void add(const A *a, const B *b)
    {
        PARTS y[n_column];
        for (int j = 0; j < n_column; j++) {
            y[j] = read<TILE_N, B_K_FIRST>(b, column + lane / 4, j * 8);
        }
        UNROLLED
        for (int i = 0; i < n_row; i++) {
            const PARTS upper = read<TILE_M, A_K_FIRST>(a, row, i * 16);
            const PARTS lower = read<TILE_M, A_K_FIRST>(a, row, i * 16 + 8);
            float more[n_column][4] = {};
            PARTS::multiply(upper, lower, y, more);
            for (int j = 0; j < n_column; j++) {
                for (int e = 0; e < 4; e++) {
                    sum[i][j][e] += more[j][e];
                }
            }
        }
    }

    __device__ __forceinline__ void store(const struct cuda_product &p, int64_t m, int64_t n, float *c) const
    {
        UNROLLED
        for (int i = 0; i < n_row; i++) {
            for (int j = 0; j < n_column; j++) {
                sums_store<2>(p, m + row + i * 16, n + column + j * 8 + lane % 4 * 2, c, sum[i][j]);
                sums_store<2>(p, m + row + i * 16 + 8, n + column + j * 8 + lane % 4 * 2, c, sum[i][j] + 2);
            }
        }
    }
};

/* --- all tiles --- */

template <typename T>
static __device__ __forceinline__ struct source<T> source_of(const T *at, int64_t step, int64_t n_row, int n_k) {
    constexpr int in_16_bytes = 16 / sizeof(T);
    return {at, (int)step, n_row < TILE_M ? (int)n_row : TILE_M, n_k,
            step % in_16_bytes == 0 && (uintptr_t)at % 16 == 0};
}

/* Begin to copy the next tiles, if there are any. */
template <class SUMS>
static __device__ __forceinline__ void stage_begin(struct source<typename SUMS::a_type> *a,
                                                   struct source<typename SUMS::b_type> *b,
                                                   typename SUMS::a_type *tile_a, typename SUMS::b_type *tile_b)
{
    if (a->n_k > 0) {
        tile_copy<TILE_M, SUMS::a_k_first>(a, tile_a);
        tile_copy<SUMS::tile_n, SUMS::b_k_first>(b, tile_b);
    }
    copy_async_commit();
}

template <class SUMS>
__global__ void __launch_bounds__(BLOCK_THREADS, SUMS::n_block)
    product_tiles(const struct cuda_product p, int64_t n_chunk)
{
    using A = typename SUMS::a_type;
    using B = typename SUMS::b_type;
    constexpr int TILE_N = SUMS::tile_n, size_a = TILE_M * TILE_K, size_b = TILE_N * TILE_K;
    SHARED(float4, kept, N_STAGE * (size_a * sizeof(A) + size_b * sizeof(B)) / sizeof(float4));
    A *tiles_a = (A *)kept;
    B *tiles_b = (B *)(tiles_a + N_STAGE * size_a);
    const int64_t n_m = (p.m + TILE_M - 1) / TILE_M, n_n = (p.n + TILE_N - 1) / TILE_N;
    for (int64_t task = blockIdx.x; task < n_m * n_n * n_chunk; task += gridDim.x) {
        const int64_t m = task / n_n % n_m * TILE_M, n = task % n_n * TILE_N, chunk = task / n_n / n_m;
        const int64_t first = chunk * p.chunk;
        const int n_k = (int)(p.k - first < p.chunk ? p.k - first : p.chunk);
        struct source<A> a = source_of((const A *)p.a + m * p.a_m + first * p.a_k, SUMS::a_k_first ? p.a_m : p.a_k,
                                       p.m - m, n_k);
        struct source<B> b = source_of((const B *)p.b + n * p.b_n + first * p.b_k, SUMS::b_k_first ? p.b_n : p.b_k,
                                       p.n - n, n_k);
        SUMS all;
        __syncthreads(); /* the tiles of the task before have been read */
        for (int stage = 0; stage < N_STAGE - 1; stage++) {
            stage_begin<SUMS>(&a, &b, tiles_a + stage * size_a, tiles_b + stage * size_b);
        }
        int stage = 0;
        for (int k = 0; k < n_k; k += TILE_K) {
            copy_async_wait<N_STAGE - 2>();
            __syncthreads(); /* these tiles are there, and the last ones have been read */
            const int next = stage > 0 ? stage - 1 : N_STAGE - 1;
            stage_begin<SUMS>(&a, &b, tiles_a + next * size_a, tiles_b + next * size_b);
            all.add(tiles_a + stage * size_a, tiles_b + stage * size_b);
            stage = stage < N_STAGE - 1 ? stage + 1 : 0;
        }
        all.store(p, m, n, (float *)p.c + chunk * p.size);
    }
}

template <class SUMS> static void tiles_launch(struct device *device, const struct cuda_product *p)
{
    constexpr int TILE_N = SUMS::tile_n;
    const int64_t n_chunk = p->size > 0 ? (p->k + p->chunk - 1) / p->chunk : 1;
    const dim3 grid(grid_size((p->m + TILE_M - 1) / TILE_M * ((p->n + TILE_N - 1) / TILE_N) * n_chunk, 1)),
        block(BLOCK_THREADS);
    LAUNCH((product_tiles<SUMS>), grid, block, cuda_stream(device), *p, n_chunk);
}

/* A and B: what a and b are, if both lie so that it can be. */
template <class PARTS, typename A = float, typename B = float, int TILE_N = 128>
static void types_launch(struct device *device, const struct cuda_product *p)
{
    if constexpr (TILE_N > 32) {
        if (p->n <= TILE_N / 2) {
            types_launch<PARTS, A, B, TILE_N / 2>(device, p);
            return;
        }
    }
    if constexpr (sizeof(B) == sizeof(float)) {
        if (p->a_k == 1 && p->b_k == 1) {
            tiles_launch<sums<PARTS, TILE_N, true, true, A, B>>(device, p);
            return;
        }
        if (p->a_k == 1) {
            tiles_launch<sums<PARTS, TILE_N, true, false, A, B>>(device, p);
            return;
        }
    }
    tiles_launch<sums<PARTS, TILE_N, false, false, A, B>>(device, p);
}

void cuda_multiply(struct device *device, const struct cuda_product *p)
{
    const bool a = cuda_bf16(device, p->a) > 0, b = cuda_bf16(device, p->b) > 0;
    if (p->m == 0 || p->n == 0) {
        return;
    }
    if (device->products == DEVICE_PRODUCTS_TF32X3) {
        types_launch<tf32_parts<true>>(device, p);
    } else if (device->products == DEVICE_PRODUCTS_TF32) {
        types_launch<tf32_parts<false>>(device, p);
    } else if (device->products == DEVICE_PRODUCTS_FP32) {
        types_launch<fp32_parts>(device, p);
    } else if (a) {
        (b ? types_launch<bf16_parts, uint16_t, uint16_t> : types_launch<bf16_parts, uint16_t>)(device, p);
    } else {
        (b ? types_launch<bf16_parts, float, uint16_t> : types_launch<bf16_parts>)(device, p);
    }
}
