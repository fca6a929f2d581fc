#include "tests/support/device/device_case.h"

#include "models/cpu/cpu.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int n_threads[] = {1, 2, 3, 5};

static void run_once(const struct device_ops *ops, int n_thread, const struct cpu_kernels *kernels, device_run run,
                     const void *context, size_t n_out, float *out)
{
    struct device *device = NULL;
    cr_assert_eq(ops->open(n_thread, &device), STATUS_OK);
    if (kernels != NULL) {
        ((struct cpu_device *)device)->kernels = kernels;
    }
    for (size_t i = 0; i < n_out; i++) {
        out[i] = 7.0f;
    }
    run(device, context, out);
    cr_assert_eq(device_sync(device), STATUS_OK, "%s", status_reason());
    ops->close(device);
}

static void assert_close(const char *what, size_t n, const float *got, const float *expected, double tolerance)
{
    double largest = 0.0;
    for (size_t i = 0; i < n; i++) {
        largest = fmax(largest, isfinite(expected[i]) ? fabs(expected[i]) : 0.0);
    }
    for (size_t i = 0; i < n; i++) {
        if (got[i] != expected[i]) {
            cr_assert(fabs((double)got[i] - expected[i]) <= tolerance * largest, "%s: element %zu is %.9g, expected %.9g", what,
                      i, (double)got[i], (double)expected[i]);
        }
    }
}

void device_check(const char *what, device_run run, const void *context, size_t n_out, double tolerance)
{
    size_t n_bytes = (n_out + 1) * sizeof(float);
    float *expected = device_scratch(n_bytes), *first = device_scratch(n_bytes), *out = device_scratch(n_bytes);
    run_once(&device_reference, 1, NULL, run, context, n_out, expected);
    run_once(&device_cpu, 1, NULL, run, context, n_out, first);
    assert_close(what, n_out, first, expected, tolerance);
    for (int variant = 0; variant < CPU_VARIANT_N; variant++) {
        const struct cpu_kernels *kernels = cpu_kernels_find((enum cpu_variant)variant);
        if (kernels == NULL) {
            continue; /* this machine cannot run them */
        }
        size_t step = kernels == cpu_kernels_best() ? 1 : 2; /* the others: one serial run, one parallel run */
        for (size_t t = 0; t < sizeof n_threads / sizeof *n_threads; t += step) {
            run_once(&device_cpu, n_threads[t], kernels, run, context, n_out, out);
            cr_assert(memcmp(first, out, n_out * sizeof *out) == 0, "%s: %s with %d threads gives other bits", what,
                      kernels->name, n_threads[t]);
        }
    }
    free(expected);
    free(first);
    free(out);
}

float *device_random(size_t n, uint32_t seed)
{
    float *values = device_scratch((n + 1) * sizeof *values);
    struct random_key key = {.seed = seed, .stream = RANDOM_STREAM_INIT};
    for (size_t i = 0; i < n; i++) {
        values[i] = 2.0f * random_unit(&key, i >> 20, (uint32_t)(i & 0xfffff)) - 1.0f;
    }
    return values;
}

void *device_scratch(size_t n_bytes)
{
    void *block = calloc(n_bytes + 1, 1);
    cr_assert_not_null(block);
    return block;
}

struct device_block device_graph(int64_t n_row, int64_t n_col, int64_t (*degree)(int64_t row, int64_t n_row))
{
    int64_t *indptr = device_scratch((size_t)(n_row + 1) * sizeof *indptr);
    for (int64_t r = 0; r < n_row; r++) {
        indptr[r + 1] = indptr[r] + degree(r, n_row);
    }
    uint32_t *cols = device_scratch((size_t)indptr[n_row] * sizeof *cols);
    for (int64_t r = 0; r < n_row; r++) {
        int64_t n = indptr[r + 1] - indptr[r];
        int64_t step = n > 0 ? n_col / n : 0;
        for (int64_t i = 0; i < n; i++) { /* one column out of each of n even stretches */
            cols[indptr[r] + i] = (uint32_t)(i * step + (r * 7 + i * 3) % step);
        }
    }
    return (struct device_block){.n_row = n_row, .n_col = n_col, .n_edge = indptr[n_row], .indptr = indptr, .cols = cols};
}

void device_graph_free(struct device_block *block)
{
    free((void *)block->indptr);
    free((void *)block->cols);
}

int64_t degree_mixed(int64_t row, int64_t n_row)
{
    (void)n_row;
    return row % 10;
}
