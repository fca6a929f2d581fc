/* One GAT layer's sparse work, forward and backward, against one GCN layer's of the same width over the same graph.
 *
 * GAT: products of each head with both vectors, softmax, weighted sum, and all their gradients. GCN: the weighted sum
 * both ways. The linear map before both is the same and not timed with either; a line without a bar adds its three
 * products to both.
 * usage  bench_attention [threads]
 */
#include "tests/bench/bench.h"
#include "tests/bench/bench_graph.h"

#define N_REPEAT 9
#define BAR 0.5 /* GCN's time over GAT's */
#define N_HUB ((int64_t)800000)

static const char graph_job[] =
    "[dataset]\ngenerator = \"sbm\"\nnodes = 100000\ndegree = 15.0\nclasses = 50\nhomophily = 0.9\nfeatures = 1\n"
    "[model]\nkind = \"sage\"\n[partition]\nmethod = \"block\"\nparts = 1\ncache = \"off\"\n";

struct layer {
    struct device *device;
    const struct device_ops *ops;
    const struct device_block *block; /* symmetric: its own transpose */
    int64_t n, n_head, n_column, width;
    float *x, *w, *grad_out, *out, *grad_x; /* n × width, width × width: w */
    float *key, *query, *grad_key, *grad_query, *att[2], *grad_att[2];
    float *scale;
    struct device_attention_state state;
    struct device_attention how;
    void *scratch;
};

static float *values(const struct layer *l, int64_t n, float scale)
{
    float *x = bench_take(l->device, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        x[i] = scale * ((float)((uint32_t)i * 2654435761u >> 16) / 32768.0f - 1.0f);
    }
    return x;
}

static void layer_open(struct layer *l)
{
    int64_t heads = l->n * l->n_head, wide = l->n * l->width;
    l->x = values(l, wide, 1.0f);
    l->w = values(l, l->width * l->width, 0.1f);
    l->grad_out = values(l, wide, 1.0f);
    l->out = values(l, wide, 0.0f);
    l->grad_x = values(l, wide, 0.0f);
    l->scale = values(l, l->n, 1.0f);
    float **narrow[] = {&l->key, &l->query, &l->grad_key, &l->grad_query, &l->state.positive_weight};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) {
        *narrow[i] = values(l, heads, 0.0f);
    }
    for (int i = 0; i < 2; i++) {
        l->att[i] = values(l, l->width, 0.1f);
        l->grad_att[i] = values(l, l->width, 0.0f);
    }
    l->state.positive = values(l, wide, 0.0f);
    l->state.softmax = values(l, 2 * heads, 0.0f);
    size_t sum = DEVICE_BYTES(l->ops, COLUMN_SUM, l->n, l->width);
    size_t linear = DEVICE_BYTES(l->ops, LINEAR, l->n, l->width, l->width);
    l->scratch = bench_take(l->device, sum > linear ? sum : linear);
    l->how = (struct device_attention){
        .score = DEVICE_SCORE_ADD, .n_head = l->n_head, .n_column = l->n_column, .slope = 0.2f};
}

/* The steps of a GAT layer, timed one by one. */
enum step { PRODUCTS, FORWARD, FINISH, BEGIN, SOURCE, PRODUCTS_BACKWARD, STEP_N };
static const char *const step_names[] = {"head_dot x 2",   "forward",         "finish",
                                         "backward_begin", "backward_source", "head_dot_backward x 2"};

static void gat_step(const struct layer *l, enum step step)
{
    const struct device_attention_source source = {l->x, l->key};
    const struct device_attention_target target = {l->query, l->state.softmax, l->grad_out};
    const struct device_attention_rows rows = {&l->how, l->block, true, true, source, source, target, target, true};
    switch (step) {
    case PRODUCTS:
        l->ops->head_dot(l->device, l->n, l->n_head, l->n_column, l->x, l->att[0], l->key);
        l->ops->head_dot(l->device, l->n, l->n_head, l->n_column, l->x, l->att[1], l->query);
        break;
    case FORWARD:
        l->ops->attention_forward(l->device, &rows, &l->state, l->out);
        break;
    case FINISH:
        l->ops->attention_finish(l->device, l->n, &l->how, &l->state, l->out);
        break;
    case BEGIN:
        l->ops->attention_backward_begin(l->device, l->n, &l->how, l->grad_out, l->out, &l->state, false,
                                         l->grad_query);
        break;
    case SOURCE:
        l->ops->attention_backward_source(l->device, &rows, l->grad_x, l->grad_key);
        break;
    default:
        for (int i = 0; i < 2; i++) {
            const float *grad = i == 0 ? l->grad_key : l->grad_query;
            l->ops->column_sum(l->device,
                               &(struct device_column_sum){l->n, l->n_head * l->n_column, l->x, .n_head = l->n_head,
                                                           .factor = grad, .scratch = l->scratch},
                               l->grad_att[i]);
            l->ops->head_dot_backward_input(l->device, l->n, l->n_head, l->n_column, l->att[i], grad, true,
                                            l->grad_x);
        }
    }
}

static void gcn(const struct layer *l)
{
    struct device_aggregate how = {.col_scale = l->scale,
                                   .self = l->x,
                                   .self_scale = l->scale,
                                   .row_scale = l->scale,
                                   .begin = true,
                                   .finish = true};
    l->ops->aggregate_sum(l->device, l->block, &how, l->width, l->x, l->out);
    how.self = l->grad_out;
    l->ops->aggregate_sum(l->device, l->block, &how, l->width, l->grad_out, l->grad_x);
}

/* y = x wᵀ and both its gradients */
static void linear(const struct layer *l)
{
    l->ops->linear(l->device, &(struct device_linear){l->n, l->width, l->width, l->x, .w = l->w}, l->out);
    l->ops->linear_backward_weight(l->device, l->n, l->width, l->width, l->x, l->grad_out, l->scratch, false, l->w);
    l->ops->linear(l->device, &(struct device_linear){l->n, l->width, l->width, l->grad_out, l->w, .turned = true},
                   l->grad_x);
}

static void measure(struct device *device, const struct device_block *block, int64_t n_head, int64_t n_column,
                    double bar)
{
    struct layer l = {.device = device,
                      .ops = device->ops,
                      .block = block,
                      .n = block->n_row,
                      .n_head = n_head,
                      .n_column = n_column,
                      .width = n_head * n_column};
    struct bench_time steps[STEP_N] = {0}, gat_time = {0}, gcn_time = {0}, linear_time = {0};
    char figure[96];
    layer_open(&l);
    for (int i = 0; i < N_REPEAT; i++) {
        bench_start(&gcn_time);
        gcn(&l);
        bench_stop(&gcn_time);
        bench_start(&gat_time);
        for (int s = 0; s < STEP_N; s++) {
            bench_start(&steps[s]);
            gat_step(&l, (enum step)s);
            bench_stop(&steps[s]);
        }
        bench_stop(&gat_time);
        bench_start(&linear_time);
        linear(&l);
        bench_stop(&linear_time);
    }
    snprintf(figure, sizeof figure, "gat %d x %d forward+backward, against gcn", (int)n_head, (int)n_column);
    bench_line(figure, 1e3 * gat_time.best, "ms", 1e3 * gcn_time.best, gcn_time.best / gat_time.best, bar);
    double with_linear = gat_time.best + linear_time.best, reference = gcn_time.best + linear_time.best;
    bench_line("  with the linear map's three products", 1e3 * with_linear, "ms", 1e3 * reference,
               reference / with_linear, 0.0);
    for (int s = 0; s < STEP_N; s++) {
        snprintf(figure, sizeof figure, "  of it %s, against half of gcn", step_names[s]);
        bench_line(figure, 1e3 * steps[s].best, "ms", 5e2 * gcn_time.best, 0.5 * gcn_time.best / steps[s].best, 0.0);
    }
}

static double hub_time(const struct device_block *block, int n_thread)
{
    struct device *device = NULL;
    struct layer l = {.ops = &device_cpu, .block = block, .n = block->n_col, .n_head = 8, .n_column = 8, .width = 64};
    struct bench_time time = {0};
    if (device_cpu.open(n_thread, &device) != STATUS_OK) {
        exit(1);
    }
    l.device = device;
    layer_open(&l);
    for (int i = 0; i < N_REPEAT; i++) {
        bench_start(&time);
        gat_step(&l, FORWARD);
        gat_step(&l, SOURCE);
        bench_stop(&time);
    }
    device_cpu.close(device);
    return time.best;
}

/* One row has all edges, once as in-edges and once as out-edges. */
static void measure_hub(struct device *device)
{
    const int64_t indptr[] = {0, N_HUB};
    uint32_t *cols = bench_take(device, N_HUB * sizeof *cols);
    for (int64_t i = 0; i < N_HUB; i++) {
        cols[i] = (uint32_t)i;
    }
    struct device_block block = {.n_row = 1, .n_col = N_HUB, .n_edge = N_HUB, .indptr = indptr, .cols = cols};
    if (device_cpu.block_open(device, &block) != STATUS_OK) {
        exit(1);
    }
    double one = hub_time(&block, 1), two = hub_time(&block, 2);
    bench_line("one row of 800000 edges, 8 x 8: 2 threads, against 1", 1e3 * two, "ms", 1e3 * one, one / two, 0.0);
    device_cpu.block_close(device, &block);
}

int main(int argc, char **argv)
{
    struct device *device = NULL;
    if (device_cpu.open(argc > 1 ? atoi(argv[1]) : 0, &device) != STATUS_OK) {
        return 1;
    }
    struct device_block block = bench_graph_open("sbm", graph_job);
    if (device_cpu.block_open(device, &block) != STATUS_OK) {
        return 1;
    }
    bench_header();
    measure(device, &block, 4, 64, BAR);
    measure(device, &block, 8, 8, 0.0);
    measure_hub(device);
    device_cpu.block_close(device, &block);
    device_cpu.close(device);
    return 0;
}
