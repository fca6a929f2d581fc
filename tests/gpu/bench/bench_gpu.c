/* The device's kernels on a GPU, against cuSPARSE, against each other and against the memory's bandwidth: lines of a
 * table for docs/gpu-results.md. Medians of 20 runs that take turns; times are the host's, from an idle device to an
 * idle device.
 *
 * usage  bench_gpu kernels [EDGES]           all lines of one process, over graphs of so many edges (10^8)
 *        bench_gpu layer EDGES FOLDER        writes the graph to FOLDER, for others to measure, and prints the
 *        milliseconds and the bytes
 *                                            of a whole GAT layer, 4 heads of 64 columns, forward and backward
 *        bench_gpu graph PART OURS DATA      writes the graph of a job's one part to two folders: in the order of its
 *                                            rows, and of the data
 *
 * A graph in FOLDER: indptr (int64) and cols (uint32), as in memory. Exits with 69 where there is no usable GPU.
 * scripts/gpu-bench runs it.
 */
#include "models/cuda/cuda.h"
#include "tests/gpu/bench/atomics.h"
#include "tests/gpu/bench/figure.h"
#include "tests/gpu/bench/layer.h"
#include "tests/gpu/bench/library.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 128
#define HEADS 4
#define COLUMNS 64
#define DEGREE 24 /* of rmat and sbm graphs */
#define COMMUNITY 2000
#define PRODUCT_SHARE 96 /* edges for a row of products */

#ifdef CUDA_EMULATED /* the emulator is in this program, for kernels of its own */
#define OPENED device_cuda
#else
#define OPENED device_cuda_module
#endif

static struct figure figure;
static bool is_wrong; /* two results differ that should not */

/* --- a copy within the device --- */

struct copied {
    void *to, *from;
    size_t n_bytes;
};

static void copy_run(struct figure *f, void *context)
{
    const struct copied *c = context;
    f->ops->move(f->device, DEVICE_LANE_COMPUTE, c->to, c->from, c->n_bytes);
}

/* Bytes a second, read and written; 0: it cannot be measured. */
static double copy_rate(struct figure *f, int64_t n_bytes)
{
    struct copied c = {figure_take(f, n_bytes), figure_take(f, n_bytes), (size_t)n_bytes};
    struct figure_run run = {copy_run, &c, {0}};
    double rate = figure_time(f, &run, 1) ? 2.0 * (double)n_bytes / figure_median(&run) : 0.0;
    figure_end(f);
    return rate;
}

/* --- sums --- */

struct sum {
    struct device_block block;
    struct device_aggregate how;
    int64_t n_column;
    const float *x;
    float *out;
};

static void sum_run(struct figure *f, void *context)
{
    const struct sum *s = context;
    f->ops->aggregate_sum(f->device, &s->block, &s->how, s->n_column, s->x, s->out);
}

static struct sum sum_open(struct figure *f, const struct graph *graph, int64_t n_column)
{
    struct sum s = {.block = figure_block(f, graph), .how = {.begin = true, .finish = true}, .n_column = n_column};
    s.x = figure_random(f, graph->n_node * n_column);
    s.out = figure_take(f, graph->n_node * n_column * (int64_t)sizeof(float));
    return s;
}

/* Whether two results agree in the rows around the middle: a reference that computes something else says nothing. */
static void agree(struct figure *f, int64_t n_row, int64_t n_column, const float *a, const float *b)
{
    enum { ROWS = 1000 };
    static float x[ROWS * WIDTH], y[ROWS * WIDTH];
    int64_t n = n_row < ROWS ? n_row : ROWS, first = (n_row - n) / 2 * n_column;
    float largest = 0.0F;
    if (f->reason[0] != '\0') {
        return;
    }
    f->ops->copy(f->device, x, a + first, (size_t)(n * n_column) * sizeof *x);
    f->ops->copy(f->device, y, b + first, (size_t)(n * n_column) * sizeof *y);
    for (int64_t i = 0; i < n * n_column; i++) {
        largest = fmaxf(largest, fabsf(x[i]));
    }
    for (int64_t i = 0; i < n * n_column && f->reason[0] == '\0'; i++) {
        if (!(fabsf(x[i] - y[i]) <= 1e-4F * largest)) {
            is_wrong = true;
            snprintf(f->reason, sizeof f->reason, "element %" PRId64 " is %g here and %g there", first + i,
                     (double)x[i], (double)y[i]);
        }
    }
}

static void sum_against_library(struct figure *f, const struct graph *graph, const char *name,
                                enum library_algorithm algorithm, double bar)
{
    char what[128];
    snprintf(what, sizeof what, "sum, fp32, F = %d, %s, %.3g edges", WIDTH, name, (double)graph->n_edge);
    struct sum ours = sum_open(f, graph, WIDTH);
    float *out = figure_take(f, graph->n_node * WIDTH * (int64_t)sizeof *out);
    struct library_sum *theirs = library_sum_open(f, algorithm, graph, &ours.block, WIDTH, ours.x, out);
    struct figure_run runs[] = {{sum_run, &ours, {0}}, {library_sum_run, theirs, {0}}};
    if (figure_time(f, runs, 2)) {
        agree(f, graph->n_node, WIDTH, ours.out, out);
    }
    if (f->reason[0] != '\0') {
        figure_cannot(what, f->reason);
    } else {
        figure_line(what, 1e3 * figure_median(&runs[0]), 1e3 * figure_median(&runs[1]), "ms",
                    library_names[algorithm], bar);
    }
    library_sum_close(theirs);
    f->ops->block_close(f->device, &ours.block);
    figure_end(f);
}

/* What PyTorch launches around a library's sum: the same numbers, an array after each kernel. */
struct surrounded {
    struct library_sum *sum;
    const struct device_aggregate *how;
    int64_t n;
    const float *x;
    float *scaled, *out;
};

static void surrounded_run(struct figure *f, void *context)
{
    const struct surrounded *s = context;
    f->ops->rows_multiply(f->device, s->n, WIDTH, s->how->col_scale, s->x, false, s->scaled);
    library_sum_run(f, s->sum);
    f->ops->rows_multiply(f->device, s->n, WIDTH, s->how->self_scale, s->how->self, true, s->out);
    f->ops->rows_multiply(f->device, s->n, WIDTH, s->how->row_scale, s->out, false, s->out);
}

static void mean_against_library(struct figure *f, const struct graph *graph, const char *name)
{
    char what[128];
    snprintf(what, sizeof what, "the same with mean, self term and scales, %s", name);
    struct sum ours = sum_open(f, graph, WIDTH);
    int64_t n = graph->n_node;
    ours.how.col_scale = figure_random(f, n);
    ours.how.row_scale = figure_random(f, n);
    ours.how.self_scale = figure_random(f, n);
    ours.how.self = ours.x;
    struct surrounded s = {.how = &ours.how, .n = n, .x = ours.x};
    s.scaled = figure_take(f, n * WIDTH * (int64_t)sizeof(float));
    s.out = figure_take(f, n * WIDTH * (int64_t)sizeof(float));
    s.sum = library_sum_open(f, LIBRARY_ALG2, graph, &ours.block, WIDTH, s.scaled, s.out);
    struct figure_run runs[] = {{sum_run, &ours, {0}}, {surrounded_run, &s, {0}}};
    if (figure_time(f, runs, 2)) {
        agree(f, n, WIDTH, ours.out, s.out);
    }
    if (f->reason[0] != '\0') {
        figure_cannot(what, f->reason);
    } else {
        figure_line(what, 1e3 * figure_median(&runs[0]), 1e3 * figure_median(&runs[1]), "ms",
                    "ALG2 and three kernels", 0.85);
    }
    library_sum_close(s.sum);
    f->ops->block_close(f->device, &ours.block);
    figure_end(f);
}

/* Bytes as if no gathered row were reused from a cache: E (4 + 4F) + N (8 + 4F). */
static void sum_against_copy(struct figure *f, const struct graph *graph, const char *name, double rate)
{
    char what[128];
    snprintf(what, sizeof what, "sum, F = %d, bytes without reuse, %s", WIDTH, name);
    struct sum ours = sum_open(f, graph, WIDTH);
    struct figure_run run = {sum_run, &ours, {0}};
    double n_bytes = (double)graph->n_edge * (4.0 + 4.0 * WIDTH) + (double)graph->n_node * (8.0 + 4.0 * WIDTH);
    if (figure_time(f, &run, 1) && rate > 0.0) {
        figure_line(what, 1e-9 * n_bytes / figure_median(&run), 1e-9 * rate, "GB/s", "device copy", -0.6);
    } else {
        figure_cannot(what, f->reason[0] != '\0' ? f->reason : "no copy was measured");
    }
    f->ops->block_close(f->device, &ours.block);
    figure_end(f);
}

/* --- attention --- */

static void attention_against_sum(struct figure *f, const struct graph *graph, const char *name)
{
    char what[128];
    struct layer layer;
    layer_open(f, graph, HEADS, COLUMNS, false, &layer);
    struct sum sum = {layer.block, {.begin = true, .finish = true}, HEADS * COLUMNS, layer.grad_out, layer.grad_x};
    struct figure_run runs[] = {
        {layer_attention_forward, &layer, {0}}, {layer_attention_backward, &layer, {0}}, {sum_run, &sum, {0}}};
    bool fine = figure_time(f, runs, 3);
    for (int i = 0; i < 2; i++) {
        snprintf(what, sizeof what, "GAT layer %d × %d, %s, %s", HEADS, COLUMNS, i == 0 ? "forward" : "backward",
                 name);
        if (fine) {
            figure_line(what, 1e3 * figure_median(&runs[i]), 1e3 * figure_median(&runs[2]), "ms",
                        "our own sum, F = 256", i == 0 ? 1.3 : 1.6);
        } else {
            figure_cannot(what, f->reason);
        }
    }
    f->ops->block_close(f->device, &layer.block);
    figure_end(f);
}

/* --- products with a weight --- */

struct product {
    int64_t n, f_in, f_out;
    bool is_gradient; /* of the weight */
    enum device_products products;
    const float *x, *w, *grad_y;
    float *out, *scratch;
};

static void product_run(struct figure *f, void *context)
{
    const struct product *p = context;
    f->device->products = p->products;
    if (p->is_gradient) {
        f->ops->linear_backward_weight(f->device, p->n, p->f_in, p->f_out, p->x, p->grad_y, p->scratch, false,
                                       p->out);
    } else {
        f->ops->linear(f->device,
                       &(struct device_linear){.n = p->n, .f_in = p->f_in, .f_out = p->f_out, .x = p->x, .w = p->w},
                       p->out);
    }
    f->device->products = DEVICE_PRODUCTS_FP32;
}

/* In TF32, as float32's sum of three and alone, against float32: cuBLAS's where outputs are wide and it is there. */
static void products_against_fp32(struct figure *f, int64_t n, int64_t f_out, bool is_gradient)
{
    static const char *const names[] = {"fp32", "bf16", "tf32", "tf32x3"};
    struct product all[3] = {{n, 256, f_out, is_gradient, DEVICE_PRODUCTS_FP32, .x = figure_random(f, n * 256),
                              .w = figure_random(f, 256 * f_out)}};
    all[0].grad_y = is_gradient ? figure_random(f, n * f_out) : NULL;
    all[0].scratch = figure_take(f, (int64_t)DEVICE_BYTES(f->ops, LINEAR, n, 256, f_out));
    all[0].out = figure_take(f, (is_gradient ? 256 : n) * f_out * (int64_t)sizeof(float));
    struct figure_run runs[3] = {
        {product_run, &all[0], {0}}, {product_run, &all[1], {0}}, {product_run, &all[2], {0}}};
    for (int i = 1; i < 3; i++) {
        all[i] = all[0];
        all[i].products = i == 1 ? DEVICE_PRODUCTS_TF32X3 : DEVICE_PRODUCTS_TF32;
    }
    bool fine = figure_time(f, runs, 3);
    for (int i = 1; i < 3; i++) {
        char what[128];
        snprintf(what, sizeof what, "products, %s, %s, %" PRId64 " × 256 × %" PRId64, names[all[i].products],
                 is_gradient ? "gradient of the weight" : "forward", n, f_out);
        if (fine) {
            figure_line(what, 1e3 * figure_median(&runs[i]), 1e3 * figure_median(&runs[0]), "ms", "fp32", 0.0);
        } else {
            figure_cannot(what, f->reason);
        }
    }
    figure_end(f);
}

/* --- hub rows, and merging in a fixed order --- */

static void sum_against_atomics(struct figure *f, const struct graph *graph, const char *name)
{
    char what[128];
    snprintf(what, sizeof what, "determinism: sum, F = %d, %s", WIDTH, name);
    struct sum ours = sum_open(f, graph, WIDTH);
    struct atomics_sum theirs;
    float *out = figure_take(f, graph->n_node * WIDTH * (int64_t)sizeof *out);
    atomics_sum_open(f, graph, &ours.block, WIDTH, ours.x, out, &theirs);
    struct figure_run runs[] = {{sum_run, &ours, {0}}, {atomics_sum_run, &theirs, {0}}};
    if (figure_time(f, runs, 2)) {
        agree(f, graph->n_node, WIDTH, ours.out, out);
    }
    if (f->reason[0] != '\0') {
        figure_cannot(what, f->reason);
    } else {
        figure_line(what, 1e3 * figure_median(&runs[0]), 1e3 * figure_median(&runs[1]), "ms", "merging with atomics",
                    1.03);
    }
    f->ops->block_close(f->device, &ours.block);
    figure_end(f);
}

/* Of as many edges: what repeated draws cost either graph is taken out. */
static void hub_against_uniform(struct figure *f, const struct graph *hub, const struct graph *uniform)
{
    struct sum sums[] = {sum_open(f, hub, WIDTH), sum_open(f, uniform, WIDTH)};
    struct figure_run runs[] = {{sum_run, &sums[0], {0}}, {sum_run, &sums[1], {0}}};
    int64_t longest = 0;
    char what[128];
    for (int64_t r = 0; r < hub->n_node; r++) {
        int64_t n = hub->indptr[r + 1] - hub->indptr[r];
        longest = n > longest ? n : longest;
    }
    snprintf(what, sizeof what, "sum, F = %d, a hub of %.3g edges among %.3g", WIDTH, (double)longest,
             (double)hub->n_edge);
    if (figure_time(f, runs, 2)) {
        double scale = (double)hub->n_edge / (double)uniform->n_edge;
        figure_line(what, 1e3 * figure_median(&runs[0]), 1e3 * scale * figure_median(&runs[1]), "ms", "uniform", 1.3);
    } else {
        figure_cannot(what, f->reason);
    }
    f->ops->block_close(f->device, &sums[0].block);
    f->ops->block_close(f->device, &sums[1].block);
    figure_end(f);
}

static void hub_lines(struct figure *f, int64_t n_edge)
{
    int64_t n_node = n_edge / 16 > 1 ? n_edge / 16 : 2;
    const struct graph_plan with_hub = {GRAPH_HUB, n_node, n_edge, 0}, without = {GRAPH_UNIFORM, n_node, n_edge, 0};
    struct graph hub = graph_make(&with_hub), uniform = graph_make(&without);
    hub_against_uniform(f, &hub, &uniform);
    sum_against_atomics(f, &hub, "hub");
    graph_free(&hub);
    graph_free(&uniform);
}

/* --- all lines --- */

static int kernels(struct figure *f, int64_t n_edge)
{
    static const struct {
        enum graph_kind kind;
        const char *name;
    } graphs[] = {{GRAPH_RMAT, "rmat"}, {GRAPH_SBM, "sbm"}};
    int64_t n_copy = n_edge * 16 < (int64_t)1 << 31 ? n_edge * 16 : (int64_t)1 << 31;
    double rate = copy_rate(f, n_copy);
    printf("Copy within the device, read and written: %.4g GB/s.\n\n", 1e-9 * rate);
    figure_header();
    for (size_t g = 0; g < sizeof graphs / sizeof *graphs; g++) {
        const struct graph_plan plan = {graphs[g].kind, n_edge / DEGREE + 1, n_edge, COMMUNITY};
        struct graph graph = graph_make(&plan);
        sum_against_library(f, &graph, graphs[g].name, LIBRARY_ALG2, 1.05);
        sum_against_library(f, &graph, graphs[g].name, LIBRARY_ALG3, 1.0);
        mean_against_library(f, &graph, graphs[g].name);
        sum_against_copy(f, &graph, graphs[g].name, rate);
        attention_against_sum(f, &graph, graphs[g].name);
        if (graphs[g].kind == GRAPH_RMAT) { /* the other has no long rows */
            sum_against_atomics(f, &graph, graphs[g].name);
        }
        graph_free(&graph);
    }
    hub_lines(f, n_edge / 5);
    products_against_fp32(f, n_edge / PRODUCT_SHARE + 1, 256, false);
    products_against_fp32(f, n_edge / PRODUCT_SHARE + 1, 47, false);
    products_against_fp32(f, n_edge / PRODUCT_SHARE + 1, 256, true);
    return is_wrong ? 1 : 0;
}

static void write_array(const char *folder, const char *name, const void *from, size_t n_bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(from, 1, n_bytes, file) != n_bytes || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

static void graph_write(const struct graph *graph, const char *folder)
{
    write_array(folder, "indptr", graph->indptr, (size_t)(graph->n_node + 1) * sizeof *graph->indptr);
    write_array(folder, "cols", graph->cols, (size_t)graph->n_edge * sizeof *graph->cols);
}

static void part_write(const char *path, const char *ours, const char *data)
{
    uint32_t *node;
    struct graph graph = graph_of_part(path, &node), ordered = graph_in_data_order(&graph, node);
    graph_write(&graph, ours);
    graph_write(&ordered, data);
    graph_free(&graph);
    graph_free(&ordered);
    free(node);
}

static int whole_layer(struct figure *f, int64_t n_edge, const char *folder)
{
    const struct graph_plan plan = {GRAPH_SBM, n_edge / DEGREE + 1, n_edge, COMMUNITY};
    struct graph graph = graph_make(&plan);
    graph_write(&graph, folder);
    struct layer layer;
    layer_open(f, &graph, HEADS, COLUMNS, true, &layer);
    struct figure_run run = {layer_whole, &layer, {0}};
    bool fine = figure_time(f, &run, 1);
    if (fine) {
        printf("%.6g %" PRId64 "\n", 1e3 * figure_median(&run), f->n_bytes);
    } else {
        fprintf(stderr, "%s\n", f->reason);
    }
    f->ops->block_close(f->device, &layer.block);
    figure_end(f);
    graph_free(&graph);
    return fine ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int64_t n = argc > 2 ? (int64_t)strtod(argv[2], NULL) : 100000000;
    if (strcmp(what, "graph") == 0 && argc == 5) {
        part_write(argv[2], argv[3], argv[4]);
        return 0;
    }
    bool is_layer = strcmp(what, "layer") == 0 && argc == 4;
    if ((!is_layer && !(strcmp(what, "kernels") == 0 && argc <= 3)) || n < DEGREE) {
        fprintf(stderr, "usage: bench_gpu kernels [EDGES] | layer EDGES FOLDER | graph PART OURS DATA\n");
        return 2;
    }
    if (OPENED.open(1, &figure.device) != STATUS_OK) {
        fprintf(stderr, "%s\n", status_reason());
        return status_exit_code(STATUS_PEER);
    }
    figure.ops = figure.device->ops;
    int code = is_layer ? whole_layer(&figure, n, argv[3]) : kernels(&figure, n);
    figure.ops->close(figure.device);
    return code;
}
