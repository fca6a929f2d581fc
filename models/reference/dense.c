/* Products with a weight w (f_out × f_in), and sums over rows. */
#include "models/device/codec.h"
#include "models/reference/reference.h"

/* An operand of a product. */
static double operand(const struct device *device, float x)
{
    return device->products == DEVICE_PRODUCTS_BF16 ? codec_round(x) : x;
}

void reference_linear(struct device *device, const struct device_linear *how, float *y)
{
    int64_t f_in = how->f_in, f_out = how->f_out, step_out = how->transposed ? 1 : f_in,
            step_in = how->transposed ? f_out : 1;
    for (int64_t r = 0; r < how->n; r++) {
        for (int64_t o = 0; o < f_out; o++) {
            double sum = (how->bias != NULL ? how->bias[o] : 0.0) + (how->add ? y[r * f_out + o] : 0.0);
            for (int64_t i = 0; i < f_in; i++) {
                sum += operand(device, how->x[r * f_in + i]) * operand(device, how->w[o * step_out + i * step_in]);
            }
            y[r * f_out + o] = (float)sum;
        }
    }
}

void reference_linear_backward_weight(struct device *device, int64_t n, int64_t f_in, int64_t f_out, const float *x,
                                      const float *grad_y, void *scratch, bool add, float *grad_w)
{
    (void)scratch;
    for (int64_t o = 0; o < f_out; o++) {
        for (int64_t i = 0; i < f_in; i++) {
            double sum = add ? grad_w[o * f_in + i] : 0.0;
            for (int64_t r = 0; r < n; r++) {
                sum += operand(device, grad_y[r * f_out + o]) * operand(device, x[r * f_in + i]);
            }
            grad_w[o * f_in + i] = (float)sum;
        }
    }
}

void reference_column_sum(struct device *device, const struct device_column_sum *how, float *out)
{
    (void)device;
    int64_t f = how->f, n_column = how->factor != NULL ? f / how->n_head : 1;
    for (int64_t c = 0; c < f; c++) {
        double sum = how->add ? out[c] : 0.0;
        for (int64_t r = 0; r < how->n; r++) {
            double factor = how->factor != NULL ? how->factor[r * how->n_head + c / n_column] : 1.0;
            sum += factor * how->x[r * f + c];
        }
        out[c] = (float)sum;
    }
}

void reference_dot(struct device *device, int64_t n, int64_t f, const float *x, const float *y, void *scratch,
                   bool add, float *out)
{
    (void)device;
    (void)scratch;
    double sum = add ? out[0] : 0.0;
    for (int64_t i = 0; i < n * f; i++) {
        sum += (double)x[i] * y[i];
    }
    out[0] = (float)sum;
}

void reference_chunks_add(struct device *device, int64_t n_value, int64_t n_chunk, const float *chunk, float *out)
{
    (void)device;
    for (int64_t i = 0; i < n_value; i++) {
        double sum = 0.0;
        for (int64_t c = 0; c < n_chunk; c++) {
            sum += chunk[c * n_value + i];
        }
        out[i] = (float)sum;
    }
}
