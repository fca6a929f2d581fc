/* Sums of all numbers before each, in chunks: within a chunk by one block, over the chunks' sums by one block
 * alone. */
#include "models/cuda/block/block_scan.h"

extern "C" {
#include "models/cuda/block/scan.h"
}

static int64_t n_chunk_of(int64_t n)
{
    return (n + CUDA_SCAN_CHUNK - 1) / CUDA_SCAN_CHUNK;
}

/* Numbers first … end-1 by one block; returns their sum. */
static __device__ int64_t numbers_scan(int64_t first, int64_t end, int64_t *x)
{
    int64_t before = 0;
    for (int64_t at = first; at < end; at += BLOCK_THREADS) {
        const int64_t i = at + threadIdx.x;
        int64_t sum;
        const int64_t behind = block_scan(i < end ? x[i] : 0, &sum);
        if (i < end) {
            x[i] = before + behind;
        }
        before += sum;
    }
    return before;
}

__global__ void __launch_bounds__(BLOCK_THREADS) scan_chunks(int64_t n, int64_t n_chunk, int64_t *x, int64_t *sums)
{
    for (int64_t c = blockIdx.x; c < n_chunk; c += gridDim.x) {
        const int64_t end = (c + 1) * CUDA_SCAN_CHUNK < n ? (c + 1) * CUDA_SCAN_CHUNK : n;
        const int64_t sum = numbers_scan(c * CUDA_SCAN_CHUNK, end, x);
        if (threadIdx.x == 0) {
            sums[c] = sum;
        }
    }
}

/* sums[n_chunk] becomes the sum of all. */
__global__ void __launch_bounds__(BLOCK_THREADS) scan_sums(int64_t n_chunk, int64_t *sums)
{
    const int64_t sum = numbers_scan(0, n_chunk, sums);
    if (threadIdx.x == 0) {
        sums[n_chunk] = sum;
    }
}

__global__ void __launch_bounds__(BLOCK_THREADS) scan_add(int64_t n, int64_t n_chunk, int64_t *x, const int64_t *sums)
{
    for (int64_t i = grid_thread(); i <= n; i += grid_threads()) {
        x[i] = i < n ? x[i] + sums[i / CUDA_SCAN_CHUNK] : sums[n_chunk];
    }
}

void cuda_scan(struct device *device, int64_t n, int64_t *x, void *scratch)
{
    cudaStream_t stream = cuda_stream(device);
    const int64_t n_chunk = n_chunk_of(n);
    int64_t *sums = (int64_t *)scratch;
    LAUNCH(scan_chunks, grid_size(n_chunk, 1), BLOCK_THREADS, stream, n, n_chunk, x, sums);
    LAUNCH(scan_sums, 1, BLOCK_THREADS, stream, n_chunk, sums);
    LAUNCH(scan_add, grid_size(n + 1, BLOCK_THREADS), BLOCK_THREADS, stream, n, n_chunk, x, (const int64_t *)sums);
}
