/* The loss of links: a warp a row, chunks of rows whose sums are combined in order. */
#include "models/cuda/functions.h"
#include "models/cuda/rows/block_sum.h"

/* As its kernel takes it. */
struct link_rows {
    int64_t n, f, rows; /* rows of a chunk */
    const int64_t *indptr;
    const uint32_t *places;
    uint64_t first, end, joined; /* words alone: arguments of kernels have no holes */
    double weight;
    const float *own, *x;
    float *grad;
};

/* The first of a row's places from `least` on. */
static __device__ __forceinline__ int64_t place_find(const uint32_t *places, int64_t begin, int64_t end,
                                                     uint64_t least)
{
    while (begin < end) {
        const int64_t middle = begin + (end - begin) / 2;
        if (places[middle] < least) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

/* One pair, by a warp: its gradient of the own row; returns its loss. */
static __device__ __forceinline__ double link_pair(const link_rows &how, const float *own, const float *x,
                                                   float *grad)
{
    const int lane = (int)threadIdx.x % WARP;
    float score = 0.0F;
    for (int64_t c = lane; c < how.f; c += WARP) {
        score = fmaf(own[c], x[c], score);
    }
    for (int apart = WARP / 2; apart > 0; apart /= 2) {
        score += __shfl_xor_sync(ALL_LANES, score, apart, WARP);
    }
    const double sign = how.joined != 0 ? -1.0 : 1.0, t = sign * (double)score, small = exp_of_negative(-fabs(t));
    const float slope = (float)(sign * how.weight * ((t > 0.0 ? 1.0 : small) / (1.0 + small)));
    for (int64_t c = lane; c < how.f; c += WARP) {
        grad[c] = fmaf(slope, x[c], grad[c]);
    }
    return fmax(t, 0.0) + log_of_one_and(small);
}

/* A block takes a chunk. */
__global__ void __launch_bounds__(BLOCK_THREADS) link_chunks(const link_rows how, int64_t n_chunk, double *partial)
{
    SHARED(double, kept, BLOCK_THREADS / WARP);
    for (int64_t chunk = blockIdx.x; chunk < n_chunk; chunk += gridDim.x) {
        const int64_t end = (chunk + 1) * how.rows < how.n ? (chunk + 1) * how.rows : how.n;
        double sum = 0.0;
        for (int64_t r = chunk * how.rows + (int)threadIdx.x / WARP; r < end; r += BLOCK_THREADS / WARP) {
            const int64_t begin = place_find(how.places, how.indptr[r], how.indptr[r + 1], how.first),
                          last = place_find(how.places, begin, how.indptr[r + 1], how.end);
            for (int64_t e = begin; e < last; e++) {
                const float *x = how.x + (int64_t)(how.places[e] - how.first) * how.f;
                const double loss = link_pair(how, how.own + r * how.f, x, how.grad + r * how.f);
                sum += (int)threadIdx.x % WARP == 0 ? loss : 0.0;
            }
        }
        const double all = block_sum(kept, sum);
        if (threadIdx.x == 0) {
            partial[chunk] = all;
        }
    }
}

/* One block: each thread adds up every 256th chunk. */
__global__ void __launch_bounds__(BLOCK_THREADS)
    link_sums(int64_t n_chunk, const double *partial, double factor, double *to)
{
    SHARED(double, kept, BLOCK_THREADS / WARP);
    double sum = 0.0;
    for (int64_t i = threadIdx.x; i < n_chunk; i += BLOCK_THREADS) {
        sum += partial[i];
    }
    sum = block_sum(kept, sum);
    if (threadIdx.x == 0) {
        *to += factor * sum;
    }
}

extern "C" void cuda_sums_combine(struct device *device, int64_t n_chunk, const double *partial, double factor,
                                  double *sum)
{
    LAUNCH(link_sums, dim3(1), dim3(BLOCK_THREADS), cuda_stream(device), n_chunk, partial, factor, sum);
}

extern "C" void cuda_link_loss(struct device *device, const struct device_links *how, double *sum)
{
    const int64_t n = how->n_row, rows = cuda_score_chunk_rows(n), n_chunk = (n + rows - 1) / rows;
    double *partial = (double *)how->scratch;
    const link_rows all = {n,        how->f,      rows,        how->indptr, how->places, how->first,
                           how->end, how->joined, how->weight, how->own,    how->x,      how->grad};
    LAUNCH(link_chunks, dim3(grid_size(n_chunk, 1)), dim3(BLOCK_THREADS), cuda_stream(device), all, n_chunk, partial);
    cuda_sums_combine(device, n_chunk, partial, 0.5 * how->weight, sum);
}
