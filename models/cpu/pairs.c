/* Pairs of rows, in chunks that follow from the number of pairs: scores, gradients of whole rows, losses. */
#include "models/cpu/cpu.h"

#include <string.h>

/* Columns of weights that a thread adds up. */
#define SCALE_COLUMNS 16

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
#pragma omp parallel for num_threads(cpu_device(device)->n_thread) schedule(dynamic) if (n_chunk > 1)
    for (int64_t i = 0; i < n_chunk; i++) {
        kernels->pair_scores(pairs, i * size, (i + 1) * size < n ? (i + 1) * size : n, score);
    }
}

/* grad_scale += the sums of some columns. */
static void scales_tile(const struct cpu_kernels *kernels, const struct device_pairs *pairs, const float *slope,
                        int64_t column, float *grad_scale)
{
    const int64_t n = pairs->f - column < SCALE_COLUMNS ? pairs->f - column : SCALE_COLUMNS;
    for (int64_t type = 0; type < pairs->n_type; type++) {
        memset(pairs->scratch + type * pairs->f + column, 0, (size_t)n * sizeof *pairs->scratch);
    }
    kernels->pair_scales(pairs, slope, column, n);
    for (int64_t type = 0; type < pairs->n_type; type++) {
        for (int64_t c = type * pairs->f + column; c < type * pairs->f + column + n; c++) {
            grad_scale[c] = (float)(grad_scale[c] + pairs->scratch[c]);
        }
    }
}

static void scales_add(struct device *device, const struct device_pairs *pairs, const float *slope, float *grad_scale)
{
    const struct cpu_kernels *kernels = cpu_device(device)->kernels;
    const int64_t n_tile = (pairs->f + SCALE_COLUMNS - 1) / SCALE_COLUMNS;
#pragma omp parallel for num_threads(cpu_device(device)->n_thread) schedule(dynamic) if (pairs->n > ROW_CHUNK_MAX)
    for (int64_t tile = 0; tile < n_tile; tile++) {
        scales_tile(kernels, pairs, slope, tile * SCALE_COLUMNS, grad_scale);
    }
}

void cpu_pair_gradients(struct device *device, const struct device_pairs *pairs, const float *slope, float *grad,
                        float *grad_scale)
{
    const struct cpu_kernels *kernels = cpu_device(device)->kernels;
    int64_t n = pairs->n, size = row_chunk_rows(n), n_chunk = row_n_chunk(n);
#pragma omp parallel for num_threads(cpu_device(device)->n_thread) schedule(dynamic) if (n_chunk > 1)
    for (int64_t i = 0; i < n_chunk; i++) {
        kernels->pair_gradients(pairs, row_begin(pairs, i * size), row_begin(pairs, (i + 1) * size), slope, grad);
    }
    if (grad_scale != NULL) {
        scales_add(device, pairs, slope, grad_scale);
    }
}

void cpu_pair_products(struct device *device, const struct device_pairs *pairs, float *out)
{
    const int64_t f = pairs->f;
#pragma omp parallel for num_threads(cpu_device(device)->n_thread) schedule(static) if (pairs->n > ROW_CHUNK_MAX)
    for (int64_t e = 0; e < pairs->n; e++) {
        const float *own = pairs->own + (int64_t)pairs->rows[e] * f, *x = pairs->x + (int64_t)pairs->places[e] * f;
        for (int64_t c = 0; c < f; c++) {
            out[e * f + c] = own[c] * x[c];
        }
    }
}

static void products_add(const struct device_pairs *pairs, int64_t first, int64_t end, const float *grad_out,
                         float *grad)
{
    const int64_t f = pairs->f;
    for (int64_t e = first; e < end; e++) {
        const float *x = pairs->x + (int64_t)pairs->places[e] * f;
        float *to = grad + (int64_t)pairs->rows[e] * f;
        for (int64_t c = 0; c < f; c++) {
            to[c] += grad_out[e * f + c] * x[c];
        }
    }
}

void cpu_pair_products_backward(struct device *device, const struct device_pairs *pairs, const float *grad_out,
                                float *grad)
{
    const int64_t n_chunk = (pairs->n + ROW_CHUNK_MAX - 1) / ROW_CHUNK_MAX;
#pragma omp parallel for num_threads(cpu_device(device)->n_thread) schedule(dynamic) if (n_chunk > 1)
    for (int64_t i = 0; i < n_chunk; i++) {
        products_add(pairs, row_begin(pairs, i * ROW_CHUNK_MAX), row_begin(pairs, (i + 1) * ROW_CHUNK_MAX), grad_out,
                     grad);
    }
}

void cpu_pair_losses(struct device *device, const struct device_pair_losses *how, double *sum)
{
    const struct cpu_kernels *kernels = cpu_device(device)->kernels;
    int64_t n = how->n_group, size = row_chunk_rows(n), n_chunk = row_n_chunk(n);
    double *partial = how->scratch;
#pragma omp parallel for num_threads(cpu_device(device)->n_thread) schedule(dynamic) if (n_chunk > 1)
    for (int64_t i = 0; i < n_chunk; i++) {
        partial[i] = kernels->pair_losses(how, i * size, (i + 1) * size < n ? (i + 1) * size : n);
    }
    for (int64_t i = 0; i < n_chunk; i++) {
        *sum += how->weight * how->share * partial[i];
    }
}
