/* Layer norm over the columns of each row, with the sums of models/cpu/norm.c: a row's mean and spread in eight
 * lanes, in backward one column after another, sums over rows in chunks. */
#include "models/cuda/dense/columns.h"
#include "models/cuda/rows/row_lanes.h"

#define EPSILON 1e-5

/* --- forward: a row is eight threads' --- */

__global__ void __launch_bounds__(BLOCK_THREADS)
    layer_norm_rows(int64_t n, int64_t f, const float *x, const float *weight, const float *bias, float *mean_rstd,
                    float *y)
{
    for (int64_t first = row_lanes_first(); first < n; first += row_lanes_step()) {
        const int64_t r = first + row_lanes_row();
        const float *row = x + r * f;
        const double mean = row_lanes_sum(f, r < n, [=](int64_t c) { return (double)row[c]; }) / (double)f;
        const double squares = row_lanes_sum(f, r < n, [=](int64_t c) { return (row[c] - mean) * (row[c] - mean); });
        const double rstd = 1.0 / sqrt(squares / (double)f + EPSILON);
        for (int64_t c = row_lane(); r < n && c < f; c += ROW_LANES) {
            const float scaled = (float)((row[c] - mean) * rstd) * weight[c];
            y[r * f + c] = scaled + bias[c];
        }
        if (r < n && row_lane() == 0) {
            mean_rstd[2 * r] = (float)mean;
            mean_rstd[2 * r + 1] = (float)rstd;
        }
    }
}

extern "C" void cuda_layer_norm_forward(struct device *device, int64_t n, int64_t f, const float *x,
                                        const float *weight, const float *bias, float *mean_rstd, float *y)
{
    if (n > 0) {
        LAUNCH(layer_norm_rows, dim3(grid_size(n, ROW_LANES_ROWS)), dim3(BLOCK_THREADS), cuda_stream(device), n, f, x,
               weight, bias, mean_rstd, y);
    }
}

/* --- backward --- */

struct layer_norm {
    int64_t n, f;
    const float *x, *weight, *mean_rstd, *grad_y;
    int64_t add;
    float *grad_x;
};

/* A row's shares of the gradients of weight and bias. */
struct layer_norm_terms {
    struct layer_norm norm;
    __device__ void operator()(int64_t, int64_t r, int64_t c, double term[2]) const
    {
        const double mean = __ldg(norm.mean_rstd + 2 * r), rstd = __ldg(norm.mean_rstd + 2 * r + 1);
        const float grad = __ldg(norm.grad_y + r * norm.f + c);
        term[0] = grad * normalized(__ldg(norm.x + r * norm.f + c), mean, rstd);
        term[1] = (double)grad;
    }
};

#define NORM_WARPS 4
/* Floats of a warp's 32 × 32 elements; 33 apart, so that a column's lie in 32 banks. */
#define NORM_STEP (WARP + 1)
#define NORM_TILE (WARP * NORM_STEP)

/* Σ g and Σ g·x̂ of row `lane` of 32, column after column, g = grad_y · weight: the warp reads 32 columns of all rows
 * and then each lane goes through its own. */
static __device__ __forceinline__ void row_sums(const struct layer_norm &p, int64_t first, float *x, float *grad,
                                                double mean, double rstd, double *sum, double *sum_normal)
{
    const int lane = (int)threadIdx.x % WARP;
    const int n_row = p.n - first < WARP ? (int)(p.n - first) : WARP;
    *sum = *sum_normal = 0.0;
    for (int64_t column = 0; column < p.f; column += WARP) {
        const int n_column = p.f - column < WARP ? (int)(p.f - column) : WARP;
        for (int j = 0; j < WARP; j++) {
            const int64_t at = (first + j) * p.f + column + lane;
            const bool there = j < n_row && lane < n_column;
            x[j * NORM_STEP + lane] = there ? p.x[at] : 0.0F;
            grad[j * NORM_STEP + lane] = there ? p.grad_y[at] : 0.0F;
        }
        __syncwarp(ALL_LANES);
        for (int c = 0; c < n_column; c++) {
            const double g = (double)grad[lane * NORM_STEP + c] * p.weight[column + c];
            *sum += g;
            *sum_normal += g * normalized(x[lane * NORM_STEP + c], mean, rstd);
        }
        __syncwarp(ALL_LANES);
    }
}

/* grad_x (+)= rstd·(g − mean(g) − x̂·mean(g·x̂)); a warp takes 32 rows. */
__global__ void __launch_bounds__(NORM_WARPS *WARP) layer_norm_gradients(const struct layer_norm p)
{
    SHARED(float, x_kept, NORM_WARPS *NORM_TILE);
    SHARED(float, grad_kept, NORM_WARPS *NORM_TILE);
    const int lane = (int)threadIdx.x % WARP, tile = (int)threadIdx.x / WARP * NORM_TILE;
    for (int64_t first = grid_thread() / WARP * WARP; first < p.n; first += grid_threads()) {
        const bool there = first + lane < p.n;
        const double mean = there ? p.mean_rstd[2 * (first + lane)] : 0.0;
        const double rstd = there ? p.mean_rstd[2 * (first + lane) + 1] : 0.0;
        double sum, sum_normal;
        row_sums(p, first, x_kept + tile, grad_kept + tile, mean, rstd, &sum, &sum_normal);
        sum /= (double)p.f;
        sum_normal /= (double)p.f;
        for (int j = 0; j < WARP && first + j < p.n; j++) {
            const double row_mean = __shfl_sync(ALL_LANES, mean, j, WARP),
                         row_rstd = __shfl_sync(ALL_LANES, rstd, j, WARP);
            const double mean_g = __shfl_sync(ALL_LANES, sum, j, WARP);
            const double mean_gx = __shfl_sync(ALL_LANES, sum_normal, j, WARP);
            for (int64_t c = lane; c < p.f; c += WARP) {
                const int64_t at = (first + j) * p.f + c;
                const double normal = normalized(p.x[at], row_mean, row_rstd), g = (double)p.grad_y[at] * p.weight[c];
                const float grad = (float)(row_rstd * (g - mean_g - normal * mean_gx));
                p.grad_x[at] = p.add != 0 ? p.grad_x[at] + grad : grad;
            }
        }
    }
}

extern "C" void cuda_layer_norm_backward(struct device *device, const struct device_norm_backward *how)
{
    const int64_t n = how->n, f = how->f, n_chunk = row_n_chunk(n);
    const struct layer_norm norm = {n,           f,        how->x,     how->weight, (const float *)how->mean_rstd,
                                    how->grad_y, how->add, how->grad_x};
    const layer_norm_terms terms = {norm};
    double *partial = (double *)how->scratch; /* n_chunk × (weight f, bias f) */
    columns_launch<2>(device, n, f, terms, partial);
    columns_finish(device, n_chunk, 2 * f, f, partial, how->add_weight, how->grad_weight);
    columns_finish(device, n_chunk, 2 * f, f, partial + f, how->add_bias, how->grad_bias);
    if (n * f > 0 && how->grad_x != NULL) {
        LAUNCH(layer_norm_gradients, dim3(grid_size(n, NORM_WARPS * WARP)), dim3(NORM_WARPS * WARP),
               cuda_stream(device), norm);
    }
}
