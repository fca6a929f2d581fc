/* Batch norm over the rows of all parts: sums in double over fixed chunks of rows, merged in the order of the
 * chunks. */
#include "models/cpu/cpu.h"

#include "models/device/statistics.h"

#include <math.h>
#include <string.h>

/* Mean and Σ (x − mean)² of one chunk in one pass: x minus its column's first element is as small as x's spread, so
 * that double keeps the digits that would cancel. */
static void chunk_statistics(int64_t n, int64_t f, const float *x, double *out)
{
    double *mean = out + 1, *squares = out + 1 + f;
    memset(out, 0, (size_t)STATISTICS_N(f) * sizeof *out);
    for (int64_t r = 1; r < n; r++) {
        const float *row = x + r * f;
        for (int64_t c = 0; c < f; c++) {
            double apart = (double)row[c] - x[c];
            mean[c] += apart;
            squares[c] += apart * apart;
        }
    }
    for (int64_t c = 0; c < f; c++) {
        double sum = mean[c];
        mean[c] = x[c] + sum / (double)n;
        squares[c] = fmax(squares[c] - sum * sum / (double)n, 0.0);
    }
    out[0] = (double)n;
}

void cpu_batch_norm_statistics(struct device *device, int64_t n, int64_t f, const float *x, void *scratch,
                               double *statistics)
{
    int64_t rows = row_chunk_rows(n), n_chunk = row_n_chunk(n);
    double *partial = scratch;
    CPU_LOOP_DYNAMIC(
        cpu_device(device), n * f >= CPU_PARALLEL_MIN, for (int64_t i = 0; i < n_chunk; i++) {
            int64_t first = i * rows, n_row = n - first < rows ? n - first : rows;
            chunk_statistics(n_row, f, x + first * f, partial + i * STATISTICS_N(f));
        });
    memset(statistics, 0, (size_t)STATISTICS_N(f) * sizeof *statistics);
    for (int64_t i = 0; i < n_chunk; i++) {
        statistics_merge(f, statistics, partial + i * STATISTICS_N(f));
    }
}

/* y = (x - mean) · rstd · weight + bias */
void cpu_batch_norm_forward(struct device *device, int64_t n, int64_t f, const float *x, const double *mean_rstd,
                            const float *weight, const float *bias, float *y)
{
    const double *mean = mean_rstd, *rstd = mean_rstd + f;
    CPU_LOOP(
        cpu_device(device), n * f >= CPU_PARALLEL_MIN, for (int64_t r = 0; r < n; r++) {
            for (int64_t c = 0; c < f; c++) {
                y[r * f + c] = (float)((x[r * f + c] - mean[c]) * rstd[c]) * weight[c] + bias[c];
            }
        });
}

/* Of one chunk: Σ grad_y and Σ grad_y · x̂, x̂ = (x - mean) · rstd. */
static void chunk_sums(int64_t n, int64_t f, const float *x, const double *mean, const double *rstd,
                       const float *grad_y, double *sum, double *sum_normal)
{
    memset(sum, 0, (size_t)f * sizeof *sum);
    memset(sum_normal, 0, (size_t)f * sizeof *sum_normal);
    for (int64_t r = 0; r < n; r++) {
        for (int64_t c = 0; c < f; c++) {
            sum[c] += grad_y[r * f + c];
            sum_normal[c] += grad_y[r * f + c] * ((x[r * f + c] - mean[c]) * rstd[c]);
        }
    }
}

void cpu_batch_norm_sums(struct device *device, const struct device_norm_backward *how, double *sums)
{
    const int64_t n = how->n, f = how->f;
    const double *mean_rstd = how->mean_rstd;
    int64_t rows = row_chunk_rows(n), n_chunk = row_n_chunk(n);
    double *partial = how->scratch; /* n_chunk × 2f */
    CPU_LOOP_DYNAMIC(
        cpu_device(device), n * f >= CPU_PARALLEL_MIN, for (int64_t i = 0; i < n_chunk; i++) {
            int64_t first = i * rows, n_row = n - first < rows ? n - first : rows;
            double *sum = partial + 2 * i * f;
            chunk_sums(n_row, f, how->x + first * f, mean_rstd, mean_rstd + f, how->grad_y + first * f, sum, sum + f);
        });
    memset(sums, 0, (size_t)STATISTICS_N(f) * sizeof *sums);
    sums[0] = (double)n;
    for (int64_t i = 0; i < n_chunk; i++) {
        for (int64_t c = 0; c < 2 * f; c++) {
            sums[1 + c] += partial[2 * i * f + c];
        }
    }
    for (int64_t c = 0; c < f; c++) {
        how->grad_bias[c] = (float)sums[1 + c];
        how->grad_weight[c] = (float)sums[1 + f + c];
    }
}

/* grad_x = weight · rstd · (grad_y - Σ grad_y / n - x̂ · Σ grad_y x̂ / n), sums over the rows of all parts */
void cpu_batch_norm_backward(struct device *device, const struct device_norm_backward *how, const double *sums)
{
    const int64_t n = how->n, f = how->f;
    const double *mean = how->mean_rstd, *rstd = mean + f, *sum = sums + 1, *sum_normal = sums + 1 + f;
    const float *x = how->x, *grad_y = how->grad_y;
    float *grad_x = how->grad_x;
    double share = 1.0 / sums[0];
    CPU_LOOP(
        cpu_device(device), n * f >= CPU_PARALLEL_MIN, for (int64_t r = 0; r < n; r++) {
            for (int64_t c = 0; c < f; c++) {
                double normal = (x[r * f + c] - mean[c]) * rstd[c];
                double rest = grad_y[r * f + c] - sum[c] * share - normal * (sum_normal[c] * share);
                float grad = (float)(how->weight[c] * rstd[c] * rest);
                grad_x[r * f + c] = how->add ? grad_x[r * f + c] + grad : grad;
            }
        });
}
