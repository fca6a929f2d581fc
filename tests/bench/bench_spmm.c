/* Sum over neighbours, fp32: effective bandwidth against STREAM triad of the same threads in the same run.
 *
 * Bytes are counted as if no gathered row were reused from a cache: E (4 + 4f) + N (8 + 4f). The rmat graph, in random order, shows how
 * near the kernel comes to the memory's bandwidth; the sbm graph, in order of communities, how well it uses caches. Graphs are loaded
 * and ordered as a job's.
 * usage  bench_spmm [threads [f ...]]
 */
#include "models/cpu/cpu.h"
#include "tests/bench/bench.h"
#include "tests/bench/bench_graph.h"

#define N_REPEAT 7
#define TRIAD_VALUES ((int64_t)1 << 25) /* doubles per array: 256 MiB */

struct graph {
    const char *name;
    double bar; /* of triad's bandwidth, at f = 128 */
    const char *job;
};

static const struct graph graphs[] = {
    {"rmat 2^20 degree 16", 0.8,
     "[dataset]\ngenerator = \"rmat\"\nnodes = 1048576\ndegree = 16.0\nfeatures = 1\nundirected = \"no\"\n"
     "[model]\nkind = \"sage\"\n[partition]\nmethod = \"block\"\nparts = 1\ncache = \"off\"\n"},
    {"sbm 10^6 degree 30", 1.2,
     "[dataset]\ngenerator = \"sbm\"\nnodes = 1000000\ndegree = 15.0\nclasses = 500\nhomophily = 0.9\nfeatures = 1\n"
     "[model]\nkind = \"sage\"\n[partition]\nmethod = \"block\"\nparts = 1\ncache = \"off\"\n"},
};

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
    float *x = bench_take(device, rows), *y = bench_take(device, rows);
    double *a = bench_take(device, values), *b = bench_take(device, values), *c = bench_take(device, values);
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
    device->ops->release(device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, x, rows);
    device->ops->release(device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, y, rows);
    device->ops->release(device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, a, values);
    device->ops->release(device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, b, values);
    device->ops->release(device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, c, values);
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
    for (size_t g = 0; g < sizeof graphs / sizeof *graphs; g++) {
        struct device_block block = bench_graph_open(graphs[g].name, graphs[g].job);
        if (device_cpu.block_open(device, &block) != STATUS_OK) {
            return 1;
        }
        for (int i = 0; i < n_width; i++) {
            measure(device, graphs[g].name, &block, atoi(widths[i]), graphs[g].bar);
        }
        device_cpu.block_close(device, &block);
    }
    device_cpu.close(device);
    return 0;
}
