/* Layer norm over the columns of each row. */
#include "models/reference/reference.h"

#include <math.h>

#define EPSILON 1e-5

void reference_layer_norm_forward(struct device *device, int64_t n, int64_t f, const float *x, const float *weight,
                                  const float *bias, float *mean_rstd, float *y)
{
    (void)device;
    for (int64_t r = 0; r < n; r++) {
        const float *row = x + r * f;
        double mean = 0.0, variance = 0.0;
        for (int64_t c = 0; c < f; c++) {
            mean += row[c] / (double)f;
        }
        for (int64_t c = 0; c < f; c++) {
            variance += (row[c] - mean) * (row[c] - mean) / (double)f;
        }
        double rstd = 1.0 / sqrt(variance + EPSILON);
        for (int64_t c = 0; c < f; c++) {
            y[r * f + c] = (float)((row[c] - mean) * rstd * weight[c] + bias[c]);
        }
        mean_rstd[2 * r] = (float)mean;
        mean_rstd[2 * r + 1] = (float)rstd;
    }
}

/* With x̂ = (x − mean)·rstd and g = grad_y·weight: grad_x = rstd·(g − mean(g) − x̂·mean(g·x̂)). */
static void row_backward(int64_t f, const float *x, const float *weight, double mean, double rstd,
                         const float *grad_y, bool add, float *grad_x)
{
    double mean_g = 0.0, mean_gx = 0.0;
    for (int64_t c = 0; c < f; c++) {
        double g = (double)grad_y[c] * weight[c];
        mean_g += g / (double)f;
        mean_gx += g * (x[c] - mean) * rstd / (double)f;
    }
    for (int64_t c = 0; c < f; c++) {
        double g = (double)grad_y[c] * weight[c];
        double grad = rstd * (g - mean_g - (x[c] - mean) * rstd * mean_gx);
        grad_x[c] = (float)(add ? grad_x[c] + grad : grad);
    }
}

void reference_layer_norm_backward(struct device *device, const struct device_norm_backward *how)
{
    (void)device;
    const int64_t n = how->n, f = how->f;
    const float *x = how->x, *mean_rstd = how->mean_rstd, *grad_y = how->grad_y;
    for (int64_t c = 0; c < f; c++) {
        double sum_weight = how->add_weight ? how->grad_weight[c] : 0.0,
               sum_bias = how->add_bias ? how->grad_bias[c] : 0.0;
        for (int64_t r = 0; r < n; r++) {
            double normal = ((double)x[r * f + c] - mean_rstd[2 * r]) * mean_rstd[2 * r + 1];
            sum_weight += grad_y[r * f + c] * normal;
            sum_bias += grad_y[r * f + c];
        }
        how->grad_weight[c] = (float)sum_weight;
        how->grad_bias[c] = (float)sum_bias;
    }
    for (int64_t r = 0; r < n && how->grad_x != NULL; r++) {
        row_backward(f, x + r * f, how->weight, mean_rstd[2 * r], mean_rstd[2 * r + 1], grad_y + r * f, how->add,
                     how->grad_x + r * f);
    }
}
