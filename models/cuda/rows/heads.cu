/* Rows seen as heads of columns: a product of each head with a vector of its own, and the mean over heads. */
#include "models/cuda/quads.h"

/* --- products --- */

/* Lanes of a product, each a thread: lane l adds columns l, l + 16, … by fma, and the lanes are added 8 apart, then
 * 4, 2, 1. */
#define DOT_LANES 16

/* out[i] = ⟨x[i], w[i mod n_head]⟩ of all heads of all rows; a warp takes two at a time. */
__global__ void __launch_bounds__(BLOCK_THREADS)
    head_dots(int64_t n_dot, int64_t n_head, int64_t n_column, const float *x, const float *w, float *out)
{
    const int lane = (int)threadIdx.x % DOT_LANES;
    for (int64_t first = grid_thread() / WARP * 2; first < n_dot; first += grid_threads() / DOT_LANES) {
        const int64_t i = first + (int)threadIdx.x % WARP / DOT_LANES;
        const float *mine = x + i * n_column, *by = w + i % n_head * n_column;
        float sum = 0.0F;
        for (int64_t c = lane; i < n_dot && c < n_column; c += DOT_LANES) {
            sum = fmaf(__ldg(by + c), __ldg(mine + c), sum);
        }
        for (int apart = DOT_LANES / 2; apart > 0; apart /= 2) {
            sum += __shfl_xor_sync(ALL_LANES, sum, apart, WARP);
        }
        if (i < n_dot && lane == 0) {
            out[i] = sum;
        }
    }
}

extern "C" void cuda_head_dot(struct device *device, int64_t n, int64_t n_head, int64_t n_column, const float *x,
                              const float *w, float *out)
{
    if (n * n_head > 0) {
        LAUNCH(head_dots, dim3(grid_size(n * n_head, BLOCK_THREADS / DOT_LANES)), dim3(BLOCK_THREADS),
               cuda_stream(device), n * n_head, n_head, n_column, x, w, out);
    }
}

/* Row r is head r mod n_head of a row. */
struct head_map {
    int64_t n_head, n_column, add;
    const float *w, *grad;
    float *grad_x;
    template <bool VECTOR> __device__ void quad(int64_t r, int64_t c, int n) const
    {
        const float g = grad[r];
        struct quad product = quad_load<VECTOR>(w + r % n_head * n_column + c, n);
        for (int k = 0; k < 4; k++) {
            product.v[k] = g * product.v[k];
        }
        quad_put<VECTOR>(grad_x + r * n_column + c, n, add != 0, product);
    }
};

extern "C" void cuda_head_dot_backward_input(struct device *device, int64_t n, int64_t n_head, int64_t n_column,
                                             const float *w, const float *grad, bool add, float *grad_x)
{
    const head_map map = {n_head, n_column, add, w, grad, grad_x};
    quads_launch(device, n * n_head, n_column, n_column % 4 == 0 && quad_aligned(w) && quad_aligned(grad_x), map);
}

/* --- means --- */

struct mean_map {
    int64_t n_head, n_column;
    const float *x;
    float *out;
    template <bool VECTOR> __device__ void quad(int64_t r, int64_t c, int n) const
    {
        const float share = 1.0F / (float)n_head, *row = x + r * n_head * n_column + c;
        struct quad sum = quad_load<VECTOR>(row, n);
        for (int64_t h = 1; h < n_head; h++) {
            const struct quad value = quad_load<VECTOR>(row + h * n_column, n);
            for (int k = 0; k < 4; k++) {
                sum.v[k] = sum.v[k] + value.v[k];
            }
        }
        for (int k = 0; k < 4; k++) {
            sum.v[k] = sum.v[k] * share;
        }
        quad_store<VECTOR>(out + r * n_column + c, n, sum);
    }
};

struct mean_backward_map {
    int64_t n_head, n_column, add;
    const float *grad;
    float *grad_x;
    template <bool VECTOR> __device__ void quad(int64_t r, int64_t c, int n) const
    {
        const float share = 1.0F / (float)n_head;
        struct quad part = quad_load<VECTOR>(grad + r * n_column + c, n);
        for (int k = 0; k < 4; k++) {
            part.v[k] = share * part.v[k];
        }
        for (int64_t h = 0; h < n_head; h++) {
            quad_put<VECTOR>(grad_x + (r * n_head + h) * n_column + c, n, add != 0, part);
        }
    }
};

extern "C" void cuda_head_mean(struct device *device, int64_t n, int64_t n_head, int64_t n_column, bool backward,
                               const float *from, bool add, float *to)
{
    const bool aligned = n_column % 4 == 0 && quad_aligned(from) && quad_aligned(to);
    if (backward) {
        quads_launch(device, n, n_column, aligned, mean_backward_map{n_head, n_column, add, from, to});
    } else {
        quads_launch(device, n, n_column, aligned, mean_map{n_head, n_column, from, to});
    }
}
