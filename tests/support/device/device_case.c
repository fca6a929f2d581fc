#include "tests/support/device/device_case.h"

#include "models/cpu/cpu.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct device_ops *const device_tables[DEVICE_TABLE_N] = {
    &device_reference,
    &device_cpu,
#ifdef CUDA_EMULATED
    &device_cuda,
#endif
};

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
            cr_assert(fabs((double)got[i] - expected[i]) <= tolerance * largest,
                      "%s: element %zu is %.9g, expected %.9g", what, i, (double)got[i], (double)expected[i]);
        }
    }
}

/* An operation and arrays for its results. */
struct check {
    const char *what;
    device_run run;
    const void *context;
    size_t n_out;
    double tolerance;
    float *expected, *first, *out; /* of the reference, of the cpu device, of another run */
};

static void assert_bits(const struct check *c, const float *expected, const char *name, int n_thread)
{
    cr_assert(memcmp(expected, c->out, c->n_out * sizeof *c->out) == 0, "%s: %s with %d threads gives other bits",
              c->what, name, n_thread);
}

#ifdef CUDA_EMULATED
/* The cpu's variants are left to other builds. An emulated GPU takes its time: one run of four is made again. */
static void others_check(const struct check *c, bool same_bits)
{
    static unsigned n_close;
    run_once(&device_cuda, 1, NULL, c->run, c->context, c->n_out, c->out);
    if (same_bits) {
        assert_bits(c, c->first, device_cuda.name, 1);
        return;
    }
    assert_close(c->what, c->n_out, c->out, c->expected, c->tolerance);
    if (n_close++ % 4 == 0) {
        memcpy(c->first, c->out, c->n_out * sizeof *c->out);
        run_once(&device_cuda, 1, NULL, c->run, c->context, c->n_out, c->out);
        assert_bits(c, c->first, device_cuda.name, 1);
    }
}
#else
static const int n_threads[] = {1, 2, 3, 5};

static void others_check(const struct check *c, bool same_bits)
{
    (void)same_bits;
    for (int variant = 0; variant < CPU_VARIANT_N; variant++) {
        const struct cpu_kernels *kernels = cpu_kernels_find((enum cpu_variant)variant);
        if (kernels == NULL) {
            continue; /* this machine cannot run them */
        }
        size_t step = kernels == cpu_kernels_best() ? 1 : 2; /* the others: one serial run, one parallel run */
        for (size_t t = 0; t < sizeof n_threads / sizeof *n_threads; t += step) {
            run_once(&device_cpu, n_threads[t], kernels, c->run, c->context, c->n_out, c->out);
            assert_bits(c, c->first, kernels->name, n_threads[t]);
        }
    }
}
#endif

static void check(const char *what, device_run run, const void *context, size_t n_out, double tolerance,
                  bool same_bits)
{
    size_t n_bytes = (n_out + 1) * sizeof(float);
    struct check c = {what,
                      run,
                      context,
                      n_out,
                      tolerance,
                      device_scratch(n_bytes),
                      device_scratch(n_bytes),
                      device_scratch(n_bytes)};
    run_once(&device_reference, 1, NULL, run, context, n_out, c.expected);
    run_once(&device_cpu, 1, NULL, run, context, n_out, c.first);
    assert_close(what, n_out, c.first, c.expected, tolerance);
    others_check(&c, same_bits);
    free(c.expected);
    free(c.first);
    free(c.out);
}

void device_check(const char *what, device_run run, const void *context, size_t n_out, double tolerance)
{
    check(what, run, context, n_out, tolerance, true);
}

void device_check_close(const char *what, device_run run, const void *context, size_t n_out, double tolerance)
{
    check(what, run, context, n_out, tolerance, false);
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
    return (struct device_block){
        .n_row = n_row, .n_col = n_col, .n_edge = indptr[n_row], .indptr = indptr, .cols = cols};
}

struct device_block device_merge(int n_block, const struct device_block *blocks, bool apart)
{
    struct device_block out = {.n_row = blocks->n_row, .n_col = blocks->n_col, .bordered = apart, .marked = true};
    for (int b = 0; b < n_block; b++) {
        out.n_edge += blocks[b].n_edge;
    }
    int64_t *indptr = device_scratch((size_t)(out.n_row + 1) * sizeof *indptr), next[16] = {0};
    uint32_t *cols = device_scratch((size_t)out.n_edge * sizeof *cols);
    for (int64_t r = 0, at = 0, n = 0; r < out.n_row; indptr[++r] = at, n = 0) {
        for (int b = 0; b < n_block; b++) {
            const struct device_block *block = &blocks[b];
            if (next[b] == block->n_row || (block->rows != NULL && block->rows[next[b]] != r)) {
                continue;
            }
            const bool alone = apart && b > 0, behind_pieces = n > 256;
            const int64_t begin = block->indptr[next[b]++];
            n = block->indptr[next[b]] - begin;
            for (int64_t e = 0; e < n; e++) {
                const uint32_t first = alone || n > 256 ? DEVICE_BORDER : behind_pieces ? DEVICE_BACK : 0;
                const uint32_t other = alone ? DEVICE_BORDER | DEVICE_BACK : DEVICE_BORDER;
                cols[at++] = block->cols[begin + e] | (e == 0 ? first : e % 256 == 0 ? other : 0);
            }
            n = n > 0 ? n : behind_pieces ? 257 : 0;
        }
    }
    out.indptr = indptr;
    out.cols = cols;
    return out;
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
