/* Sums whose blocks are summed apart (exchange.cover) beside sums of all edges in a run, in one process: what the borders cost.
 *
 * A row's edges are those of 8 parts of the graph, one after another, as one worker that has all parts joins them.
 * usage  bench_borders [threads [f ...]]
 */
#include "tests/bench/bench.h"
#include "tests/bench/bench_graph.h"

#include <stdlib.h>

#define N_REPEAT 15
#define N_PART 8

static const struct {
    const char *name, *job;
} graphs[] = {
    {"rmat 2^16 degree 32",
     "[dataset]\ngenerator = \"rmat\"\nnodes = 65536\ndegree = 32.0\nfeatures = 1\n[model]\nkind = \"sage\"\n"
     "[partition]\nmethod = \"block\"\nparts = 1\ncache = \"off\"\n"},
    {"sbm 10^5 degree 30",
     "[dataset]\ngenerator = \"sbm\"\nnodes = 100000\ndegree = 30.0\nclasses = 50\nhomophily = 0.9\n"
     "features = 1\n[model]\nkind = \"sage\"\n[partition]\nmethod = \"block\"\nparts = 1\ncache = \"off\"\n"},
};

/* The part, counted around from a row's own: its blocks' order. */
static int64_t order_of(const struct device_block *block, int64_t row, uint32_t col)
{
    int64_t own = row * N_PART / block->n_row, part = (int64_t)col * N_PART / block->n_col;
    return (part - own + N_PART) % N_PART;
}

/* The block's edges in the order of their parts; `bordered` likewise, with a mark at each border. */
static void columns_make(const struct device_block *block, uint32_t *plain, uint32_t *bordered)
{
    for (int64_t r = 0; r < block->n_row; r++) {
        int64_t at = block->indptr[r];
        for (int64_t order = 0; order < N_PART; order++) {
            uint32_t border = order > 0 ? DEVICE_BORDER : 0;
            for (int64_t e = block->indptr[r]; e < block->indptr[r + 1]; e++) {
                if (order_of(block, r, block->cols[e]) == order) {
                    plain[at] = block->cols[e];
                    bordered[at++] = block->cols[e] | border;
                    border = 0;
                }
            }
        }
    }
}

static void measure(struct device *device, const char *name, const struct device_block block[2], int64_t f)
{
    size_t rows = (size_t)(block->n_row * f) * sizeof(float);
    float *x = bench_take(device, rows), *y = bench_take(device, rows);
    for (int64_t i = 0; i < block->n_row * f; i++) {
        x[i] = (float)(i % 7);
    }
    struct device_aggregate how = {.begin = true, .finish = true};
    struct bench_time time[2] = {{0.0, 0.0}, {0.0, 0.0}};
    for (int i = 0; i < N_REPEAT; i++) {
        for (int k = 0; k < 2; k++) {
            bench_start(&time[k]);
            device->ops->aggregate_sum(device, &block[k], &how, f, x, y);
            bench_stop(&time[k]);
        }
    }
    char figure[64];
    snprintf(figure, sizeof figure, "sum apart by %d parts, %s f=%d", N_PART, name, (int)f);
    bench_line(figure, 1e-9 * (double)block->n_edge / time[1].best, "Ge/s",
               1e-9 * (double)block->n_edge / time[0].best, time[0].best / time[1].best, 0.98);
    device->ops->release(device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, x, rows);
    device->ops->release(device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, y, rows);
}

static enum status graph_measure(struct device *device, size_t g, char *const *widths, int n_width)
{
    struct device_block block[2];
    block[0] = block[1] = bench_graph_open(graphs[g].name, graphs[g].job);
    const size_t n_bytes = (size_t)block->n_edge * sizeof(uint32_t);
    uint32_t *plain = bench_take(device, n_bytes), *bordered = bench_take(device, n_bytes);
    columns_make(block, plain, bordered);
    block[0].cols = plain;
    block[1].cols = bordered;
    block[1].bordered = true;
    enum status status = device_cpu.block_open(device, &block[0]);
    status = status == STATUS_OK ? device_cpu.block_open(device, &block[1]) : status;
    for (int i = 0; status == STATUS_OK && i < n_width; i++) {
        measure(device, graphs[g].name, block, atoi(widths[i]));
    }
    for (int k = 0; k < 2; k++) {
        device_cpu.block_close(device, &block[k]);
        device_cpu.release(device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, k == 0 ? plain : bordered, n_bytes);
    }
    return status;
}

int main(int argc, char **argv)
{
    struct device *device = NULL;
    char *standard[] = {"64", "128", "256"}, **widths = argc > 2 ? argv + 2 : standard;
    int n_width = argc > 2 ? argc - 2 : 3;
    enum status status = device_cpu.open(argc > 1 ? atoi(argv[1]) : 0, &device);
    bench_header();
    for (size_t g = 0; status == STATUS_OK && g < sizeof graphs / sizeof *graphs; g++) {
        status = graph_measure(device, g, widths, n_width);
    }
    device_cpu.close(device);
    return status == STATUS_OK ? 0 : 1;
}
