/* Batch norm: each column normalised over the rows of all parts. */
#include "models/reference/reference.h"

#include "models/device/statistics.h"

#include <math.h>

#define EPSILON 1e-5

void reference_batch_norm_statistics(struct device *device, int64_t n, int64_t f, const float *x, void *scratch,
                                     double *statistics)
{
    (void)device;
    (void)scratch;
    statistics[0] = (double)n;
    for (int64_t c = 0; c < f; c++) {
        double mean = 0.0, squares = 0.0;
        for (int64_t r = 0; r < n; r++) {
            mean += x[r * f + c] / (double)n;
        }
        for (int64_t r = 0; r < n; r++) {
            squares += (x[r * f + c] - mean) * (x[r * f + c] - mean);
        }
        statistics[1 + c] = mean;
        statistics[1 + f + c] = squares;
    }
}

void reference_batch_norm_begin(struct device *device, int64_t f, const double *statistics, double momentum,
                                float *running_mean, float *running_var, double *mean_rstd)
{
    (void)device;
    for (int64_t c = 0; c < f; c++) {
        double mean, variance;
        if (statistics != NULL) {
            double n = statistics[0], squares = statistics[1 + f + c];
            mean = statistics[1 + c];
            variance = squares / n;
            if (running_mean != NULL) {
                running_mean[c] = (float)((1.0 - momentum) * running_mean[c] + momentum * mean);
                running_var[c] = (float)((1.0 - momentum) * running_var[c] + momentum * squares / fmax(n - 1.0, 1.0));
            }
        } else {
            mean = running_mean[c];
            variance = running_var[c];
        }
        mean_rstd[c] = mean;
        mean_rstd[f + c] = 1.0 / sqrt(variance + EPSILON);
    }
}

void reference_batch_norm_forward(struct device *device, int64_t n, int64_t f, const float *x,
                                  const double *mean_rstd, const float *weight, const float *bias, float *y)
{
    (void)device;
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c < f; c++) {
            y[r * f + c] = (float)((x[r * f + c] - mean_rstd[c]) * mean_rstd[f + c] * weight[c] + bias[c]);
        }
    }
}

void reference_batch_norm_sums(struct device *device, const struct device_norm_backward *how, double *sums)
{
    (void)device;
    const int64_t n = how->n, f = how->f;
    const float *x = how->x, *grad_y = how->grad_y;
    const double *mean_rstd = how->mean_rstd;
    sums[0] = (double)n;
    for (int64_t c = 0; c < f; c++) {
        double sum = 0.0, sum_normal = 0.0;
        for (int64_t r = 0; r < n; r++) {
            sum += grad_y[r * f + c];
            sum_normal += grad_y[r * f + c] * (x[r * f + c] - mean_rstd[c]) * mean_rstd[f + c];
        }
        sums[1 + c] = sum;
        sums[1 + f + c] = sum_normal;
        how->grad_bias[c] = (float)sum;
        how->grad_weight[c] = (float)sum_normal;
    }
}

void reference_batch_norm_backward(struct device *device, const struct device_norm_backward *how, const double *sums)
{
    (void)device;
    const int64_t n = how->n, f = how->f;
    const float *x = how->x, *grad_y = how->grad_y;
    const double *mean_rstd = how->mean_rstd;
    float *grad_x = how->grad_x;
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c < f; c++) {
            double rstd = mean_rstd[f + c], normal = (x[r * f + c] - mean_rstd[c]) * rstd;
            double grad = how->weight[c] * rstd *
                          (grad_y[r * f + c] - sums[1 + c] / sums[0] - normal * sums[1 + f + c] / sums[0]);
            grad_x[r * f + c] = (float)(how->add ? grad_x[r * f + c] + grad : grad);
        }
    }
}
