/* One number per row: norms and products of rows, and rows times a number each; one thread for each row. */
#include "models/cpu/cpu.h"

#include <math.h>

/* As torch.nn.functional.normalize. */
#define NORM_MIN 1e-12

/* Sums over a row are computed in lanes that are added at the end: a fixed order that vectors can follow. */
#define ROW_LANES 8

static double row_dot(int64_t f, const float *x, const float *y)
{
    double lane[ROW_LANES] = {0.0};
    int64_t c = 0;
    for (; c + ROW_LANES <= f; c += ROW_LANES) {
        for (int64_t i = 0; i < ROW_LANES; i++) {
            lane[i] += (double)x[c + i] * (double)y[c + i];
        }
    }
    for (; c < f; c++) {
        lane[0] += (double)x[c] * (double)y[c];
    }
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

/* y (+)= scale · x */
static void row_multiply(int64_t f, float scale, const float *x, bool add, float *y)
{
    for (int64_t c = 0; c < f; c++) {
        y[c] = add ? y[c] + scale * x[c] : scale * x[c];
    }
}

void cpu_inverse_norm(struct device *device, int64_t n, int64_t f, const float *x, float *out)
{
    CPU_LOOP(
        cpu_device(device), n * f >= CPU_PARALLEL_MIN, for (int64_t r = 0; r < n; r++) {
            double norm = sqrt(row_dot(f, x + r * f, x + r * f));
            out[r] = (float)(1.0 / (norm < NORM_MIN ? NORM_MIN : norm));
        });
}

/* ∂(1/‖x‖)/∂x = -x / ‖x‖³ */
void cpu_inverse_norm_backward(struct device *device, int64_t n, int64_t f, const float *x, const float *out,
                               const float *grad, bool add, float *grad_x)
{
    CPU_LOOP(
        cpu_device(device), n * f >= CPU_PARALLEL_MIN, for (int64_t r = 0; r < n; r++) {
            double y = (double)out[r], slope = out[r] < (float)(1.0 / NORM_MIN) ? -(double)grad[r] * y * y * y : 0.0;
            row_multiply(f, (float)slope, x + r * f, add, grad_x + r * f);
        });
}

void cpu_rows_multiply(struct device *device, int64_t n, int64_t f, const float *scale, const float *x, bool add,
                       float *y)
{
    CPU_LOOP(
        cpu_device(device), n * f >= CPU_PARALLEL_MIN,
        for (int64_t r = 0; r < n; r++) { row_multiply(f, scale[r], x + r * f, add, y + r * f); });
}

void cpu_rows_dot(struct device *device, int64_t n, int64_t f, const float *x, const float *y, bool add, float *out)
{
    CPU_LOOP(
        cpu_device(device), n * f >= CPU_PARALLEL_MIN, for (int64_t r = 0; r < n; r++) {
            float dot = (float)row_dot(f, x + r * f, y + r * f);
            out[r] = add ? out[r] + dot : dot;
        });
}
