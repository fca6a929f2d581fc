/* Pairs of rows, in chunks that follow from the number of pairs: scores, gradients of whole rows, losses. */
#include "models/cpu/cpu.h"

/* The first pair from e on that begins a row. */
static int64_t row_begin(const struct device_pairs *pairs, int64_t e)
{
    while (e > 0 && e < pairs->n && pairs->rows[e] == pairs->rows[e - 1]) {
        e++;
    }
    return e < pairs->n ? e : pairs->n;
}

void cpu_pair_scores(struct device *device, const struct device_pairs *pairs, float *score)
{
    const struct cpu_kernels *kernels = cpu_device(device)->kernels;
    int64_t n = pairs->n, size = row_chunk_rows(n), n_chunk = row_n_chunk(n);
    CPU_LOOP_DYNAMIC(
        cpu_device(device), n_chunk > 1, for (int64_t i = 0; i < n_chunk; i++) {
            kernels->pair_scores(pairs, i * size, (i + 1) * size < n ? (i + 1) * size : n, score);
        });
}

void cpu_pair_gradients(struct device *device, const struct device_pairs *pairs, const float *slope, float *grad)
{
    const struct cpu_kernels *kernels = cpu_device(device)->kernels;
    int64_t n = pairs->n, size = row_chunk_rows(n), n_chunk = row_n_chunk(n);
    CPU_LOOP_DYNAMIC(
        cpu_device(device), n_chunk > 1, for (int64_t i = 0; i < n_chunk; i++) {
            kernels->pair_gradients(pairs, row_begin(pairs, i * size), row_begin(pairs, (i + 1) * size), slope, grad);
        });
}

/* Of one window: chunks of pairs run on all threads. */
void cpu_rows_collect(struct device *device, const struct device_collect *how, const float *x, float *out)
{
    (void)device;
    for (int64_t r = 0; r < how->n; r++) {
        float *to = out + (int64_t)how->rows[r] * how->f;
        for (int64_t c = 0; c < how->f; c++) {
            to[c] += x[r * how->f + c];
        }
    }
}

void cpu_pair_losses(struct device *device, const struct device_pair_losses *how, double *sum)
{
    const struct cpu_kernels *kernels = cpu_device(device)->kernels;
    int64_t n = how->n_group, size = row_chunk_rows(n), n_chunk = row_n_chunk(n);
    double *partial = how->scratch;
    CPU_LOOP_DYNAMIC(
        cpu_device(device), n_chunk > 1, for (int64_t i = 0; i < n_chunk; i++) {
            partial[i] = kernels->pair_losses(how, i * size, (i + 1) * size < n ? (i + 1) * size : n);
        });
    for (int64_t i = 0; i < n_chunk; i++) {
        *sum += how->weight * how->share * partial[i];
    }
}
