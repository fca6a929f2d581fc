/* One number per row: norms and products of rows, and rows times a number each. */
#include "models/reference/reference.h"

#include <math.h>

/* As torch.nn.functional.normalize. */
#define NORM_MIN 1e-12

void reference_inverse_norm(struct device *device, int64_t n, int64_t f, const float *x, float *out)
{
    (void)device;
    for (int64_t r = 0; r < n; r++) {
        double norm = sqrt(reference_product(f, x + r * f, x + r * f));
        out[r] = (float)(1.0 / (norm < NORM_MIN ? NORM_MIN : norm));
    }
}

void reference_inverse_norm_backward(struct device *device, int64_t n, int64_t f, const float *x, const float *out,
                                     const float *grad, bool add, float *grad_x)
{
    (void)device;
    for (int64_t r = 0; r < n; r++) {
        double y = out[r], slope = y < (float)(1.0 / NORM_MIN) ? -(grad[r] * y * y * y) : 0.0;
        for (int64_t i = r * f; i < (r + 1) * f; i++) {
            grad_x[i] = (float)((add ? (double)grad_x[i] : 0.0) + slope * x[i]);
        }
    }
}

void reference_rows_multiply(struct device *device, int64_t n, int64_t f, const float *scale, const float *x,
                             bool add, float *y)
{
    (void)device;
    for (int64_t i = 0; i < n * f; i++) {
        y[i] = (float)((add ? (double)y[i] : 0.0) + (double)scale[i / f] * x[i]);
    }
}

void reference_rows_dot(struct device *device, int64_t n, int64_t f, const float *x, const float *y, bool add,
                        float *out)
{
    (void)device;
    for (int64_t r = 0; r < n; r++) {
        double sum = add ? (double)out[r] : 0.0;
        for (int64_t i = r * f; i < (r + 1) * f; i++) {
            sum += (double)x[i] * y[i];
        }
        out[r] = (float)sum;
    }
}
