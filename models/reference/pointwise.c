/* Element-by-element maps: activation with dropout, bias, weighted sums. */
#include "models/reference/reference.h"

#include <math.h>

static double activation(enum device_activation kind, double x)
{
    switch (kind) {
    case DEVICE_ACTIVATION_RELU:
        return x <= 0.0 ? 0.0 : x; /* NaN stays NaN */
    case DEVICE_ACTIVATION_ELU:
        return x > 0.0 ? x : expm1(x);
    case DEVICE_ACTIVATION_LEAKY_RELU:
        return x > 0.0 ? x : 0.01 * x;
    case DEVICE_ACTIVATION_GELU:
        return 0.5 * x * erfc(-x * M_SQRT1_2);
    case DEVICE_ACTIVATION_NONE:
        break;
    }
    return x;
}

/* The derivative at input x (gelu) or at the place where the activation is u (the others: u tells x's sign). */
static double derivative(enum device_activation kind, double x, double u)
{
    switch (kind) {
    case DEVICE_ACTIVATION_RELU:
        return u > 0.0 ? 1.0 : 0.0;
    case DEVICE_ACTIVATION_ELU:
        return u > 0.0 ? 1.0 : u + 1.0;
    case DEVICE_ACTIVATION_LEAKY_RELU:
        return u > 0.0 ? 1.0 : 0.01;
    case DEVICE_ACTIVATION_GELU: /* Φ(x) + x φ(x) */
        return 0.5 * erfc(-x * M_SQRT1_2) + x * exp(-0.5 * x * x) * (0.5 * M_2_SQRTPI * M_SQRT1_2);
    case DEVICE_ACTIVATION_NONE:
        break;
    }
    return 1.0;
}

static bool is_dropped(const struct device_activate *activate, int64_t row, int64_t column)
{
    const struct random_key key = device_key(&activate->key, activate->now);
    return activate->p > 0.0 &&
           random_u32(&key, activate->node[row], (uint32_t)column) < random_drop_threshold(activate->p);
}

void reference_activate_forward(struct device *device, int64_t n, int64_t f, const struct device_activate *activate,
                                const float *x, float *y)
{
    (void)device;
    double scale = 1.0 / (1.0 - activate->p);
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c < f; c++) {
            int64_t i = r * f + c;
            y[i] = is_dropped(activate, r, c) ? 0.0f : (float)(scale * activation(activate->activation, x[i]));
        }
    }
}

void reference_activate_backward(struct device *device, int64_t n, int64_t f, const struct device_activate *activate,
                                 const float *x, const float *y, const float *grad_y, bool add, float *grad_x)
{
    (void)device;
    double scale = 1.0 / (1.0 - activate->p);
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c < f; c++) {
            int64_t i = r * f + c;
            double grad = 0.0;
            if (!is_dropped(activate, r, c)) {
                double input = x != NULL ? x[i] : 0.0;
                double output = y != NULL ? y[i] / scale : 0.0;
                grad = grad_y[i] * scale * derivative(activate->activation, input, output);
            }
            grad_x[i] = (float)(add ? grad_x[i] + grad : grad);
        }
    }
}

void reference_bias_add(struct device *device, int64_t n, int64_t f, const float *x, const float *bias, float *y)
{
    (void)device;
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c < f; c++) {
            y[r * f + c] = x[r * f + c] + bias[c];
        }
    }
}

void reference_axpby(struct device *device, int64_t n_value, float a, const float *eps, const float *x, float b,
                     const float *y, float *out)
{
    (void)device;
    double by = eps != NULL ? (double)a + eps[0] : (double)a;
    for (int64_t i = 0; i < n_value; i++) {
        out[i] = (float)(by * x[i] + (y != NULL ? (double)b * y[i] : 0.0));
    }
}

void reference_columns_copy(struct device *device, int64_t n, int64_t f, const float *from, int64_t from_width,
                            float *to, int64_t to_width, bool add)
{
    (void)device;
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c < f; c++) {
            to[r * to_width + c] = from[r * from_width + c] + (add ? to[r * to_width + c] : 0.0f);
        }
    }
}

void reference_max_forward(struct device *device, int64_t n_value, const float *x, const float *y, float *out)
{
    (void)device;
    for (int64_t i = 0; i < n_value; i++) {
        out[i] = x[i] >= y[i] || isnan(x[i]) ? x[i] : y[i];
    }
}

void reference_max_backward(struct device *device, int64_t n_value, const float *x, const float *out,
                            const float *grad_out, bool add_x, float *grad_x, bool add_y, float *grad_y)
{
    (void)device;
    for (int64_t i = 0; i < n_value; i++) {
        bool to_x = x[i] == out[i];
        if (grad_x != NULL) {
            grad_x[i] = (to_x ? grad_out[i] : 0.0f) + (add_x ? grad_x[i] : 0.0f);
        }
        if (grad_y != NULL) {
            grad_y[i] = (to_x ? 0.0f : grad_out[i]) + (add_y ? grad_y[i] : 0.0f);
        }
    }
}
