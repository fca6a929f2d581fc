/* Products with narrow outputs (below 64 columns a library's tiles are mostly empty, and our own kernel also adds the
 * bias), and all others without a library.
 *
 * A block computes 128 rows of up to 64 columns, 16 of the k at a time; each thread a few rows of a few columns.
 */
#include "models/cuda/kernel.h"

extern "C" {
#include "models/cuda/dense/dense.h"
}

#define TILE_M 128
#define TILE_K 16
/* Between rows of a tile: threads that write a column then meet in few banks. */
#define PAD 4

/* A thread's share of a tile of ROWS × TILE_K on its way from memory; K_FIRST: elements of one row lie side by
 * side. */
template <int ROWS, bool K_FIRST> struct share {
    static constexpr int n = ROWS * TILE_K / BLOCK_THREADS;
    float x[n];
    static __device__ __forceinline__ int row(int i)
    {
        const int e = (int)threadIdx.x + i * BLOCK_THREADS;
        return K_FIRST ? e / TILE_K : e % ROWS;
    }
    static __device__ __forceinline__ int k(int i)
    {
        const int e = (int)threadIdx.x + i * BLOCK_THREADS;
        return K_FIRST ? e % TILE_K : e / ROWS;
    }
    __device__ __forceinline__ void load(const float *from, int64_t step_row, int64_t step_k, int64_t n_row,
                                         int64_t n_k)
    {
        for (int i = 0; i < n; i++) {
            x[i] = row(i) < n_row && k(i) < n_k ? __ldg(from + row(i) * step_row + k(i) * step_k) : 0.0F;
        }
    }
    __device__ __forceinline__ void keep(float *tile) const
    {
        for (int i = 0; i < n; i++) {
            tile[k(i) * (ROWS + PAD) + row(i)] = x[i];
        }
    }
};

/* sum[i][j] += a[i] · b[j] for the TILE_K products of two tiles */
template <int RM, int RN, int TILE_N>
static __device__ __forceinline__ void tile_add(const float *a, const float *b, float (&sum)[RM][RN])
{
    for (int k = 0; k < TILE_K; k++) {
        float x[RM], y[RN];
        for (int i = 0; i < RM; i += 4) {
            const float4 four = *(const float4 *)(a + k * (TILE_M + PAD) + i);
            x[i] = four.x;
            x[i + 1] = four.y;
            x[i + 2] = four.z;
            x[i + 3] = four.w;
        }
        const float *from = b + k * (TILE_N + PAD);
        const float2 two = *(const float2 *)from; /* RN is 2 or 4 */
        const float4 four = RN == 4 ? *(const float4 *)from : make_float4(two.x, two.y, two.x, two.y);
        y[0] = four.x;
        y[1] = four.y;
        y[2 % RN] = four.z;
        y[3 % RN] = four.w;
        for (int i = 0; i < RM; i++) {
            for (int j = 0; j < RN; j++) {
                sum[i][j] = fmaf(x[i], y[j], sum[i][j]);
            }
        }
    }
}

template <int RM, int RN>
static __device__ __forceinline__ void tile_store(const struct cuda_product &p, int64_t m, int64_t n, float *c,
                                                  const float (&sum)[RM][RN])
{
    for (int i = 0; i < RM; i++) {
        for (int j = 0; j < RN; j++) {
            if (m + i < p.m && n + j < p.n) {
                float *to = c + (m + i) * p.c_m + (n + j) * p.c_n;
                const float all = p.add != 0 ? *to + sum[i][j] : sum[i][j];
                *to = p.bias != nullptr ? all + p.bias[n + j] : all;
            }
        }
    }
}

template <int TILE_N, int RM, int RN, bool A_K_FIRST, bool B_K_FIRST>
__global__ void __launch_bounds__(BLOCK_THREADS) product_tiles(const struct cuda_product p, int64_t n_chunk)
{
    SHARED(float4, a_kept, TILE_K * (TILE_M + PAD) / 4);
    SHARED(float4, b_kept, TILE_K * (TILE_N + PAD) / 4);
    float *a_tile = (float *)a_kept, *b_tile = (float *)b_kept;
    const int tm = (int)threadIdx.x / (TILE_N / RN) * RM, tn = (int)threadIdx.x % (TILE_N / RN) * RN;
    const int64_t n_m = (p.m + TILE_M - 1) / TILE_M, n_n = (p.n + TILE_N - 1) / TILE_N;
    for (int64_t task = blockIdx.x; task < n_m * n_n * n_chunk; task += gridDim.x) {
        const int64_t m = task / n_n % n_m * TILE_M, n = task % n_n * TILE_N, chunk = task / n_n / n_m;
        const int64_t first = chunk * p.chunk, end = first + p.chunk < p.k ? first + p.chunk : p.k;
        const float *a = p.a + m * p.a_m, *b = p.b + n * p.b_n;
        share<TILE_M, A_K_FIRST> a_share;
        share<TILE_N, B_K_FIRST> b_share;
        float sum[RM][RN];
        for (int i = 0; i < RM; i++) {
            for (int j = 0; j < RN; j++) {
                sum[i][j] = 0.0F;
            }
        }
        a_share.load(a + first * p.a_k, p.a_m, p.a_k, p.m - m, end - first);
        b_share.load(b + first * p.b_k, p.b_n, p.b_k, p.n - n, end - first);
        for (int64_t k = first; k < end; k += TILE_K) { /* the coming tiles are on their way while these are added */
            __syncthreads();
            a_share.keep(a_tile);
            b_share.keep(b_tile);
            __syncthreads();
            a_share.load(a + (k + TILE_K) * p.a_k, p.a_m, p.a_k, p.m - m, end - k - TILE_K);
            b_share.load(b + (k + TILE_K) * p.b_k, p.b_n, p.b_k, p.n - n, end - k - TILE_K);
            tile_add<RM, RN, TILE_N>(a_tile + tm, b_tile + tn, sum);
        }
        tile_store<RM, RN>(p, m + tm, n + tn, p.c + chunk * p.size, sum);
    }
}

template <int TILE_N, int RM, int RN> static void tiles_launch(struct device *device, const struct cuda_product *p)
{
    const int64_t n_chunk = p->size > 0 ? (p->k + p->chunk - 1) / p->chunk : 1;
    const dim3 grid(grid_of((p->m + TILE_M - 1) / TILE_M * ((p->n + TILE_N - 1) / TILE_N) * n_chunk, 1)),
        block(BLOCK_THREADS);
    cudaStream_t stream = cuda_stream(device);
    if (p->a_k == 1 && p->b_k == 1) {
        LAUNCH((product_tiles<TILE_N, RM, RN, true, true>), grid, block, stream, *p, n_chunk);
    } else if (p->a_k == 1) {
        LAUNCH((product_tiles<TILE_N, RM, RN, true, false>), grid, block, stream, *p, n_chunk);
    } else {
        LAUNCH((product_tiles<TILE_N, RM, RN, false, false>), grid, block, stream, *p, n_chunk);
    }
}

void cuda_multiply(struct device *device, const struct cuda_product *product)
{
    if (product->m == 0 || product->n == 0) {
        return;
    }
    if (product->n <= 16) {
        tiles_launch<16, 4, 2>(device, product);
    } else if (product->n <= 32) {
        tiles_launch<32, 4, 4>(device, product);
    } else {
        tiles_launch<64, 8, 4>(device, product);
    }
}
