/* Products with a weight w (f_out × f_in), and sums over rows. */
#include "models/reference/reference.h"

void reference_linear_forward(struct device *device, int64_t n, int64_t f_in, int64_t f_out, const float *x,
                              const float *w, const float *bias, bool add, float *y)
{
    (void)device;
    for (int64_t r = 0; r < n; r++) {
        for (int64_t o = 0; o < f_out; o++) {
            double sum = (bias != NULL ? bias[o] : 0.0) + (add ? y[r * f_out + o] : 0.0);
            for (int64_t i = 0; i < f_in; i++) {
                sum += (double)x[r * f_in + i] * w[o * f_in + i];
            }
            y[r * f_out + o] = (float)sum;
        }
    }
}

void reference_linear_backward_input(struct device *device, int64_t n, int64_t f_in, int64_t f_out,
                                     const float *grad_y, const float *w, bool add, float *grad_x)
{
    (void)device;
    for (int64_t r = 0; r < n; r++) {
        for (int64_t i = 0; i < f_in; i++) {
            double sum = add ? grad_x[r * f_in + i] : 0.0;
            for (int64_t o = 0; o < f_out; o++) {
                sum += (double)grad_y[r * f_out + o] * w[o * f_in + i];
            }
            grad_x[r * f_in + i] = (float)sum;
        }
    }
}

void reference_linear_backward_weight(struct device *device, int64_t n, int64_t f_in, int64_t f_out, const float *x,
                                      const float *grad_y, void *scratch, bool add, float *grad_w)
{
    (void)device;
    (void)scratch;
    for (int64_t o = 0; o < f_out; o++) {
        for (int64_t i = 0; i < f_in; i++) {
            double sum = add ? grad_w[o * f_in + i] : 0.0;
            for (int64_t r = 0; r < n; r++) {
                sum += (double)grad_y[r * f_out + o] * x[r * f_in + i];
            }
            grad_w[o * f_in + i] = (float)sum;
        }
    }
}

size_t reference_linear_scratch(int64_t n, int64_t f_in, int64_t f_out)
{
    (void)n;
    (void)f_in;
    (void)f_out;
    return 0;
}

void reference_column_sum(struct device *device, int64_t n, int64_t f, const float *x, void *scratch, bool add,
                          float *out)
{
    (void)device;
    (void)scratch;
    for (int64_t c = 0; c < f; c++) {
        double sum = add ? out[c] : 0.0;
        for (int64_t r = 0; r < n; r++) {
            sum += x[r * f + c];
        }
        out[c] = (float)sum;
    }
}

size_t reference_column_sum_scratch(int64_t n, int64_t f)
{
    (void)n;
    (void)f;
    return 0;
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
