/* Layer norm over the columns of each row; a row's sums in double, sums over rows in fixed chunks. */
#include "models/cpu/cpu.h"

#include <math.h>
#include <string.h>

#define EPSILON 1e-5

/* Sums over a row are computed in lanes that are added at the end: a fixed order that vectors can follow. */
#define NORM_LANES 8

static double lanes_sum(const double lane[NORM_LANES])
{
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

static double row_sum(int64_t f, const float *x)
{
    double lane[NORM_LANES] = {0.0};
    int64_t c = 0;
    for (; c + NORM_LANES <= f; c += NORM_LANES) {
        for (int64_t i = 0; i < NORM_LANES; i++) {
            lane[i] += x[c + i];
        }
    }
    for (; c < f; c++) {
        lane[0] += x[c];
    }
    return lanes_sum(lane);
}

/* Σ (x − mean)² */
static double row_squares(int64_t f, const float *x, double mean)
{
    double lane[NORM_LANES] = {0.0};
    int64_t c = 0;
    for (; c + NORM_LANES <= f; c += NORM_LANES) {
        for (int64_t i = 0; i < NORM_LANES; i++) {
            lane[i] += (x[c + i] - mean) * (x[c + i] - mean);
        }
    }
    for (; c < f; c++) {
        lane[0] += (x[c] - mean) * (x[c] - mean);
    }
    return lanes_sum(lane);
}

/* y = (x - mean) · rstd · weight + bias, rstd = 1/√(Σ (x - mean)² / f + epsilon) */
static void row_forward(int64_t f, const float *x, const float *weight, const float *bias, float *mean_rstd, float *y)
{
    double mean = row_sum(f, x) / (double)f;
    double squares = row_squares(f, x, mean);
    double rstd = 1.0 / sqrt(squares / (double)f + EPSILON);
    for (int64_t c = 0; c < f; c++) {
        y[c] = (float)((x[c] - mean) * rstd) * weight[c] + bias[c];
    }
    mean_rstd[0] = (float)mean;
    mean_rstd[1] = (float)rstd;
}

void cpu_layer_norm_forward(struct device *device, int64_t n, int64_t f, const float *x, const float *weight,
                            const float *bias, float *mean_rstd, float *y)
{
    CPU_LOOP(
        cpu_device(device), n * f >= CPU_PARALLEL_MIN,
        for (int64_t r = 0; r < n; r++) { row_forward(f, x + r * f, weight, bias, mean_rstd + 2 * r, y + r * f); });
}

/* grad_x = rstd·(g − mean(g) − x̂·mean(g·x̂)) with g = grad_y·weight, and this row's share of both parameter
 * gradients. */
static void row_backward(int64_t f, const float *x, const float *weight, double mean, double rstd,
                         const float *grad_y, bool add, float *grad_x, double *sum_weight, double *sum_bias)
{
    double mean_g = 0.0, mean_gx = 0.0;
    for (int64_t c = 0; c < f; c++) {
        double normal = (x[c] - mean) * rstd, g = (double)grad_y[c] * weight[c];
        mean_g += g;
        mean_gx += g * normal;
        sum_weight[c] += grad_y[c] * normal;
        sum_bias[c] += grad_y[c];
    }
    mean_g /= (double)f;
    mean_gx /= (double)f;
    for (int64_t c = 0; c < f && grad_x != NULL; c++) {
        double normal = (x[c] - mean) * rstd, g = (double)grad_y[c] * weight[c];
        float grad = (float)(rstd * (g - mean_g - normal * mean_gx));
        grad_x[c] = add ? grad_x[c] + grad : grad;
    }
}

void cpu_layer_norm_backward(struct device *device, const struct device_norm_backward *how)
{
    const int64_t n = how->n, f = how->f;
    const float *mean_rstd = how->mean_rstd;
    int64_t rows = row_chunk_rows(n), n_chunk = row_n_chunk(n);
    double *partial = how->scratch; /* n_chunk × (weight f, bias f) */
    CPU_LOOP_DYNAMIC(
        cpu_device(device), n * f >= CPU_PARALLEL_MIN, for (int64_t i = 0; i < n_chunk; i++) {
            double *sum = partial + 2 * i * f;
            memset(sum, 0, (size_t)(2 * f) * sizeof *sum);
            for (int64_t r = i * rows; r < n && r < (i + 1) * rows; r++) {
                row_backward(f, how->x + r * f, how->weight, mean_rstd[2 * r], mean_rstd[2 * r + 1],
                             how->grad_y + r * f, how->add, how->grad_x != NULL ? how->grad_x + r * f : NULL, sum,
                             sum + f);
            }
        });
    for (int64_t c = 0; c < f; c++) {
        double sum_weight = how->add_weight ? how->grad_weight[c] : 0.0,
               sum_bias = how->add_bias ? how->grad_bias[c] : 0.0;
        for (int64_t i = 0; i < n_chunk; i++) {
            sum_weight += partial[2 * i * f + c];
            sum_bias += partial[2 * i * f + f + c];
        }
        how->grad_weight[c] = (float)sum_weight;
        how->grad_bias[c] = (float)sum_bias;
    }
}
