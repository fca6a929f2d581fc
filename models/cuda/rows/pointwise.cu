/* Element-by-element maps. Every step is rounded as models/cpu/pointwise.c and its kernels round it. */
#include "models/cuda/functions.h"
#include "models/cuda/quads.h"

/* --- activation and dropout --- */

static __device__ __forceinline__ float activate_value(enum device_activation kind, float x)
{
    switch (kind) {
    case DEVICE_ACTIVATION_ELU:
        return x < 0.0F ? expm1_negative(x) : x;
    case DEVICE_ACTIVATION_GELU:
        return fixed_gelu(x);
    default:
        return activate_simple(kind, x);
    }
}

/* The derivative at input x (gelu) or where the activation's value is u (the others). */
static __device__ __forceinline__ float activate_slope(enum device_activation kind, float x, float u)
{
    switch (kind) {
    case DEVICE_ACTIVATION_RELU:
        return u > 0.0F ? 1.0F : 0.0F;
    case DEVICE_ACTIVATION_ELU:
        return u > 0.0F ? 1.0F : u + 1.0F;
    case DEVICE_ACTIVATION_LEAKY_RELU:
        return u > 0.0F ? 1.0F : 0.01F;
    case DEVICE_ACTIVATION_GELU:
        return fixed_gelu_slope(x);
    default:
        return 1.0F;
    }
}

/* Columns c … c+3 of row r; c a multiple of 4. */
static __device__ __forceinline__ void kept(const dropout &drop, int64_t r, int64_t c, bool keep[4])
{
    if (drop.threshold == 0) {
        keep[0] = keep[1] = keep[2] = keep[3] = true;
        return;
    }
    const uint4 draws = dropout_draws(drop, r, c);
    for (int k = 0; k < 4; k++) {
        keep[k] = draw_at(draws, (unsigned)k) >= drop.threshold;
    }
}

/* One kernel has all activations: a branch of whole warps costs less than the rows' bytes. */
struct forward_map {
    dropout drop;
    double scale;
    int64_t kind; /* enum device_activation: arguments have no padding */
    quad_rows x, y;
    template <bool VECTOR> __device__ void quad(int64_t r, int64_t c, int n) const
    {
        bool keep[4];
        struct quad value = x.load<VECTOR>(r, c, n);
        kept(drop, r, c, keep);
        for (int k = 0; k < 4; k++) {
            value.v[k] = keep[k] ? activate_value((enum device_activation)kind, value.v[k]) * (float)scale : 0.0F;
        }
        y.put<VECTOR>(r, c, n, false, value);
    }
};

struct backward_map {
    dropout drop;
    double scale;
    int64_t kind, add;
    quad_rows x, y, grad_y, grad_x;
    template <bool VECTOR> __device__ void quad(int64_t r, int64_t c, int n) const
    {
        const bool reads_x = kind == DEVICE_ACTIVATION_GELU, reads_y = !reads_x && kind != DEVICE_ACTIVATION_NONE;
        const float by = (float)scale, unscale = 1.0F / by;
        bool keep[4];
        struct quad grad = grad_y.load<VECTOR>(r, c, n);
        const struct quad saved = reads_x ? x.load<VECTOR>(r, c, n) : reads_y ? y.load<VECTOR>(r, c, n) : grad;
        kept(drop, r, c, keep);
        for (int k = 0; k < 4; k++) {
            const float slope = activate_slope((enum device_activation)kind, reads_x ? saved.v[k] : 0.0F,
                                               reads_y ? saved.v[k] * unscale : 0.0F);
            grad.v[k] = keep[k] ? grad.v[k] * by * slope : 0.0F;
        }
        grad_x.put<VECTOR>(r, c, n, add != 0, grad);
    }
};

/* Rows of f numbers are one row, but where draws are counted by row, or rows end with half a word. */
static bool is_flat(const struct device *device, const dropout &drop, int64_t f)
{
    return drop.threshold == 0 && (device->bf16.n == 0 || f % 2 == 0);
}

extern "C" void cuda_activate_forward(struct device *device, int64_t n, int64_t f,
                                      const struct device_activate *activate, const float *x, float *y)
{
    const dropout drop = dropout_make(activate);
    const bool flat = is_flat(device, drop, f);
    const forward_map map = {drop, 1.0 / (1.0 - activate->p), activate->activation, quad_rows_make(device, x, f),
                             quad_rows_make(device, y, f)};
    quads_launch(device, flat ? 1 : n, flat ? n * f : f, quad_rows_aligned(flat, map.x, map.y), map);
}

extern "C" void cuda_activate_backward(struct device *device, int64_t n, int64_t f,
                                       const struct device_activate *activate, const float *x, const float *y,
                                       const float *grad_y, bool add, float *grad_x)
{
    dropout drop = dropout_make(activate);
    if (activate->activation == DEVICE_ACTIVATION_RELU) {
        drop.threshold = 0; /* a dropped y is 0, where relu's slope is 0, too: no draw is needed */
    }
    const bool flat = is_flat(device, drop, f);
    const backward_map map = {drop,
                              1.0 / (1.0 - activate->p),
                              activate->activation,
                              add,
                              quad_rows_make(device, x, f),
                              quad_rows_make(device, y, f),
                              quad_rows_make(device, grad_y, f),
                              quad_rows_make(device, grad_x, f)};
    const bool aligned = quad_rows_aligned(flat, map.x, map.y, map.grad_y, map.grad_x);
    quads_launch(device, flat ? 1 : n, flat ? n * f : f, aligned, map);
}

/* --- sums --- */

/* out = a·x + b·y, or a·x; a is a + eps[0] where there is an eps. */
struct sum_map {
    float a, b;
    const float *eps;
    quad_rows x, y, out;
    template <bool VECTOR> __device__ void quad(int64_t r, int64_t c, int n) const
    {
        const float by_x = eps != nullptr ? a + eps[0] : a, by_y = b;
        struct quad value = x.load<VECTOR>(r, c, n);
        for (int k = 0; k < 4; k++) {
            value.v[k] = by_x * value.v[k];
        }
        if (y.at != nullptr) {
            const struct quad other = y.load<VECTOR>(r, c, n);
            for (int k = 0; k < 4; k++) {
                const float product = by_y * other.v[k];
                value.v[k] = value.v[k] + product;
            }
        }
        out.put<VECTOR>(r, c, n, false, value);
    }
};

extern "C" void cuda_axpby(struct device *device, int64_t n_value, float a, const float *eps, const float *x, float b,
                           const float *y, float *out)
{
    const int64_t of_x = cuda_bf16(device, x), of_y = cuda_bf16(device, y), of_out = cuda_bf16(device, out);
    const int64_t width = of_x > 0 ? of_x : of_y > 0 ? of_y : of_out;
    const int64_t f = width > 0 ? width : n_value; /* all floats: one row */
    const sum_map map = {
        a, b, eps, quad_rows_make(device, x, f), quad_rows_make(device, y, f), quad_rows_make(device, out, f)};
    quads_launch(device, f > 0 ? n_value / f : 0, f, quad_rows_aligned(f == n_value, map.x, map.y, map.out), map);
}

extern "C" void cuda_bias_add(struct device *device, int64_t n, int64_t f, const float *x, const float *bias,
                              float *y)
{
    const sum_map map = {
        1.0F, 1.0F, nullptr, quad_rows_make(device, x, f), {(void *)bias, 0, 0}, quad_rows_make(device, y, f)};
    quads_launch(device, n, f, quad_rows_aligned(false, map.x, map.y, map.out), map);
}

extern "C" void cuda_columns_copy(struct device *device, int64_t n, int64_t f, const float *from, int64_t from_width,
                                  float *to, int64_t to_width, bool add)
{
    const quad_rows out = {to, to_width, 0};
    const sum_map map = {1.0F, 1.0F, nullptr, {(void *)from, from_width, 0}, {add ? to : nullptr, to_width, 0}, out};
    quads_launch(device, n, f, quad_rows_aligned(false, map.x, map.y, map.out), map);
}

/* --- maxima --- */

struct max_map {
    const float *x, *y;
    float *out;
    template <bool VECTOR> __device__ void quad(int64_t, int64_t c, int n) const
    {
        const struct quad other = quad_load<VECTOR>(y + c, n);
        struct quad value = quad_load<VECTOR>(x + c, n);
        for (int k = 0; k < 4; k++) {
            value.v[k] = value.v[k] >= other.v[k] || isnan(value.v[k]) ? value.v[k] : other.v[k];
        }
        quad_store<VECTOR>(out + c, n, value);
    }
};

extern "C" void cuda_max_forward(struct device *device, int64_t n_value, const float *x, const float *y, float *out)
{
    const max_map map = {x, y, out};
    quads_launch(device, 1, n_value, quad_aligned(x) && quad_aligned(y) && quad_aligned(out), map);
}

/* grad (+)= grad_out where x is out, or where it is not; NULL: not wanted */
struct max_backward_map {
    int64_t add_x, add_y;
    const float *x, *out, *grad_out;
    float *grad_x, *grad_y;
    template <bool VECTOR> __device__ void quad(int64_t, int64_t c, int n) const
    {
        const struct quad value = quad_load<VECTOR>(x + c, n), greatest = quad_load<VECTOR>(out + c, n);
        const struct quad grad = quad_load<VECTOR>(grad_out + c, n);
        struct quad to_x, to_y;
        for (int k = 0; k < 4; k++) {
            to_x.v[k] = value.v[k] == greatest.v[k] ? grad.v[k] : 0.0F;
            to_y.v[k] = value.v[k] == greatest.v[k] ? 0.0F : grad.v[k];
        }
        if (grad_x != nullptr) {
            quad_put<VECTOR>(grad_x + c, n, add_x != 0, to_x);
        }
        if (grad_y != nullptr) {
            quad_put<VECTOR>(grad_y + c, n, add_y != 0, to_y);
        }
    }
};

extern "C" void cuda_max_backward(struct device *device, int64_t n_value, const float *x, const float *out,
                                  const float *grad_out, bool add_x, float *grad_x, bool add_y, float *grad_y)
{
    const bool aligned = quad_aligned(x) && quad_aligned(out) && quad_aligned(grad_out) && quad_aligned(grad_x) &&
                         quad_aligned(grad_y);
    const max_backward_map map = {add_x, add_y, x, out, grad_out, grad_x, grad_y};
    quads_launch(device, 1, n_value, aligned, map);
}
