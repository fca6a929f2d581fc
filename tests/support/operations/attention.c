/* Attention over in-neighbours, forward and backward, and what surrounds it. */
#include "tests/support/operations/operation.h"
#include "tests/support/tolerance.h"

/* What sources and destinations have; of rows the block's rows, of columns its columns. */
struct side {
    struct device_attention_source source;
    struct device_attention_target target;
};

static struct side side(struct operation_run *run, const struct device_attention *how, int64_t n)
{
    int64_t heads = n * how->n_head, in = heads * how->n_column, out = heads * device_attention_columns(how);
    bool narrow_key = how->score == DEVICE_SCORE_ADD || how->score == DEVICE_SCORE_COSINE;
    struct side s = {{operation_random(run, in), NULL}, {NULL, NULL, operation_random(run, out)}};
    if (how->score != DEVICE_SCORE_MLP) {
        s.source.key = operation_random(run, narrow_key ? heads : in);
    }
    s.target.query = operation_random(run, how->score == DEVICE_SCORE_ADD ? heads : out);
    s.target.softmax = operation_random(run, 2 * heads);
    return s;
}

/* The edges have rows of a table of as many columns; returns the numbers of what how->edge is. */
static int64_t edges_open(struct operation_run *run, struct device_attention *how, struct device_block *block)
{
    int64_t n = how->n_head * how->n_edge_column;
    n = how->score == DEVICE_SCORE_ADD ? n : how->score == DEVICE_SCORE_MLP ? n * how->n_column : 0;
    if (how->n_edge_column > 0) {
        block->edge_rows = operation_numbers(run, block->n_edge, 3, 2);
        block->edge_table = operation_random(run, (2 * block->n_edge + 3) * how->n_edge_column);
        how->edge = n > 0 ? operation_random(run, n) : NULL;
    }
    return n;
}

/* A row of more edges than there are columns is summed in pieces, for as many heads at a time as a piece has room. */
enum { SQUARE, HUB, HUGE_ROW, LONG, PIECES, EMPTY };
static const struct {
    enum operation_degrees degrees;
    int64_t n_row, n_col;
} graphs[] = {
    [SQUARE] = {OPERATION_DEGREES_MIXED, 120, 120},    [HUB] = {OPERATION_DEGREES_HUB, 12, 75000},
    [HUGE_ROW] = {OPERATION_DEGREES_HUGE, 12, 160000}, [LONG] = {OPERATION_DEGREES_LONG, 400, 2000},
    [PIECES] = {OPERATION_DEGREES_HUB, 5, 4001},       [EMPTY] = {OPERATION_DEGREES_MIXED, 0, 5},
};

/* kind, graph, heads, columns, columns of edges' features: dropped-out coefficients, edges to rows themselves where
 * the graph is square and edges have no features */
static void attention(struct operation_run *run, const int64_t *shape)
{
    const struct device_ops *ops = run->ops;
    bool square = shape[1] == SQUARE;
    int64_t n_row = graphs[shape[1]].n_row, n_col = graphs[shape[1]].n_col;
    struct device_attention how = {.score = (enum device_score_kind)shape[0],
                                   .n_head = shape[2],
                                   .n_column = shape[3],
                                   .n_edge_column = shape[4],
                                   .slope = 0.2F,
                                   .scale = 0.3F,
                                   .p = 0.3,
                                   .key = {.seed = 11, .op = 5, .stream = RANDOM_STREAM_EDGE},
                                   .now = operation_now(run, (struct device_now){.epoch = 4})};
    int64_t heads = n_row * how.n_head, in = heads * how.n_column, out = heads * device_attention_columns(&how),
            n_att = how.n_head * how.n_column;
    how.att = how.score == DEVICE_SCORE_MLP ? operation_random(run, n_att) : NULL;
    how.row_node = how.col_node = operation_numbers(run, n_col, 1000, 17);
    struct device_block block = operation_graph(run, graphs[shape[1]].degrees, n_row, n_col, 0);
    int64_t n_edge = edges_open(run, &how, &block);
    struct side row = side(run, &how, n_row), column = square ? row : side(run, &how, n_col);
    float *y = operation_floats(run, out), *grad_query = NULL;
    struct device_attention_state state = {.softmax = operation_floats(run, 2 * heads)};
    bool add = how.score == DEVICE_SCORE_ADD, mlp = how.score == DEVICE_SCORE_MLP, whole = add && shape[4] == 0;
    if (whole) {
        state.positive = operation_floats(run, in);
        state.positive_weight = operation_floats(run, heads);
    }
    struct device_attention_rows rows = {
        &how, &block, true, square && shape[4] == 0, column.source, row.source, row.target, row.target, true};
    ops->attention_forward(run->device, &rows, &state, y);
    ops->attention_finish(run->device, n_row, &how, &state, y);
    row.target.softmax = state.softmax;
    column.target.softmax = square ? state.softmax : column.target.softmax;
    grad_query = operation_floats(run, add ? heads : out);
    ops->attention_backward_begin(run->device, n_row, &how, row.target.grad_out, y, &state, add, grad_query);
    rows.target = rows.self_target = row.target;
    if (!whole) {
        void *scratch = operation_scratch(run, device_attention_bytes(ops, n_row, &how));
        ops->attention_backward_query(run->device, &rows, scratch, grad_query,
                                      mlp ? operation_floats(run, n_att) : NULL,
                                      n_edge > 0 ? operation_floats(run, n_edge) : NULL);
    }
    rows.source = row.source;
    rows.target = column.target;
    float *grad_key = mlp ? NULL : operation_floats(run, how.score == DEVICE_SCORE_DOT ? in : heads);
    ops->attention_backward_source(run->device, &rows, operation_floats(run, in), grad_key);
    ops->block_close(run->device, &block);
}

/* n, heads, columns */
static void heads(struct operation_run *run, const int64_t *shape)
{
    const struct device_ops *ops = run->ops;
    int64_t n = shape[0], n_head = shape[1], n_column = shape[2], wide = n_head * n_column;
    const float *x = operation_random(run, n * wide), *w = operation_random(run, wide);
    const float *grad = operation_random(run, n * n_head), *grad_mean = operation_random(run, n * n_column);
    void *scratch = operation_scratch(run, DEVICE_BYTES(ops, COLUMN_SUM, n, wide));
    ops->head_dot(run->device, n, n_head, n_column, x, w, operation_floats(run, n * n_head));
    ops->head_mean(run->device, n, n_head, n_column, false, x, false, operation_floats(run, n * n_column));
    for (int add = 0; add < 2; add++) {
        ops->head_dot_backward_input(run->device, n, n_head, n_column, w, grad, add, operation_floats(run, n * wide));
        ops->column_sum(run->device,
                        &(struct device_column_sum){n, n_head * n_column, x, .n_head = n_head, .factor = grad,
                                                    .add = add, .scratch = scratch},
                        operation_floats(run, wide));
        ops->head_mean(run->device, n, n_head, n_column, true, grad_mean, add, operation_floats(run, n * wide));
    }
}

#define SAME OPERATION_SAME_EMULATED, TOLERANCE_LONG_SUM, attention
#define NEAR OPERATION_SAME_NUMBERS, TOLERANCE_LONG_SUM, attention

const struct operation_case operation_attention_cases[] = {
    {"gat-1x7", SAME, {DEVICE_SCORE_ADD, SQUARE, 1, 7}},
    {"gat-4x16", SAME, {DEVICE_SCORE_ADD, SQUARE, 4, 16}},
    {"gat-4x64", SAME, {DEVICE_SCORE_ADD, SQUARE, 4, 64}},
    {"gat-1x300", SAME, {DEVICE_SCORE_ADD, SQUARE, 1, 300}},
    {"gat-19x2", SAME, {DEVICE_SCORE_ADD, SQUARE, 19, 2}},
    {"gat-edges-8x8", SAME, {DEVICE_SCORE_ADD, SQUARE, 8, 8, 16}},
    {"gat-edges-2x3", SAME, {DEVICE_SCORE_ADD, SQUARE, 2, 3, 5}},
    {"gat-hub-2x3", SAME, {DEVICE_SCORE_ADD, HUB, 2, 3}},
    {"gatv2-1x40", SAME, {DEVICE_SCORE_MLP, SQUARE, 1, 40}},
    {"gatv2-4x16", SAME, {DEVICE_SCORE_MLP, SQUARE, 4, 16}},
    {"gatv2-1x300", SAME, {DEVICE_SCORE_MLP, SQUARE, 1, 300}},
    {"gatv2-19x2", SAME, {DEVICE_SCORE_MLP, SQUARE, 19, 2}},
    {"gatv2-edges-3x33", SAME, {DEVICE_SCORE_MLP, SQUARE, 3, 33, 1}},
    {"gatv2-edges-16x8", SAME, {DEVICE_SCORE_MLP, SQUARE, 16, 8, 16}},
    {"gatv2-hub-1x3", SAME, {DEVICE_SCORE_MLP, HUB, 1, 3}},
    {"dot-2x32", SAME, {DEVICE_SCORE_DOT, SQUARE, 2, 32}},
    {"dot-8x8", SAME, {DEVICE_SCORE_DOT, SQUARE, 8, 8}},
    {"dot-1x300", SAME, {DEVICE_SCORE_DOT, SQUARE, 1, 300}},
    {"dot-19x2", SAME, {DEVICE_SCORE_DOT, SQUARE, 19, 2}},
    {"dot-edges-1x7", SAME, {DEVICE_SCORE_DOT, SQUARE, 1, 7, 37}},
    {"dot-edges-4x16", SAME, {DEVICE_SCORE_DOT, SQUARE, 4, 16, 5}},
    {"dot-hub-1x3", SAME, {DEVICE_SCORE_DOT, HUB, 1, 3}},
    {"cosine-1x33", SAME, {DEVICE_SCORE_COSINE, SQUARE, 1, 33}},
    {"cosine-1x300", SAME, {DEVICE_SCORE_COSINE, SQUARE, 1, 300}},
    {"cosine-16x8", SAME, {DEVICE_SCORE_COSINE, SQUARE, 16, 8}},
    {"cosine-hub-1x3", SAME, {DEVICE_SCORE_COSINE, HUB, 1, 3}},
    {"gat-huge-1x3", SAME, {DEVICE_SCORE_ADD, HUGE_ROW, 1, 3}},
    {"gat-long-4x16", SAME, {DEVICE_SCORE_ADD, LONG, 4, 16}},
    {"gat-empty-4x16", SAME, {DEVICE_SCORE_ADD, EMPTY, 4, 16}},
    {"gat-pieces-edges-1x3", SAME, {DEVICE_SCORE_ADD, PIECES, 1, 3, 2}},
    {"gat-long-edges-4x16", SAME, {DEVICE_SCORE_ADD, LONG, 4, 16, 20}},
    {"gat-empty-edges-4x16", SAME, {DEVICE_SCORE_ADD, EMPTY, 4, 16, 5}},
    {"gatv2-huge-1x3", SAME, {DEVICE_SCORE_MLP, HUGE_ROW, 1, 3}},
    {"gatv2-long-4x16", SAME, {DEVICE_SCORE_MLP, LONG, 4, 16}},
    {"gatv2-empty-4x16", SAME, {DEVICE_SCORE_MLP, EMPTY, 4, 16}},
    {"gatv2-pieces-edges-1x3", SAME, {DEVICE_SCORE_MLP, PIECES, 1, 3, 2}},
    {"gatv2-long-edges-4x16", SAME, {DEVICE_SCORE_MLP, LONG, 4, 16, 20}},
    {"gatv2-empty-edges-4x16", SAME, {DEVICE_SCORE_MLP, EMPTY, 4, 16, 5}},
    {"dot-huge-1x3", SAME, {DEVICE_SCORE_DOT, HUGE_ROW, 1, 3}},
    {"dot-long-4x16", SAME, {DEVICE_SCORE_DOT, LONG, 4, 16}},
    {"dot-empty-4x16", SAME, {DEVICE_SCORE_DOT, EMPTY, 4, 16}},
    {"dot-pieces-edges-1x3", SAME, {DEVICE_SCORE_DOT, PIECES, 1, 3, 2}},
    {"dot-long-edges-4x16", SAME, {DEVICE_SCORE_DOT, LONG, 4, 16, 20}},
    {"dot-empty-edges-4x16", SAME, {DEVICE_SCORE_DOT, EMPTY, 4, 16, 5}},
    {"cosine-huge-1x3", SAME, {DEVICE_SCORE_COSINE, HUGE_ROW, 1, 3}},
    {"cosine-long-4x16", SAME, {DEVICE_SCORE_COSINE, LONG, 4, 16}},
    {"cosine-empty-4x16", SAME, {DEVICE_SCORE_COSINE, EMPTY, 4, 16}},
#ifndef CUDA_EMULATED /* a GPU takes such a row whole, however wide it is */
    {"gat-pieces-8x8", NEAR, {DEVICE_SCORE_ADD, PIECES, 8, 8}},
    {"gat-pieces-5x128", NEAR, {DEVICE_SCORE_ADD, PIECES, 5, 128}},
    {"gat-pieces-edges-1x512", NEAR, {DEVICE_SCORE_ADD, PIECES, 1, 512, 2}},
    {"gatv2-pieces-edges-5x128", NEAR, {DEVICE_SCORE_MLP, PIECES, 5, 128, 2}},
    {"dot-pieces-edges-1x512", NEAR, {DEVICE_SCORE_DOT, PIECES, 1, 512, 2}},
#endif
    {"heads-700x4x16", OPERATION_SAME_CPU, TOLERANCE_SUM, heads, {700, 4, 16}},
    {"heads-9x1x1", OPERATION_SAME_CPU, TOLERANCE_SUM, heads, {9, 1, 1}},
    {"heads-300x8x8", OPERATION_SAME_CPU, TOLERANCE_SUM, heads, {300, 8, 8}},
    {"heads-300x2x33", OPERATION_SAME_CPU, TOLERANCE_SUM, heads, {300, 2, 33}},
    {"heads-1100x3x5", OPERATION_SAME_CPU, TOLERANCE_SUM, heads, {1100, 3, 5}},
    {0},
};
