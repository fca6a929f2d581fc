/* Pairs of rows: scores by a warp each, gradients by a warp for each own row, losses by a thread for each group. */
#include "models/cuda/functions.h"
#include "models/cuda/rows/block_sum.h"

static __device__ __forceinline__ int64_t number_of(const device_pairs &pairs, int64_t e)
{
    return pairs.numbers != NULL ? (int64_t)pairs.numbers[e] : e;
}

static __device__ __forceinline__ const float *own_of(const device_pairs &pairs, int64_t e)
{
    return pairs.own + (int64_t)pairs.rows[e] * pairs.f;
}

static __device__ __forceinline__ const float *x_of(const device_pairs &pairs, int64_t e)
{
    return pairs.x + (int64_t)pairs.places[e] * pairs.f;
}

/* This warp's number in the grid, and the number of warps. */
static __device__ __forceinline__ int64_t grid_warp()
{
    return grid_thread() / WARP;
}

static __device__ __forceinline__ int64_t grid_warps()
{
    return grid_threads() / WARP;
}

__global__ void __launch_bounds__(BLOCK_THREADS) pair_dots(const device_pairs pairs, float *score)
{
    const int lane = (int)threadIdx.x % WARP;
    for (int64_t e = grid_warp(); e < pairs.n; e += grid_warps()) {
        const float *own = own_of(pairs, e), *x = x_of(pairs, e);
        float sum = 0.0F;
        for (int64_t c = lane; c < pairs.f; c += WARP) {
            sum = fmaf(own[c], x[c], sum);
        }
        for (int apart = WARP / 2; apart > 0; apart /= 2) {
            sum += __shfl_xor_sync(ALL_LANES, sum, apart, WARP);
        }
        if (lane == 0) {
            score[number_of(pairs, e)] = sum;
        }
    }
}

/* A warp takes the row that begins at its pair, if one does. */
__global__ void __launch_bounds__(BLOCK_THREADS) pair_rows(const device_pairs pairs, const float *slope, float *grad)
{
    const int lane = (int)threadIdx.x % WARP;
    for (int64_t first = grid_warp(); first < pairs.n; first += grid_warps()) {
        const uint32_t row = pairs.rows[first];
        float *to = grad + (int64_t)row * pairs.f;
        const bool begins = first == 0 || pairs.rows[first - 1] != row;
        for (int64_t e = first; begins && e < pairs.n && pairs.rows[e] == row; e++) {
            const float *x = x_of(pairs, e), by = slope[number_of(pairs, e)];
            for (int64_t c = lane; c < pairs.f; c += WARP) {
                to[c] = fmaf(by, x[c], to[c]);
            }
        }
    }
}

/* Likewise, of rows that lie in order. */
__global__ void __launch_bounds__(BLOCK_THREADS)
    collect_ascending(const device_collect how, const float *x, float *out)
{
    const int lane = (int)threadIdx.x % WARP;
    for (int64_t first = grid_warp(); first < how.n; first += grid_warps()) {
        const uint32_t row = how.rows[first];
        const bool begins = first == 0 || how.rows[first - 1] != row;
        for (int64_t e = first; begins && e < how.n && how.rows[e] == row; e++) {
            for (int64_t c = lane; c < how.f; c += WARP) {
                out[(int64_t)row * how.f + c] += x[e * how.f + c];
            }
        }
    }
}

/* A row's sum of a column: each warp takes every eighth 32 rows of x. */
static __device__ __forceinline__ float collect_sum(const device_collect &how, const float *x, unsigned row,
                                                    int64_t c)
{
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    float sum = 0.0F;
    for (int64_t begin = (int64_t)warp * WARP; begin < how.n; begin += BLOCK_THREADS) {
        const unsigned mine = begin + lane < how.n ? how.rows[begin + lane] : UINT32_MAX;
        for (int i = 0; i < WARP; i++) {
            const bool counts = __shfl_sync(ALL_LANES, mine, i, WARP) == row;
            sum += counts && c < how.f ? x[(begin + i) * how.f + c] : 0.0F;
        }
    }
    return sum;
}

/* A block takes 32 columns of a row, and adds its warps' sums in order. */
__global__ void __launch_bounds__(BLOCK_THREADS) collect_few(const device_collect how, const float *x, float *out)
{
    SHARED(float, kept, BLOCK_THREADS);
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int64_t c = (int64_t)blockIdx.x * WARP + lane;
    for (int64_t row = blockIdx.y; row < how.n_row; row += gridDim.y) {
        kept[threadIdx.x] = collect_sum(how, x, (unsigned)row, c);
        __syncthreads();
        float all = 0.0F;
        for (int i = 0; i < BLOCK_THREADS / WARP; i++) {
            all += kept[i * WARP + lane];
        }
        if (warp == 0 && c < how.f) {
            out[row * how.f + c] += all;
        }
        __syncthreads();
    }
}

/* As its kernel takes it: words alone, since arguments of kernels have no holes. */
struct loss_groups {
    int64_t n_group, n_negative, has_edge, rows; /* rows: groups of a chunk */
    double weight, margin;
    float *score;
};

/* log(1 + e^t), and its derivative. */
static __device__ __forceinline__ double softplus(double t, double *slope_out)
{
    const double small = exp_of_negative(-fabs(t));
    *slope_out = (t > 0.0 ? 1.0 : small) / (1.0 + small);
    return fmax(t, 0.0) + log_of_one_and(small);
}

static __device__ __forceinline__ double group_bce(const loss_groups &how, float *score, double share)
{
    double loss = 0.0, sum = 0.0, slope;
    if (how.has_edge != 0) {
        loss = softplus(-(double)score[0], &slope);
        score[0] = (float)(-how.weight * slope);
    }
    for (int64_t k = how.has_edge; k < how.has_edge + how.n_negative; k++) {
        const bool there = score[k] != -INFINITY;
        const double here = softplus(there ? (double)score[k] : 0.0, &slope);
        sum += there ? here : 0.0;
        score[k] = there ? (float)(how.weight * share * slope) : 0.0F;
    }
    return loss + sum * share;
}

static __device__ __forceinline__ double group_margin(const loss_groups &how, float *score, double share)
{
    const double least = (double)score[0] - how.margin;
    const float slope = (float)(how.weight * share);
    double sum = 0.0;
    score[0] = 0.0F;
    for (int64_t k = 1; k <= how.n_negative; k++) {
        const bool counts = !((double)score[k] <= least); /* not a number, too */
        sum += counts ? (double)score[k] - least : 0.0;
        score[k] = counts ? slope : 0.0F;
        score[0] -= score[k];
    }
    return sum * share;
}

static __device__ __forceinline__ double group_cross_entropy(const loss_groups &how, float *score)
{
    const double first = score[0];
    double most = first, sum = 0.0;
    for (int64_t k = 1; k <= how.n_negative; k++) {
        most = (double)score[k] > most ? (double)score[k] : most;
    }
    for (int64_t k = 0; k <= how.n_negative; k++) {
        sum += exp_of_negative((double)score[k] - most);
    }
    for (int64_t k = 0; k <= how.n_negative; k++) {
        score[k] = (float)(how.weight * (exp_of_negative((double)score[k] - most) / sum - (k == 0 ? 1.0 : 0.0)));
    }
    return fixed_log(sum) + most - first;
}

/* One over the pairs of a group that are there. */
static __device__ __forceinline__ double share_of(const loss_groups &how, const float *score)
{
    int64_t n_there = 0;
    for (int64_t k = how.has_edge; k < how.has_edge + how.n_negative; k++) {
        n_there += score[k] != -INFINITY ? 1 : 0;
    }
    return n_there > 0 ? 1.0 / (double)n_there : 1.0;
}

template <int LOSS> static __device__ __forceinline__ double group_loss(const loss_groups &how, float *score)
{
    return LOSS == DEVICE_PAIR_LOSS_BCE      ? group_bce(how, score, share_of(how, score))
           : LOSS == DEVICE_PAIR_LOSS_MARGIN ? group_margin(how, score, share_of(how, score))
                                             : group_cross_entropy(how, score);
}

/* A block takes a chunk. */
template <int LOSS>
__global__ void __launch_bounds__(BLOCK_THREADS) group_losses(const loss_groups how, int64_t n_chunk, double *partial)
{
    SHARED(double, kept, BLOCK_THREADS / WARP);
    for (int64_t chunk = blockIdx.x; chunk < n_chunk; chunk += gridDim.x) {
        const int64_t end = (chunk + 1) * how.rows < how.n_group ? (chunk + 1) * how.rows : how.n_group;
        double sum = 0.0;
        for (int64_t g = chunk * how.rows + (int)threadIdx.x; g < end; g += BLOCK_THREADS) {
            sum += group_loss<LOSS>(how, how.score + g * (how.has_edge + how.n_negative));
        }
        const double all = block_sum(kept, sum);
        if (threadIdx.x == 0) {
            partial[chunk] = all;
        }
    }
}

extern "C" void cuda_pair_scores(struct device *device, const struct device_pairs *pairs, float *score)
{
    LAUNCH(pair_dots, dim3(grid_size(pairs->n, BLOCK_THREADS / WARP)), dim3(BLOCK_THREADS), cuda_stream(device),
           *pairs, score);
}

extern "C" void cuda_pair_gradients(struct device *device, const struct device_pairs *pairs, const float *slope,
                                    float *grad)
{
    LAUNCH(pair_rows, dim3(grid_size(pairs->n, BLOCK_THREADS / WARP)), dim3(BLOCK_THREADS), cuda_stream(device),
           *pairs, slope, grad);
}

extern "C" void cuda_rows_collect(struct device *device, const struct device_collect *how, const float *x, float *out)
{
    if (how->n_row == 0) {
        LAUNCH(collect_ascending, dim3(grid_size(how->n, BLOCK_THREADS / WARP)), dim3(BLOCK_THREADS),
               cuda_stream(device), *how, x, out);
        return;
    }
    const dim3 grid((unsigned)((how->f + WARP - 1) / WARP), grid_size(how->n_row, 1));
    LAUNCH(collect_few, grid, dim3(BLOCK_THREADS), cuda_stream(device), *how, x, out);
}

template <int LOSS>
static void groups_launch(struct device *device, const loss_groups &how, int64_t n_chunk, double *partial)
{
    LAUNCH((group_losses<LOSS>), dim3(grid_size(n_chunk, 1)), dim3(BLOCK_THREADS), cuda_stream(device), how, n_chunk,
           partial);
}

extern "C" void cuda_pair_losses(struct device *device, const struct device_pair_losses *how, double *sum)
{
    const int64_t n = how->n_group, rows = cuda_score_chunk_rows(n), n_chunk = (n + rows - 1) / rows;
    double *partial = (double *)how->scratch;
    const loss_groups all = {n, how->n_negative, how->has_edge, rows, how->weight, how->margin, how->score};
    if (how->loss == DEVICE_PAIR_LOSS_BCE) {
        groups_launch<DEVICE_PAIR_LOSS_BCE>(device, all, n_chunk, partial);
    } else if (how->loss == DEVICE_PAIR_LOSS_MARGIN) {
        groups_launch<DEVICE_PAIR_LOSS_MARGIN>(device, all, n_chunk, partial);
    } else {
        groups_launch<DEVICE_PAIR_LOSS_CROSS_ENTROPY>(device, all, n_chunk, partial);
    }
    cuda_sums_combine(device, n_chunk, partial, how->weight * how->share, sum);
}
