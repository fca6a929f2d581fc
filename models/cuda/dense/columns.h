/* Sums over rows, column by column, in the chunks of models/device/row_chunks.h: in each the rows are added one after
 * another, in double, and then the chunks. These are the cpu device's bits.
 *
 * A warp takes a chunk of 32 columns, each lane one. Terms is a struct of what it reads with
 *     __device__ void operator()(int64_t first, int64_t r, int64_t c, double term[K]) const
 * for the K terms of row r (of the chunk that begins at row `first`) and column c.
 */
#ifndef MODELS_CUDA_COLUMNS_H
#define MODELS_CUDA_COLUMNS_H

#include "models/cuda/kernel.h"
#include "models/device/row_chunks.h"

/* Terms of a lane that are on their way at a time. */
#define COLUMNS_AHEAD 32

/* partial[chunk, k, c]: K × f of a chunk. A block is one warp, as there are few tasks. */
template <int K, class Terms>
__global__ void __launch_bounds__(WARP)
    columns_add(int64_t n, int64_t f, int64_t chunk_rows, int64_t n_chunk, const Terms terms, double *partial)
{
    constexpr int ahead = COLUMNS_AHEAD / K;
    const int64_t n_tile = (f + WARP - 1) / WARP;
    for (int64_t task = blockIdx.x; task < n_chunk * n_tile; task += gridDim.x) {
        const int64_t chunk = task / n_tile, c = task % n_tile * WARP + threadIdx.x, first = chunk * chunk_rows;
        const int64_t end = first + chunk_rows < n ? first + chunk_rows : n;
        double sum[K] = {};
        ROLLED
        for (int64_t r = first; c < f && r < end; r += ahead) {
            double term[ahead][K];
            for (int j = 0; j < ahead; j++) {
                for (int k = 0; k < K; k++) {
                    term[j][k] = 0.0;
                }
                if (r + j < end) {
                    terms(first, r + j, c, term[j]);
                }
            }
            for (int j = 0; j < ahead; j++) {
                for (int k = 0; k < K; k++) {
                    sum[k] += term[j][k];
                }
            }
        }
        for (int k = 0; c < f && k < K; k++) {
            partial[(chunk * K + k) * f + c] = sum[k];
        }
    }
}

template <int K, class Terms>
static void columns_launch(struct device *device, int64_t n, int64_t f, const Terms &terms, double *partial)
{
    const int64_t n_chunk = row_n_chunk(n);
    if (n * f > 0) {
        LAUNCH((columns_add<K, Terms>), dim3(grid_size(n_chunk * ((f + WARP - 1) / WARP), 1)), dim3(WARP),
               cuda_stream(device), n, f, row_chunk_rows(n), n_chunk, terms, partial);
    }
}

/* Of norms. */
static __device__ __forceinline__ double normalized(float x, double mean, double rstd)
{
    return (x - mean) * rstd;
}

/* out[c] = the sum over chunks of partial[chunk · stride + c], from 0 or from out[c]. In sums.cu. */
void columns_finish(struct device *device, int64_t n_chunk, int64_t stride, int64_t f, const double *partial,
                    bool add, float *out);

#endif
