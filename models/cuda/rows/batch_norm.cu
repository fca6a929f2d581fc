/* Batch norm over the rows of all parts, with the sums of models/cpu/batch_norm.c: in double over chunks of rows,
 * merged in their order. */
#include "models/cuda/dense/columns.h"
#include "models/cuda/quads.h"

extern "C" {
#include "models/device/statistics.h"
}

#define EPSILON 1e-5

/* --- statistics --- */

/* x less its column's first element in the chunk is as small as x's spread, so that double keeps what cancels. */
struct spread_terms {
    int64_t f;
    const float *x;
    __device__ void operator()(int64_t first, int64_t r, int64_t c, double term[2]) const
    {
        const double apart = r == first ? 0.0 : (double)__ldg(x + r * f + c) - __ldg(x + first * f + c);
        term[0] = apart;
        term[1] = apart * apart;
    }
};

/* Statistics of one column over n rows. */
struct spread {
    double n, mean, squares;
};

/* models/device/statistics.c's, of one column */
static __device__ __forceinline__ void spread_merge(spread *left, const spread &right)
{
    if (right.n == 0.0) {
        return;
    }
    const double n = left->n + right.n, share = right.n / n, both = left->n * share, apart = right.mean - left->mean;
    left->mean += apart * share;
    left->squares += right.squares + apart * apart * both;
    left->n = n;
}

/* partial: n_chunk × 2 × f sums of spread_terms */
__global__ void __launch_bounds__(BLOCK_THREADS)
    chunks_merge(int64_t n, int64_t f, int64_t rows, const float *x, const double *partial, double *statistics)
{
    for (int64_t c = grid_thread(); c < f; c += grid_threads()) {
        spread all = {0.0, 0.0, 0.0};
        for (int64_t first = 0, i = 0; first < n; first += rows, i++) {
            const double n_row = (double)(n - first < rows ? n - first : rows);
            const double sum = partial[2 * i * f + c], squares = partial[(2 * i + 1) * f + c];
            const spread chunk = {n_row, x[first * f + c] + sum / n_row, fmax(squares - sum * sum / n_row, 0.0)};
            spread_merge(&all, chunk);
        }
        statistics[1 + c] = all.mean;
        statistics[1 + f + c] = all.squares;
    }
    if (grid_thread() == 0) {
        statistics[0] = (double)n;
    }
}

extern "C" void cuda_batch_norm_statistics(struct device *device, int64_t n, int64_t f, const float *x, void *scratch,
                                           double *statistics)
{
    const spread_terms terms = {f, x};
    columns_launch<2>(device, n, f, terms, (double *)scratch);
    LAUNCH(chunks_merge, dim3(grid_size(f, BLOCK_THREADS)), dim3(BLOCK_THREADS), cuda_stream(device), n, f,
           row_chunk_rows(n), x, (const double *)scratch, statistics);
}

/* One block: the numbers of rows are read by all before one thread writes the sum. */
__global__ void __launch_bounds__(BLOCK_THREADS) spreads_merge(int64_t f, double *left, const double *right)
{
    const double n_left = left[0], n_right = right[0];
    __syncthreads();
    for (int64_t c = 1 + (int64_t)threadIdx.x; c <= f; c += BLOCK_THREADS) {
        spread sum = {n_left, left[c], left[f + c]};
        const spread share = {n_right, right[c], right[f + c]};
        spread_merge(&sum, share);
        left[c] = sum.mean;
        left[f + c] = sum.squares;
    }
    if (threadIdx.x == 0) {
        left[0] = n_left + n_right;
    }
}

__global__ void __launch_bounds__(BLOCK_THREADS) doubles_add(int64_t n, const double *from, double *to)
{
    for (int64_t i = grid_thread(); i < n; i += grid_threads()) {
        to[i] += from[i];
    }
}

extern "C" void cuda_doubles_merge(struct device *device, bool statistics, int64_t n, const double *from, double *to)
{
    if (statistics) {
        LAUNCH(spreads_merge, dim3(1), dim3(BLOCK_THREADS), cuda_stream(device), (n - 1) / 2, to, from);
    } else if (n > 0) {
        LAUNCH(doubles_add, dim3(grid_size(n, BLOCK_THREADS)), dim3(BLOCK_THREADS), cuda_stream(device), n, from, to);
    }
}

__global__ void __launch_bounds__(BLOCK_THREADS)
    running_move(int64_t f, const double *statistics, double momentum, float *running_mean, float *running_var,
                 double *mean_rstd)
{
    for (int64_t c = grid_thread(); c < f; c += grid_threads()) {
        double mean, variance;
        if (statistics == nullptr) {
            mean = running_mean[c];
            variance = running_var[c];
        } else {
            mean = statistics[1 + c];
            variance = statistics[1 + f + c] / statistics[0];
        }
        if (statistics != nullptr && running_mean != nullptr) {
            const double n = statistics[0], squares = statistics[1 + f + c];
            running_mean[c] = (float)((1.0 - momentum) * running_mean[c] + momentum * mean);
            running_var[c] = (float)((1.0 - momentum) * running_var[c] + momentum * squares / fmax(n - 1.0, 1.0));
        }
        mean_rstd[c] = mean;
        mean_rstd[f + c] = 1.0 / sqrt(variance + EPSILON);
    }
}

extern "C" void cuda_batch_norm_begin(struct device *device, int64_t f, const double *statistics, double momentum,
                                      float *running_mean, float *running_var, double *mean_rstd)
{
    LAUNCH(running_move, dim3(grid_size(f, BLOCK_THREADS)), dim3(BLOCK_THREADS), cuda_stream(device), f, statistics,
           momentum, running_mean, running_var, mean_rstd);
}

/* --- the rows --- */

/* y = (x - mean) · rstd · weight + bias */
struct norm_map {
    int64_t f;
    const float *x;
    const double *mean_rstd;
    const float *weight, *bias;
    float *y;
    template <bool VECTOR> __device__ void quad(int64_t r, int64_t c, int n) const
    {
        const struct quad by = quad_load<VECTOR>(weight + c, n), shift = quad_load<VECTOR>(bias + c, n);
        struct quad value = quad_load<VECTOR>(x + r * f + c, n);
        for (int k = 0; k < 4; k++) {
            const double mean = k < n ? mean_rstd[c + k] : 0.0, rstd = k < n ? mean_rstd[f + c + k] : 0.0;
            const float scaled = (float)normalized(value.v[k], mean, rstd) * by.v[k];
            value.v[k] = scaled + shift.v[k];
        }
        quad_store<VECTOR>(y + r * f + c, n, value);
    }
};

extern "C" void cuda_batch_norm_forward(struct device *device, int64_t n, int64_t f, const float *x,
                                        const double *mean_rstd, const float *weight, const float *bias, float *y)
{
    const bool aligned = f % 4 == 0 && quad_aligned(x) && quad_aligned(weight) && quad_aligned(bias) &&
                         quad_aligned(y);
    const norm_map map = {f, x, mean_rstd, weight, bias, y};
    quads_launch(device, n, f, aligned, map);
}

/* grad_y and grad_y · x̂ */
struct gradient_terms {
    int64_t f;
    const float *x, *grad_y;
    const double *mean_rstd;
    __device__ void operator()(int64_t, int64_t r, int64_t c, double term[2]) const
    {
        const float grad = __ldg(grad_y + r * f + c);
        term[0] = (double)grad;
        term[1] = grad * normalized(__ldg(x + r * f + c), __ldg(mean_rstd + c), __ldg(mean_rstd + f + c));
    }
};

__global__ void __launch_bounds__(BLOCK_THREADS)
    gradients_finish(int64_t n, int64_t n_chunk, int64_t f, const double *partial, double *sums, float *grad_weight,
                     float *grad_bias)
{
    for (int64_t c = grid_thread(); c < 2 * f; c += grid_threads()) {
        double sum = 0.0;
        for (int64_t i = 0; i < n_chunk; i++) {
            sum += partial[2 * i * f + c];
        }
        sums[1 + c] = sum;
        if (c < f) {
            grad_bias[c] = (float)sum;
        } else {
            grad_weight[c - f] = (float)sum;
        }
    }
    if (grid_thread() == 0) {
        sums[0] = (double)n;
    }
}

extern "C" void cuda_batch_norm_sums(struct device *device, const struct device_norm_backward *how, double *sums)
{
    const int64_t n = how->n, f = how->f;
    const gradient_terms terms = {f, how->x, how->grad_y, (const double *)how->mean_rstd};
    columns_launch<2>(device, n, f, terms, (double *)how->scratch);
    LAUNCH(gradients_finish, dim3(grid_size(2 * f, BLOCK_THREADS)), dim3(BLOCK_THREADS), cuda_stream(device), n,
           row_n_chunk(n), f, (const double *)how->scratch, sums, how->grad_weight, how->grad_bias);
}

/* grad_x (+)= weight · rstd · (grad_y - Σ grad_y / n - x̂ · Σ grad_y x̂ / n), sums over the rows of all parts */
struct gradient_map {
    int64_t f, add;
    const float *x, *weight;
    const double *mean_rstd, *sums;
    const float *grad_y;
    float *grad_x;
    template <bool VECTOR> __device__ void quad(int64_t r, int64_t c, int n) const
    {
        const double share = 1.0 / sums[0];
        const struct quad value = quad_load<VECTOR>(x + r * f + c, n), by = quad_load<VECTOR>(weight + c, n);
        struct quad grad = quad_load<VECTOR>(grad_y + r * f + c, n);
        for (int k = 0; k < 4 && k < n; k++) {
            const double rstd = mean_rstd[f + c + k], normal = normalized(value.v[k], mean_rstd[c + k], rstd);
            const double rest = grad.v[k] - sums[1 + c + k] * share - normal * (sums[1 + f + c + k] * share);
            grad.v[k] = (float)(by.v[k] * rstd * rest);
        }
        quad_put<VECTOR>(grad_x + r * f + c, n, add != 0, grad);
    }
};

extern "C" void cuda_batch_norm_backward(struct device *device, const struct device_norm_backward *how,
                                         const double *sums)
{
    const bool aligned = how->f % 4 == 0 && quad_aligned(how->x) && quad_aligned(how->weight) &&
                         quad_aligned(how->grad_y) && quad_aligned(how->grad_x);
    const gradient_map map = {how->f, how->add,    how->x,     how->weight, (const double *)how->mean_rstd,
                              sums,   how->grad_y, how->grad_x};
    quads_launch(device, how->n, how->f, aligned, map);
}
