/* Tile programs over edges against the same loops fused by hand, forward, one thread: what an interpreter costs.
 *
 * The gate is Bresson and Laurent's, Σ sigmoid(k_i + q_j) u_j; the other loop is Σ relu(k_i + q_j). Loops by hand are written for the
 * compiler's vectors, edge by edge. Rows are larger than the caches, or smaller.
 */
#include "models/device/device.h"
#include "models/program/program.h"
#include "partition/part/part.h"
#include "tests/bench/bench.h"
#include "tests/support/graphs/part_encode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *bench_take(struct device *device, size_t n_bytes)
{
    void *block = NULL;
    if (device->ops->acquire(device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, n_bytes, &block) != STATUS_OK) {
        fprintf(stderr, "%s\n", status_reason());
        exit(status_exit_code(STATUS_NOMEM));
    }
    return block;
}

/* Load, order and encode a graph the way a job does, as one part; its diagonal block is the graph. */
static struct device_block bench_graph_open(const char *name, const char *job_text)
{
    static struct job job;
    struct dataset dataset;
    struct partition partition;
    static struct part part;
    void *bytes = NULL;
    size_t n_bytes = 0;
    enum status status = job_load_text(job_text, strlen(job_text), name, NULL, 0, &job);
    status = status == STATUS_OK ? dataset_load(&job, &dataset) : status;
    status = status == STATUS_OK ? partition_build(&dataset, &job, &partition) : status;
    status = status == STATUS_OK ? part_encode(&dataset, &partition, 0, &bytes, &n_bytes) : status;
    status = status == STATUS_OK ? part_open(bytes, n_bytes, &part) : status;
    if (status != STATUS_OK) {
        fprintf(stderr, "%s\n", status_reason());
        exit(status_exit_code(status));
    }
    const struct part_block block = part_block(&part, PART_DIRECTION_IN, 0);
    struct device_block graph = {.n_row = block.n_row,
                                 .n_col = block.n_col,
                                 .n_edge = block.n_edge,
                                 .indptr = block.indptr,
                                 .cols = block.cols};
    partition_release(&partition);
    dataset_release(&dataset);
    return graph;
}

#define F 64
#define N_REPEAT 7
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))

static const struct {
    const char *name, *job;
    double bar;
} graphs[] = {
    {"rows of 134 MB",
     "[dataset]\ngenerator = \"rmat\"\nnodes = 262144\ndegree = 16.0\nfeatures = 1\nundirected = \"no\"\n"
     "[model]\nkind = \"sage\"\n[partition]\nmethod = \"block\"\nparts = 1\ncache = \"off\"\n",
     1.0 / 1.35},
    {"rows of 1 MB",
     "[dataset]\ngenerator = \"rmat\"\nnodes = 2048\ndegree = 32.0\nfeatures = 1\nundirected = \"no\"\n"
     "[model]\nkind = \"sage\"\n[partition]\nmethod = \"block\"\nparts = 1\ncache = \"off\"\n",
     1.0 / 1.8},
};

/* --- by hand --- */

/* e^x to a few units in the last place, in operations that a compiler has vectors for. */
static inline float exponential(float x)
{
    union {
        int32_t bits;
        float power;
    } two;
    x = x > -87.0F ? x : -87.0F;
    x = x < 88.0F ? x : 88.0F;
    const float n = (x * 1.44269504F + 12582912.0F) - 12582912.0F; /* rounded */
    const float r = x - n * 0.693145752F - n * 1.42860677e-6F;
    float y = 1.0F / 720.0F;
    y = y * r + 1.0F / 120.0F;
    y = y * r + 1.0F / 24.0F;
    y = y * r + 1.0F / 6.0F;
    y = y * r + 0.5F;
    y = y * r + 1.0F;
    two.bits = ((int32_t)n + 127) << 23;
    return (y * r + 1.0F) * two.power;
}

/* Rows of sources: q, and behind it u. */
CLONES static void gate_by_hand(const struct device_block *block, const float *own, const float *rows, float *out)
{
    for (int64_t i = 0; i < block->n_row; i++) {
        const float *k = own + i * F;
        float sum[F] = {0.0F};
        for (int64_t e = block->indptr[i]; e < block->indptr[i + 1]; e++) {
            const float *q = rows + (int64_t)block->cols[e] * (2 * F), *u = q + F;
            if (e + 8 < block->n_edge) {
                for (int c = 0; c < 2 * F; c += 16) {
                    __builtin_prefetch(rows + (int64_t)block->cols[e + 8] * (2 * F) + c);
                }
            }
#pragma omp simd
            for (int c = 0; c < F; c++) {
                sum[c] += u[c] / (1.0F + exponential(-k[c] - q[c]));
            }
        }
        memcpy(out + i * F, sum, sizeof sum);
    }
}

CLONES static void relu_by_hand(const struct device_block *block, const float *own, const float *rows, float *out)
{
    for (int64_t i = 0; i < block->n_row; i++) {
        const float *k = own + i * F;
        float sum[F] = {0.0F};
        for (int64_t e = block->indptr[i]; e < block->indptr[i + 1]; e++) {
            const float *q = rows + (int64_t)block->cols[e] * F;
            if (e + 8 < block->n_edge) {
                for (int c = 0; c < F; c += 16) {
                    __builtin_prefetch(rows + (int64_t)block->cols[e + 8] * F + c);
                }
            }
#pragma omp simd
            for (int c = 0; c < F; c++) {
                const float x = k[c] + q[c];
                sum[c] += x > 0.0F ? x : 0.0F;
            }
        }
        memcpy(out + i * F, sum, sizeof sum);
    }
}

static const struct {
    const char *name, *text;
    void (*by_hand)(const struct device_block *block, const float *own, const float *rows, float *out);
} loops[] = {
    {"gate",
     "def layer(v, out):\n    v.k = linear('k', v.x, 64)\n    v.q = linear('q', v.x, 64)\n    v.u = linear('u', v.x, "
     "64)\n"
     "    return linear('o', sum(sigmoid(e.dst.k + e.src.q) * e.src.u for e in v.in_edges), out)\n",
     gate_by_hand},
    {"relu",
     "def layer(v, out):\n    v.k = linear('k', v.x, 64)\n    v.q = linear('q', v.x, 64)\n"
     "    return linear('o', sum(relu(e.dst.k + e.src.q) for e in v.in_edges), out)\n",
     relu_by_hand},
};

/* --- the text's --- */

static const struct tile *tile_of(const char *text, struct program *program)
{
    static struct job job;
    const struct program_input input = {.facts = {.n_feature = 8, .n_class = 4}};
    int o = 0;
    job_defaults(&job);
    job.model.kind = JOB_KIND_PROGRAM;
    job.model.layers = 1;
    strcpy(job.program.text, text);
    if (job_program_check(&job, "bench", true) != STATUS_OK || program_build(&job, &input, program) != STATUS_OK) {
        fprintf(stderr, "%s\n", status_reason());
        exit(1);
    }
    while (program->op[o].kind != OP_KIND_AGGREGATE) {
        o++;
    }
    return &program->tile[program->op[o].tile];
}

static float *rows_take(struct device *device, int64_t n)
{
    float *rows = bench_take(device, (size_t)n * sizeof *rows);
    for (int64_t i = 0; i < n; i++) {
        rows[i] = (float)(i % 13 - 6) / 8.0F;
    }
    return rows;
}

static void measure(struct device *device, const struct device_block *block, const char *graph, size_t loop,
                    double bar)
{
    struct program program;
    const struct tile *tile = tile_of(loops[loop].text, &program);
    const int64_t n = block->n_row, width = tile->width[TILE_ROWS_IN_0];
    const float *own = rows_take(device, n * F), *rows = rows_take(device, block->n_col * width);
    float *out = rows_take(device, n * F), *by_hand = rows_take(device, n * F);
    uint32_t *node = bench_take(device, (size_t)block->n_col * sizeof *node);
    struct bench_time tile_time = {0}, hand_time = {0};
    const struct device_tile_edges how = {.of = {.tile = tile,
                                                 .rows = {[TILE_ROWS_IN_0] = rows, [TILE_ROWS_IN_2] = own},
                                                 .to = {[TILE_TARGET_OUT] = out},
                                                 .row_node = node},
                                          .block = block,
                                          .col_node = node,
                                          .begin = true,
                                          .n_finish = n,
                                          .factor = 1.0F};
    for (int i = 0; i < N_REPEAT; i++) {
        bench_start(&tile_time);
        device->ops->tile_edges(device, &how);
        bench_stop(&tile_time);
        bench_start(&hand_time);
        loops[loop].by_hand(block, own, rows, by_hand);
        bench_stop(&hand_time);
    }
    for (int64_t i = 0; i < n * F; i++) {
        if (fabsf(out[i] - by_hand[i]) > 1e-4F * (1.0F + fabsf(by_hand[i]))) {
            fprintf(stderr, "%s: number %d is %g, by hand %g\n", loops[loop].name, (int)i, (double)out[i],
                    (double)by_hand[i]);
            exit(1);
        }
    }
    char figure[64];
    snprintf(figure, sizeof figure, "%s over edges, %s, by a tile program", loops[loop].name, graph);
    bench_line(figure, 1e3 * tile_time.best, "ms", 1e3 * hand_time.best, hand_time.best / tile_time.best, bar);
    program_release(&program);
}

int main(void)
{
    struct device *device = NULL;
    if (device_cpu.open(1, &device) != STATUS_OK) {
        return 1;
    }
    bench_header();
    for (size_t g = 0; g < sizeof graphs / sizeof *graphs; g++) {
        struct device_block block = bench_graph_open(graphs[g].name, graphs[g].job);
        if (device_cpu.block_open(device, &block) != STATUS_OK) {
            return 1;
        }
        for (size_t loop = 0; loop < sizeof loops / sizeof *loops; loop++) {
            measure(device, &block, graphs[g].name, loop, graphs[g].bar);
        }
        device_cpu.block_close(device, &block);
    }
    device_cpu.close(device);
    return 0;
}
