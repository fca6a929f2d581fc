/* Sum over neighbours, fp32: effective bandwidth against STREAM triad of the same threads in the same run.
 *
 * Bytes are counted as if no gathered row were ever reused: E (4 + 4f) + N (8 + 4f). Random order shows how near the
 * memory's limit the kernel comes, community order how much of the caches it uses.
 * usage  bench_spmm [threads [f ...]]
 */
#include "models/cpu/cpu.h"
#include "tests/bench/bench.h"

#include <string.h>

#define N_REPEAT 7
#define TRIAD_VALUES ((int64_t)1 << 25) /* doubles per array: 256 MiB */

static uint64_t random_state = 1;

/* splitmix64 */
static uint64_t random_next(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static void *take(struct device *device, size_t n_bytes)
{
    void *block = NULL;
    if (device->ops->acquire(device, MEMORY_OTHER, n_bytes, &block) != STATUS_OK) {
        fprintf(stderr, "%s\n", status_reason());
        exit(status_exit_code(STATUS_NOMEM));
    }
    return block;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* CSR from pairs of destination and source. */
static struct device_block csr_of(struct device *device, int64_t n, int64_t n_edge, const uint32_t *to, const uint32_t *from)
{
    int64_t *indptr = take(device, (size_t)(n + 2) * sizeof *indptr);
    uint32_t *cols = take(device, (size_t)n_edge * sizeof *cols);
    for (int64_t e = 0; e < n_edge; e++) {
        indptr[to[e] + 2]++;
    }
    for (int64_t r = 0; r < n; r++) {
        indptr[r + 2] += indptr[r + 1];
    }
    for (int64_t e = 0; e < n_edge; e++) {
        cols[indptr[to[e] + 1]++] = from[e];
    }
    for (int64_t r = 0; r < n; r++) {
        qsort(cols + indptr[r], (size_t)(indptr[r + 1] - indptr[r]), sizeof *cols, ascending);
    }
    return (struct device_block){.n_row = n, .n_col = n, .n_edge = n_edge, .indptr = indptr, .cols = cols};
}

/* R-MAT (0.57, 0.19, 0.19, 0.05) with node numbers shuffled. source  Chakrabarti et al., SDM 2004 */
static struct device_block rmat(struct device *device, int scale, int64_t degree)
{
    int64_t n = (int64_t)1 << scale, n_edge = n * degree;
    uint32_t *to = take(device, (size_t)n_edge * 4), *from = take(device, (size_t)n_edge * 4), *name = take(device, (size_t)n * 4);
    for (int64_t i = 0; i < n; i++) {
        int64_t j = (int64_t)(random_next() % (uint64_t)(i + 1));
        name[i] = name[j];
        name[j] = (uint32_t)i;
    }
    for (int64_t e = 0; e < n_edge; e++) {
        uint32_t a = 0, b = 0;
        for (int bit = 0; bit < scale; bit++) {
            uint32_t draw = (uint32_t)(random_next() >> 32) / 42949673; /* 0 … 99 */
            a = a << 1 | (draw >= 76);
            b = b << 1 | ((draw >= 57 && draw < 76) || draw >= 95);
        }
        to[e] = name[a];
        from[e] = name[b];
    }
    struct device_block block = csr_of(device, n, n_edge, to, from);
    device->ops->release(device, MEMORY_OTHER, to, (size_t)n_edge * 4);
    device->ops->release(device, MEMORY_OTHER, from, (size_t)n_edge * 4);
    device->ops->release(device, MEMORY_OTHER, name, (size_t)n * 4);
    return block;
}

/* Contiguous communities of `size` nodes, 90 % of edges inside: the order that partitioning leaves. */
static struct device_block communities(struct device *device, int64_t n, int64_t degree, int64_t size)
{
    int64_t n_edge = n * degree;
    uint32_t *to = take(device, (size_t)n_edge * 4), *from = take(device, (size_t)n_edge * 4);
    for (int64_t e = 0; e < n_edge; e++) {
        int64_t r = e / degree, first = r / size * size;
        int64_t width = first + size < n ? size : n - first;
        bool inside = random_next() % 10 != 0;
        to[e] = (uint32_t)r;
        from[e] = (uint32_t)(inside ? first + (int64_t)(random_next() % (uint64_t)width) : (int64_t)(random_next() % (uint64_t)n));
    }
    struct device_block block = csr_of(device, n, n_edge, to, from);
    device->ops->release(device, MEMORY_OTHER, to, (size_t)n_edge * 4);
    device->ops->release(device, MEMORY_OTHER, from, (size_t)n_edge * 4);
    return block;
}

/* a = b + s·c, 24 bytes per value counted. source  McCalpin, STREAM */
static void triad(int n_thread, double *a, const double *b, const double *c, struct bench_time *timer)
{
    bench_start(timer);
#pragma omp parallel for num_threads(n_thread)
    for (int64_t i = 0; i < TRIAD_VALUES; i++) {
        a[i] = b[i] + 3.0 * c[i];
    }
    bench_stop(timer);
}

static void measure(struct device *device, const char *name, struct device_block *block, int64_t f, double bar)
{
    int n_thread = ((struct cpu_device *)device)->n_thread;
    size_t rows = (size_t)(block->n_row * f) * sizeof(float), values = (size_t)TRIAD_VALUES * sizeof(double);
    float *x = take(device, rows), *y = take(device, rows);
    double *a = take(device, values), *b = take(device, values), *c = take(device, values);
    for (int64_t i = 0; i < block->n_row * f; i++) {
        x[i] = (float)(i % 7);
    }
    for (int64_t i = 0; i < TRIAD_VALUES; i++) {
        a[i] = b[i] = c[i] = 1.0;
    }
    struct device_aggregate how = {.begin = true, .finish = true};
    struct bench_time sum_time = {0}, triad_time = {0};
    for (int i = 0; i < N_REPEAT; i++) {
        triad(n_thread, a, b, c, &triad_time);
        bench_start(&sum_time);
        device->ops->aggregate_sum(device, block, &how, f, x, y);
        bench_stop(&sum_time);
    }
    double bytes = (double)block->n_edge * (4.0 + 4.0 * (double)f) + (double)block->n_row * (8.0 + 4.0 * (double)f);
    double sum_rate = 1e-9 * bytes / sum_time.best, triad_rate = 1e-9 * 24.0 * (double)TRIAD_VALUES / triad_time.best;
    char figure[64];
    snprintf(figure, sizeof figure, "spmm sum fp32 %s f=%d %d threads", name, (int)f, n_thread);
    bench_line(figure, sum_rate, "GB/s", triad_rate, sum_rate / triad_rate, f == 128 ? bar : 0.0);
    device->ops->release(device, MEMORY_OTHER, x, rows);
    device->ops->release(device, MEMORY_OTHER, y, rows);
    device->ops->release(device, MEMORY_OTHER, a, values);
    device->ops->release(device, MEMORY_OTHER, b, values);
    device->ops->release(device, MEMORY_OTHER, c, values);
}

int main(int argc, char **argv)
{
    struct device *device = NULL;
    const char *standard[] = {"128"};
    int n_width = argc > 2 ? argc - 2 : 1;
    char **widths = argc > 2 ? argv + 2 : (char **)standard;
    if (device_cpu.open(argc > 1 ? atoi(argv[1]) : 0, &device) != STATUS_OK) {
        return 1;
    }
    bench_header();
    struct device_block graphs[] = {rmat(device, 20, 16), communities(device, 1000000, 30, 2000)};
    const char *names[] = {"rmat 2^20 d16 random order", "sbm 1e6 d30 community order"};
    const double bars[] = {0.8, 1.2};
    for (int g = 0; g < 2; g++) {
        if (device_cpu.block_open(device, &graphs[g]) != STATUS_OK) {
            return 1;
        }
        for (int i = 0; i < n_width; i++) {
            measure(device, names[g], &graphs[g], atoi(widths[i]), bars[g]);
        }
        device_cpu.block_close(device, &graphs[g]);
    }
    device_cpu.close(device);
    return 0;
}
