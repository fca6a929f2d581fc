/* What the kernels of the cuda device ask of memory, emulated and counted: operations over graphs of rmat, sbm and with
 * a hub row, rows of F = 64, 128 and 256 columns.
 *
 * usage  sectors             lines of count_print for each group of operations, graph and F
 *        sectors GROUP [-p]  of this group alone; and of places in the code (addr2line -i -e sectors)
 *        sectors planted     small kernels whose counts are known (planted.cu)
 *
 * table.py makes a table of it, with bars; scripts/check-nvcc runs it.
 */
#include "tests/emulator/sectors/count.h"
#include "tests/gpu/bench/figure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES 768
#define EDGES 15360
#define HUB_NODES 1280
#define HUB_EDGES 7000
#define COMMUNITY 125
#define HEADS 4

void planted_run(void);

/* What a group of operations works on. */
struct given {
    struct figure *f;
    struct device *device;
    const struct device_ops *ops;
    const struct graph *graph;
    struct device_block block;
    int64_t n, width, n_value;
    const float *x, *y; /* n × width */
    float *out, *more;
    void *scratch;
    struct device_now *now;
    uint32_t *node; /* the numbers of all rows */
};

#define SCRATCH_BYTES (64 << 20)

static float *floats(const struct given *g, int64_t n)
{
    return figure_take(g->f, n * (int64_t)sizeof(float));
}

/* --- groups of operations --- */

static void sums(const struct given *g)
{
    struct device_aggregate how = {.begin = true, .finish = true};
    g->ops->aggregate_sum(g->device, &g->block, &how, g->width, g->x, g->out);
    how.self = g->y;
    how.self_scale = how.row_scale = how.col_scale = figure_random(g->f, g->n);
    g->ops->aggregate_sum(g->device, &g->block, &how, g->width, g->x, g->out);
}

/* Two blocks, of the lower and the upper half of the columns, joined. */
static void bordered(const struct given *g)
{
    struct graph joined = *g->graph;
    joined.cols = malloc((size_t)joined.n_edge * sizeof *joined.cols);
    for (int64_t r = 0; r < g->n; r++) {
        for (int64_t e = joined.indptr[r]; e < joined.indptr[r + 1]; e++) {
            const uint32_t *all = g->graph->cols, half = (uint32_t)g->n / 2;
            const bool first = all[e] >= half && (e == joined.indptr[r] || all[e - 1] < half);
            joined.cols[e] = all[e] | (first ? DEVICE_BORDER : 0);
        }
    }
    struct device_block block = figure_block(g->f, &joined);
    const struct device_aggregate how = {.begin = true, .finish = true};
    block.bordered = true;
    g->ops->aggregate_sum(g->device, &block, &how, g->width, g->x, g->out);
    g->ops->block_close(g->device, &block);
    free(joined.cols);
}

static void maxima(const struct given *g)
{
    const struct device_max how = {.begin = true, .n_finish = g->n};
    uint32_t *arg = (uint32_t *)floats(g, g->n * g->width);
    g->ops->aggregate_max(g->device, &g->block, &how, g->width, g->x, g->out, arg);
    g->ops->aggregate_max_backward(g->device, &g->block, 0, g->width, arg, g->y, g->more);
}

static void attention_of(const struct given *g, enum device_score_kind score)
{
    const int64_t heads = g->n * HEADS, columns = g->width / HEADS, narrow = score == DEVICE_SCORE_ADD;
    const struct device_attention how = {.score = score,
                                         .n_head = HEADS,
                                         .n_column = columns,
                                         .slope = 0.2F,
                                         .scale = 0.1F,
                                         .att = figure_random(g->f, g->width)};
    const struct device_attention_source source = {
        g->x,
        score == DEVICE_SCORE_MLP ? NULL : figure_random(g->f, score == DEVICE_SCORE_DOT ? g->n * g->width : heads)};
    const float *query = figure_random(g->f, narrow ? heads : g->n * g->width);
    const struct device_attention_state state = {floats(g, 2 * heads), narrow ? floats(g, g->n * g->width) : NULL,
                                                 narrow ? floats(g, heads) : NULL};
    const struct device_attention_target target = {query, state.softmax, g->y};
    const struct device_attention_rows rows = {&how, &g->block, true, true, source, source, target, target, true};
    float *grad_query = floats(g, g->n * g->width), *grad_key = floats(g, g->n * g->width);
    g->ops->attention_forward(g->device, &rows, &state, g->out);
    g->ops->attention_finish(g->device, g->n, &how, &state, g->out);
    g->ops->attention_backward_begin(g->device, g->n, &how, g->y, g->out, &state, false, grad_query);
    if (!narrow) {
        g->ops->attention_backward_query(g->device, &rows, g->scratch, grad_query,
                                         score == DEVICE_SCORE_MLP ? floats(g, g->width) : NULL, NULL);
    }
    g->ops->attention_backward_source(g->device, &rows, g->more, score == DEVICE_SCORE_MLP ? NULL : grad_key);
}

static void attention(const struct given *g)
{
    for (int score = DEVICE_SCORE_ADD; score <= DEVICE_SCORE_COSINE; score++) {
        attention_of(g, (enum device_score_kind)score);
    }
}

static void pointwise(const struct given *g)
{
    struct device_activate how = {.activation = DEVICE_ACTIVATION_RELU, .p = 0.5, .now = g->now, .node = g->node};
    g->ops->activate_forward(g->device, g->n, g->width, &how, g->x, g->out);
    g->ops->activate_backward(g->device, g->n, g->width, &how, NULL, g->out, g->y, true, g->more);
    how.activation = DEVICE_ACTIVATION_GELU;
    g->ops->activate_forward(g->device, g->n, g->width, &how, g->x, g->out);
    g->ops->activate_backward(g->device, g->n, g->width, &how, g->x, NULL, g->y, false, g->more);
    g->ops->bias_add(g->device, g->n, g->width, g->x, g->y, g->out);
    g->ops->axpby(g->device, g->n * g->width, 1.0F, g->y, g->x, 2.0F, g->y, g->out);
    g->ops->columns_copy(g->device, g->n, g->width / 2, g->x, g->width, g->out, g->width / 2, false);
    g->ops->max_forward(g->device, g->n * g->width, g->x, g->y, g->out);
    g->ops->max_backward(g->device, g->n * g->width, g->x, g->out, g->y, false, g->more, false,
                         floats(g, g->n * g->width));
}

static void rows(const struct given *g)
{
    float *narrow = floats(g, 2 * g->n), *weight = floats(g, g->width), *bias = floats(g, g->width);
    const struct device_norm_backward norm = {.n = g->n,
                                              .f = g->width,
                                              .x = g->x,
                                              .weight = g->y,
                                              .mean_rstd = narrow,
                                              .grad_y = g->y,
                                              .grad_x = g->more,
                                              .grad_weight = weight,
                                              .grad_bias = bias,
                                              .scratch = g->scratch};
    g->ops->layer_norm_forward(g->device, g->n, g->width, g->x, g->y, g->y, narrow, g->out);
    g->ops->layer_norm_backward(g->device, &norm);
    g->ops->inverse_norm(g->device, g->n, g->width, g->x, narrow);
    g->ops->inverse_norm_backward(g->device, g->n, g->width, g->x, narrow, g->y, false, g->more);
    g->ops->rows_multiply(g->device, g->n, g->width, narrow, g->x, false, g->out);
    g->ops->rows_dot(g->device, g->n, g->width, g->x, g->y, false, narrow);
    g->ops->rows_gather(g->device, g->n, g->width, g->node, 1.0F, g->x, g->out);
    g->ops->rows_add(g->device, g->n, g->width, g->node, 1.0F, g->x, g->out);
    g->ops->head_dot(g->device, g->n, HEADS, g->width / HEADS, g->x, g->y, g->out);
    g->ops->head_dot_backward_input(g->device, g->n, HEADS, g->width / HEADS, g->y, g->x, false, g->out);
}

static void loss(const struct given *g)
{
    struct device_scoring how = {.loss = DEVICE_LOSS_CROSS_ENTROPY,
                                 .n = g->n,
                                 .c = g->width,
                                 .logits = g->x,
                                 .labels = floats(g, g->n),
                                 .row_split = figure_take(g->f, g->n),
                                 .now = g->now,
                                 .grad = g->more,
                                 .scratch = g->scratch};
    struct device_score *score = figure_take(g->f, (int64_t)sizeof *score);
    g->ops->loss(g->device, &how, score);
    how.loss = DEVICE_LOSS_BCE;
    how.labels = g->y;
    g->ops->loss(g->device, &how, score);
    how.loss = DEVICE_LOSS_MSE;
    g->ops->loss(g->device, &how, score);
}

static void optimiser(const struct given *g)
{
    float *m = floats(g, g->n_value), *v = floats(g, g->n_value);
    double *squares = figure_take(g->f, (int64_t)sizeof *squares);
    struct device_step how = {
        .optimizer = DEVICE_OPTIMIZER_SGD, .momentum = 0.9, .now = g->now, .clip = &g->now->clip};
    g->ops->squares_add(g->device, g->n_value, g->x, squares);
    g->ops->clip_factor(g->device, 1.0, squares, g->now);
    g->ops->step(g->device, &how, g->n_value, g->y, g->out, m, v);
    how.optimizer = DEVICE_OPTIMIZER_ADAMW;
    how.weight_decay = 0.01;
    g->ops->step(g->device, &how, g->n_value, g->y, g->out, m, v);
}

static void codecs(const struct given *g)
{
    float *residual = floats(g, g->n * g->width);
    for (int codec = DEVICE_CODEC_BF16; codec <= DEVICE_CODEC_INT2; codec++) {
        const struct device_coding how = {.codec = (enum device_codec)codec,
                                          .n_row = g->n,
                                          .f = g->width,
                                          .factor = 1.0F,
                                          .x = g->x,
                                          .now = g->now,
                                          .node = g->node,
                                          .residual = codec == DEVICE_CODEC_INT4 ? residual : NULL,
                                          .residual_out = codec == DEVICE_CODEC_INT4 ? residual : NULL};
        g->ops->rows_encode(g->device, &how, g->more);
        g->ops->rows_decode(g->device, how.codec, g->n, g->width, g->more, g->out);
    }
    g->ops->rows_round(g->device, g->n, g->width, g->out, g->more);
}

static void products(const struct given *g)
{
    enum { NARROW = 64 }; /* wider ones in float32 are cuBLAS's */
    float *w = floats(g, g->width * g->width);
    for (int turn = 0; turn < 2; turn++) {
        const int64_t f = turn == 0 ? NARROW : g->width;
        const struct device_linear how = {g->n, g->width, f, g->x, .w = g->y};
        g->device->products = turn == 0 ? DEVICE_PRODUCTS_FP32 : DEVICE_PRODUCTS_TF32X3;
        g->ops->linear(g->device, &how, g->out);
        g->ops->linear_backward_weight(g->device, g->n, g->width, f, g->x, g->y, g->scratch, false, w);
    }
    g->device->products = DEVICE_PRODUCTS_FP32;
    g->ops->column_sum(g->device, &(struct device_column_sum){g->n, g->width, g->x, .scratch = g->scratch}, w);
    g->ops->dot(g->device, g->n, g->width, g->x, g->y, g->scratch, false, w);
}

static const struct group {
    const char *name;
    void (*run)(const struct given *);
    bool has_edges; /* else one graph is as good as another */
} groups[] = {{"sums", sums, true},
              {"bordered", bordered, true},
              {"maxima", maxima, true},
              {"attention", attention, true},
              {"pointwise", pointwise, false},
              {"loss", loss, false},
              {"optimiser", optimiser, false},
              {"rows", rows, false},
              {"codecs", codecs, false},
              {"products", products, false}};

/* --- all of it --- */

static void given_open(struct figure *f, const struct graph *graph, int64_t width, struct given *g)
{
    static uint32_t node[HUB_NODES];
    const struct device_now now = {.lr = 0.01, .correction_1 = 0.1, .correction_2 = 0.1, .n_loss_row = 100.0};
    for (uint32_t r = 0; r < HUB_NODES; r++) {
        node[r] = r;
    }
    *g = (struct given){
        .f = f, .device = f->device, .ops = f->ops, .graph = graph, .n = graph->n_node, .width = width};
    g->n_value = g->n * width;
    g->block = figure_block(f, graph);
    g->x = figure_random(f, g->n_value);
    g->y = figure_random(f, g->n_value);
    g->out = floats(g, g->n_value);
    g->more = floats(g, g->n_value);
    g->scratch = figure_take(f, SCRATCH_BYTES);
    g->now = figure_copy(f, &now, (int64_t)sizeof now);
    g->node = figure_copy(f, node, (int64_t)sizeof node);
}

static void group_run(struct figure *f, const struct group *group, const struct graph *graph, const char *kind,
                      int64_t width, int by_place)
{
    struct given g;
    char name[64];
    given_open(f, graph, width, &g);
    snprintf(name, sizeof name, "%s\t%s\t%d", group->name, kind, (int)width);
    if (f->reason[0] == '\0' && device_sync(f->device) == STATUS_OK) {
        count_begin(name);
        group->run(&g);
    }
    if (f->reason[0] != '\0' || device_sync(f->device) != STATUS_OK) {
        fprintf(stderr, "%s: %s\n", name, f->reason[0] != '\0' ? f->reason : status_reason());
        exit(1);
    }
    count_print(by_place);
    f->ops->block_close(f->device, &g.block);
    figure_end(f);
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = {"sbm", "rmat", "hub"};
    const struct graph graphs[] = {
        graph_make(&(struct graph_plan){GRAPH_SBM, NODES, EDGES, COMMUNITY}),
        graph_make(&(struct graph_plan){.kind = GRAPH_RMAT, .n_node = NODES, .n_edge = EDGES}),
        graph_make(&(struct graph_plan){.kind = GRAPH_HUB, .n_node = HUB_NODES, .n_edge = HUB_EDGES})};
    struct figure f = {.ops = &device_cuda};
    if (argc > 1 && strcmp(argv[1], "planted") == 0) {
        planted_run();
        return 0;
    }
    if (f.ops->open(1, &f.device) != STATUS_OK) {
        fprintf(stderr, "%s\n", status_reason());
        return 1;
    }
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        for (int kind = 0; kind < (groups[i].has_edges ? 3 : 1); kind++) {
            for (int64_t width = 64; width <= 256 && (argc < 2 || strcmp(argv[1], groups[i].name) == 0); width *= 2) {
                group_run(&f, &groups[i], &graphs[kind], kinds[kind], width, argc > 2);
            }
        }
    }
    f.ops->close(f.device);
    return 0;
}
