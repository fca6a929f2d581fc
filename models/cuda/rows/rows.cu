/* One number per row, rows times a number each, and rows in another order. Sums over a row go in eight lanes, as
 * models/cpu/rows.c has them: a row is eight threads'. */
#include "models/cuda/quads.h"
#include "models/cuda/rows/row_lanes.h"

/* As torch.nn.functional.normalize. */
#define NORM_MIN 1e-12

/* ⟨x[r], y[r]⟩ in all eight lanes. */
static __device__ __forceinline__ double row_dot(int64_t f, const float *x, const float *y, bool there)
{
    return row_lanes_sum(f, there, [=](int64_t c) { return (double)x[c] * (double)y[c]; });
}

__global__ void __launch_bounds__(BLOCK_THREADS) inverse_norm_rows(int64_t n, int64_t f, const float *x, float *out)
{
    for (int64_t first = row_lanes_first(); first < n; first += row_lanes_step()) {
        const int64_t r = first + row_lanes_row();
        const float *row = x + r * f;
        const double norm = sqrt(row_dot(f, row, row, r < n));
        if (r < n && row_lane() == 0) {
            out[r] = (float)(1.0 / (norm < NORM_MIN ? NORM_MIN : norm));
        }
    }
}

extern "C" void cuda_inverse_norm(struct device *device, int64_t n, int64_t f, const float *x, float *out)
{
    if (n > 0) {
        LAUNCH(inverse_norm_rows, dim3(grid_size(n, ROW_LANES_ROWS)), dim3(BLOCK_THREADS), cuda_stream(device), n, f,
               x, out);
    }
}

__global__ void __launch_bounds__(BLOCK_THREADS)
    rows_dot_rows(int64_t n, int64_t f, const float *x, const float *y, bool add, float *out)
{
    for (int64_t first = row_lanes_first(); first < n; first += row_lanes_step()) {
        const int64_t r = first + row_lanes_row();
        const float dot = (float)row_dot(f, x + r * f, y + r * f, r < n);
        if (r < n && row_lane() == 0) {
            out[r] = add ? out[r] + dot : dot;
        }
    }
}

extern "C" void cuda_rows_dot(struct device *device, int64_t n, int64_t f, const float *x, const float *y, bool add,
                              float *out)
{
    if (n > 0) {
        LAUNCH(rows_dot_rows, dim3(grid_size(n, ROW_LANES_ROWS)), dim3(BLOCK_THREADS), cuda_stream(device), n, f, x,
               y, add, out);
    }
}

/* --- rows times a number each --- */

/* y (+)= scale[r] · x; with norm, whose slope is -x / ‖x‖³, y (+)= scale[r] · ∂norm[r]/∂x */
struct multiply_map {
    int64_t f, add;
    const float *scale, *norm, *x;
    float *y;
    template <bool VECTOR> __device__ void quad(int64_t r, int64_t c, int n) const
    {
        float by = scale[r];
        if (norm != nullptr) {
            const double inverse = (double)norm[r];
            by = (float)(norm[r] < (float)(1.0 / NORM_MIN) ? -(double)by * inverse * inverse * inverse : 0.0);
        }
        struct quad value = quad_load<VECTOR>(x + r * f + c, n);
        for (int k = 0; k < 4; k++) {
            value.v[k] = by * value.v[k];
        }
        quad_put<VECTOR>(y + r * f + c, n, add != 0, value);
    }
};

extern "C" void cuda_inverse_norm_backward(struct device *device, int64_t n, int64_t f, const float *x,
                                           const float *out, const float *grad, bool add, float *grad_x)
{
    const multiply_map map = {f, add, grad, out, x, grad_x};
    quads_launch(device, n, f, f % 4 == 0 && quad_aligned(x) && quad_aligned(grad_x), map);
}

extern "C" void cuda_rows_multiply(struct device *device, int64_t n, int64_t f, const float *scale, const float *x,
                                   bool add, float *y)
{
    cuda_inverse_norm_backward(device, n, f, x, nullptr, scale, add, y);
}

/* --- rows in another order --- */

struct swap_map {
    int64_t a, b, c;
    const float *x;
    float *out;
    template <bool VECTOR> __device__ void quad(int64_t r, int64_t column, int n) const
    { /* r = i · b + j */
        const int64_t i = r / b, j = r % b;
        quad_store<VECTOR>(out + (j * a + i) * c + column, n, quad_load<VECTOR>(x + r * c + column, n));
    }
};

extern "C" void cuda_swap_axes(struct device *device, int64_t a, int64_t b, int64_t c, const float *x, float *out)
{
    const swap_map map = {a, b, c, x, out};
    quads_launch(device, a * b, c, c % 4 == 0 && quad_aligned(x) && quad_aligned(out), map);
}
