/* Sums over rows, column by column, in the chunks of models/device/row_chunks.h: in each the rows are added one after
 * another, in double, and then the chunks. These are the cpu device's bits.
 *
 * A block takes a chunk of 32 columns: all of its threads compute terms of many rows, which one thread for each sum
 * then adds up. Terms is a struct of what it reads with
 *     __device__ void operator()(int64_t first, int64_t r, int64_t c, double term[K]) const
 * for the K terms of row r (of the chunk that begins at row `first`) and column c.
 */
#ifndef MODELS_CUDA_COLUMNS_H
#define MODELS_CUDA_COLUMNS_H

#include "models/cuda/kernel.h"
#include "models/device/row_chunks.h"

#define COLUMNS_TILE 32
/* Terms that a block keeps: 32 KiB of them. */
#define COLUMNS_TERMS 4096

/* Least number of blocks that a processor runs at a time: it leaves enough registers. */
#define COLUMNS_BLOCKS 4

/* Terms that a thread reads before it stores any: this many loads are under way at a time. */
#define COLUMNS_BATCH 8

/* Keep the terms of elements i, i + 256, … of a tile of n_row × n_column at row r and this column. */
template <int K, class Terms>
static __device__ __forceinline__ void columns_keep(const Terms &terms, int64_t first, int64_t r, int64_t column,
                                                    int n_row, int n_column, int i, double *kept)
{
    double term[COLUMNS_BATCH][K];
    for (int j = 0; j < COLUMNS_BATCH; j++) {
        const int at = i + j * BLOCK_THREADS, row = n_column == COLUMNS_TILE ? at / COLUMNS_TILE : at / n_column;
        for (int k = 0; k < K; k++) {
            term[j][k] = 0.0;
        }
        if (at < n_row * n_column) {
            terms(first, r + row, column + at - row * n_column, term[j]);
        }
    }
    for (int j = 0; j < COLUMNS_BATCH; j++) {
        for (int k = 0; k < K; k++) {
            kept[k * (COLUMNS_TERMS / K) + i + j * BLOCK_THREADS] = term[j][k];
        }
    }
}

/* partial[chunk, k, c]: K × f of a chunk */
template <int K, class Terms>
__global__ void __launch_bounds__(BLOCK_THREADS, COLUMNS_BLOCKS)
    columns_add(int64_t n, int64_t f, int64_t chunk_rows, int64_t n_chunk, const Terms terms, double *partial)
{
    constexpr int rows_most = COLUMNS_TERMS / COLUMNS_TILE / K;
    SHARED(double, kept, COLUMNS_TERMS);
    const int t = (int)threadIdx.x, kind = t / COLUMNS_TILE, own = t % COLUMNS_TILE;
    const int64_t n_tile = (f + COLUMNS_TILE - 1) / COLUMNS_TILE;
    for (int64_t task = blockIdx.x; task < n_chunk * n_tile; task += gridDim.x) {
        const int64_t chunk = task / n_tile, column = task % n_tile * COLUMNS_TILE, first = chunk * chunk_rows;
        const int64_t end = first + chunk_rows < n ? first + chunk_rows : n;
        const int n_column = f - column < COLUMNS_TILE ? (int)(f - column) : COLUMNS_TILE;
        double sum = 0.0;
        for (int64_t r = first; r < end; r += rows_most) {
            const int n_row = end - r < rows_most ? (int)(end - r) : rows_most;
            for (int i = t; i < rows_most * COLUMNS_TILE; i += COLUMNS_BATCH * BLOCK_THREADS) {
                columns_keep<K>(terms, first, r, column, n_row, n_column, i, kept);
            }
            __syncthreads();
            for (int i = own; kind < K && own < n_column && i < n_row * n_column; i += n_column) {
                sum += kept[kind * (COLUMNS_TERMS / K) + i];
            }
            __syncthreads();
        }
        if (kind < K && own < n_column) {
            partial[(chunk * K + kind) * f + column + own] = sum;
        }
    }
}

template <int K, class Terms>
static void columns_launch(struct device *device, int64_t n, int64_t f, const Terms &terms, double *partial)
{
    const int64_t n_chunk = row_n_chunk(n);
    const unsigned grid = grid_of(n_chunk * ((f + COLUMNS_TILE - 1) / COLUMNS_TILE), 1);
    if (n * f > 0) {
        LAUNCH((columns_add<K, Terms>), dim3(grid), dim3(BLOCK_THREADS), cuda_stream(device), n, f, row_chunk_rows(n),
               n_chunk, terms, partial);
    }
}

/* out[c] = the sum over chunks of partial[chunk · stride + c], from 0 or from out[c]. In sums.cu. */
void columns_finish(struct device *device, int64_t n_chunk, int64_t stride, int64_t f, const double *partial,
                    bool add, float *out);

#endif
