/* Tile programs over rows and over edges: every instruction, operand and reduction. */
#include "tests/support/operations/operation.h"
#include "tests/support/tolerance.h"

#include <string.h>

/* --- programs --- */

struct writing {
    struct tile tile;
    struct tile_instruction instruction[64];
    struct tile_result result[64];
};

static struct tile *written(struct writing *w)
{
    w->tile.instruction = w->instruction;
    w->tile.result = w->result;
    if (!tile_check(&w->tile)) {
        operation_give_up("a case's program does not fit");
    }
    return &w->tile;
}

static struct tile_operand in(enum tile_rows which, int64_t at, int64_t head, int64_t column)
{
    return (struct tile_operand){.kind = TILE_ROW, .which = (int)which, .at = at, .head = head, .column = column};
}

static struct tile_operand number(float x)
{
    return (struct tile_operand){.kind = TILE_NUMBER, .number = x};
}

/* Floats from `at` on, heads of `column` side by side. */
static struct tile_operand wide(int64_t at, int64_t n_column)
{
    return (struct tile_operand){.kind = TILE_REGISTER, .at = at, .head = n_column, .column = 1};
}

/* Returns the result's first register float. */
static int64_t put(struct writing *w, enum tile_op op, int64_t n_head, int64_t n_column, struct tile_operand a,
                   struct tile_operand b)
{
    struct tile_instruction *i = &w->instruction[w->tile.n_instruction++];
    *i = (struct tile_instruction){.op = op,
                                   .n_head = n_head,
                                   .n_column = n_column,
                                   .n_inner = 1,
                                   .out = w->tile.n_float,
                                   .out_head = n_column,
                                   .a = a,
                                   .b = b};
    w->tile.n_float += n_head * n_column;
    return i->out;
}

/* Σ_k a[h, c, k] b[h, c, k], whose steps of k are those of `column` where there is one column. */
static int64_t put_contract(struct writing *w, int64_t n_head, int64_t n_column, int64_t n_inner,
                            struct tile_operand a, int64_t a_inner, struct tile_operand b, int64_t b_inner)
{
    a.inner = a_inner;
    b.inner = b_inner;
    int64_t out = put(w, TILE_OP_CONTRACT, n_head, n_column, a, b);
    w->instruction[w->tile.n_instruction - 1].n_inner = n_inner;
    return out;
}

static void numbers_set(struct writing *w, float first, float second)
{
    struct tile_instruction *i = &w->instruction[w->tile.n_instruction - 1];
    i->number[0] = first;
    i->number[1] = second;
}

static struct tile_result *give(struct writing *w, enum tile_target target, int64_t at, int64_t from, int64_t n)
{
    struct tile_result *r = &w->result[w->tile.n_result++];
    *r = (struct tile_result){.target = target, .at = at, .n = n, .from = wide(from, 0)};
    return r;
}

/* grad[at + i · step + j · step_with] += from[i] · with[j] */
static void give_products(struct writing *w, int which, int64_t from, int64_t n, int64_t step, int64_t with,
                          int64_t n_with, int64_t step_with)
{
    struct tile_result *r = give(w, TILE_TARGET_PARAM, 0, from, n);
    r->which = which;
    r->step = step;
    r->with = wide(with, 0);
    r->n_with = n_with;
    r->step_with = step_with;
}

/* --- rows --- */

#define N_OUT 7 /* columns of a product with a matrix */

/* Every elementwise operation, of rows IN_0 and IN_1 or, where numbers have to be positive, of |IN_0| + 1/4. */
static void put_maps(struct writing *w, int64_t n_head, int64_t n_column)
{
    const int64_t n = n_head * n_column;
    const struct tile_operand x = in(TILE_ROWS_IN_0, 0, n_column, 1), y = in(TILE_ROWS_IN_1, 0, n_column, 1);
    int64_t positive = put(w, TILE_OP_ABS, n_head, n_column, x, number(0.0F));
    positive = put(w, TILE_OP_ADD, n_head, n_column, wide(positive, n_column), number(0.25F));
    for (int op = 0; op < TILE_OP_CONTRACT; op++) {
        bool of_positive = op == TILE_OP_LOG || op == TILE_OP_SQRT || op == TILE_OP_POWER;
        bool by_positive = op == TILE_OP_DIVIDE || op == TILE_OP_SQRT_BACK || op == TILE_OP_POWER_BACK;
        if (op == TILE_OP_WON) {
            continue;
        }
        int64_t at = put(w, (enum tile_op)op, n_head, n_column, of_positive ? wide(positive, n_column) : x,
                         by_positive ? wide(positive, n_column) : y);
        bool clamps = op == TILE_OP_CLAMP || op == TILE_OP_CLAMP_BACK;
        numbers_set(w, clamps ? -0.3F : 1.5F, 0.4F);
        give(w, TILE_TARGET_OUT, w->tile.target[TILE_TARGET_OUT], at, n);
        w->tile.target[TILE_TARGET_OUT] += n;
    }
}

/* Products with weights, and powers of numbers of either sign. */
static void put_products(struct writing *w, int64_t n_head, int64_t n_column)
{
    const int64_t n = n_head * n_column;
    const struct tile_operand x = in(TILE_ROWS_IN_0, 0, n_column, 0), flat = in(TILE_ROWS_IN_0, 0, 0, 0);
    const struct tile_operand vector = {.kind = TILE_PARAM, .which = 0, .head = n_column};
    const struct tile_operand matrix = {.kind = TILE_PARAM, .which = 1, .column = n};
    const struct tile_operand transposed = {.kind = TILE_PARAM, .which = 1, .column = 1};
    int64_t dot = put_contract(w, n_head, 1, n_column, x, 1, vector, 1);
    int64_t product = put_contract(w, 1, N_OUT, n, flat, 1, matrix, 1);
    int64_t other = put_contract(w, 1, N_OUT, n, flat, 1, transposed, N_OUT);
    int64_t rare = put(w, TILE_OP_ADD, n_head, n_column, in(TILE_ROWS_IN_0, 0, n_column, 1), number(-0.9F));
    rare = put(w, TILE_OP_RELU, n_head, n_column, wide(rare, n_column), number(0.0F)); /* mostly 0 */
    int64_t few = put_contract(w, 1, N_OUT, n, (struct tile_operand){.kind = TILE_REGISTER, .at = rare}, 1,
                               transposed, N_OUT);
    int64_t scaled = put(w, TILE_OP_MULTIPLY, n_head, n_column, in(TILE_ROWS_IN_0, 0, n_column, 1),
                         (struct tile_operand){.kind = TILE_REGISTER, .at = dot, .head = 1});
    int64_t cube = put(w, TILE_OP_POWER, n_head, n_column, in(TILE_ROWS_IN_1, 0, n_column, 1), number(0.0F));
    numbers_set(w, 3.0F, 0.0F);
    give(w, TILE_TARGET_GRAD_IN_1, 0, dot, n_head);
    give(w, TILE_TARGET_GRAD_IN_1, n_head, product, N_OUT);
    give(w, TILE_TARGET_GRAD_IN_1, n_head, other, N_OUT); /* is added */
    give(w, TILE_TARGET_GRAD_IN_1, n_head, few, N_OUT);
    give(w, TILE_TARGET_GRAD_IN_2, 1, scaled, n); /* column 0 is written by no result */
    give(w, TILE_TARGET_GRAD_IN_2, n + 1, cube, n);
    struct tile_result *r = give(w, TILE_TARGET_GRAD_IN_2, 1, 0, n); /* rows, times a number by head, are added */
    r->from = in(TILE_ROWS_IN_1, 0, 0, 1);
    r->with = wide(dot, 0);
    r->n_with = n_head;
    give(w, TILE_TARGET_PARAM, 0, scaled, n);
    give_products(w, 1, product, N_OUT, n, scaled, n, 1);
    give_products(w, 1, scaled, n, N_OUT, other, N_OUT, 1);
    give_products(w, 1, other, N_OUT, 1, rare, n, N_OUT);
    give_products(w, 2, scaled, n, 0, dot, n_head, 1); /* sums over i share a place */
    w->tile.target[TILE_TARGET_GRAD_IN_1] = n_head + N_OUT;
    w->tile.target[TILE_TARGET_GRAD_IN_2] = 2 * n + 1;
}

/* n, heads, columns, floats that a row's registers are more: maps, products, gradients of weights; added to, too */
static void tile_rows(struct operation_run *run, const int64_t *shape)
{
    const struct device_ops *ops = run->ops;
    const int64_t n = shape[0], f = shape[1] * shape[2];
    struct writing w = {.tile = {.param = {f, f * N_OUT, shape[1]}}};
    w.tile.width[TILE_ROWS_IN_0] = w.tile.width[TILE_ROWS_IN_1] = f;
    put_maps(&w, shape[1], shape[2]);
    put_products(&w, shape[1], shape[2]);
    w.tile.n_float += shape[3];
    struct device_tile how = {.tile = written(&w), .scratch = NULL};
    how.rows[TILE_ROWS_IN_0] = operation_random(run, n * f);
    how.rows[TILE_ROWS_IN_1] = operation_random(run, n * f);
    how.scratch = operation_scratch(run, device_tile_bytes(ops, &w.tile, false));
    for (int p = 0; p < 3; p++) {
        how.param[p] = operation_random(run, w.tile.param[p]);
    }
    for (int add = 0; add < 2; add++) {
        for (int t = 0; t < TILE_TARGET_N; t++) {
            how.to[t] = w.tile.target[t] > 0 ? operation_floats(run, n * w.tile.target[t]) : NULL;
            how.add[t] = add != 0;
        }
        for (int p = 0; p < 3; p++) {
            how.grad_param[p] = operation_floats(run, w.tile.param[p]);
            how.add_param[p] = add != 0;
        }
        ops->tile_rows(run->device, n, &how);
    }
}

/* --- edges --- */

#define N_FEATURE 3

enum { WEIGHTS = 1, FEATURES = 2, SPILLS = 4, SHIFTS = 8 }; /* of `flags` */

struct shape {
    int64_t n_head, n_column, flags;
};

/* First register floats of what both directions compute of an edge: y, q + y, and ⟨q, y⟩ by head. */
struct message {
    int64_t y, sum, score;
};

static struct message put_message(struct writing *w, const struct shape *s)
{
    const int64_t f = s->n_head * s->n_column;
    struct message m;
    w->tile.width[TILE_ROWS_IN_0] = w->tile.width[TILE_ROWS_IN_2] = f;
    w->tile.width[TILE_ROWS_SCALE_0] = w->tile.width[TILE_ROWS_SCALE_2] = w->tile.width[TILE_ROWS_WEIGHT] = 1;
    w->tile.param[0] = f * N_FEATURE;
    w->tile.param[1] = f * s->n_head;
    m.y = put(w, TILE_OP_MULTIPLY, s->n_head, s->n_column, in(TILE_ROWS_IN_0, 0, s->n_column, 1),
              in(TILE_ROWS_WEIGHT, 0, 0, 0));
    if ((s->flags & FEATURES) != 0) {
        w->tile.width[TILE_ROWS_FEATURE] = N_FEATURE;
        int64_t z = put_contract(w, 1, f, N_FEATURE, in(TILE_ROWS_FEATURE, 0, 0, 0), 1,
                                 (struct tile_operand){.kind = TILE_PARAM, .column = N_FEATURE}, 1);
        m.y = put(w, TILE_OP_ADD, s->n_head, s->n_column, wide(m.y, s->n_column), wide(z, s->n_column));
    }
    m.y = put(w, TILE_OP_MULTIPLY, s->n_head, s->n_column, wide(m.y, s->n_column), in(TILE_ROWS_SCALE_0, 0, 0, 0));
    m.sum = put(w, TILE_OP_ADD, s->n_head, s->n_column, wide(m.y, s->n_column),
                in(TILE_ROWS_IN_2, 0, s->n_column, 1));
    struct tile_operand y = wide(m.y, s->n_column);
    y.column = 0;
    m.score = put_contract(w, s->n_head, 1, s->n_column, y, 1, in(TILE_ROWS_IN_2, 0, s->n_column, 0), 1);
    w->tile.n_float += (s->flags & SPILLS) != 0 ? 2000 : 0;
    w->tile.saved = 3 * f + 2 * s->n_head;
    return m;
}

static void give_reduced(struct writing *w, enum tile_reduction reduction, int64_t at, int64_t saved, int64_t from,
                         int64_t n)
{
    struct tile_result *r = give(w, TILE_TARGET_OUT, at, from, n);
    r->reduction = reduction;
    r->saved = saved;
}

static struct tile *forward_program(struct writing *w, const struct shape *s)
{
    const int64_t f = s->n_head * s->n_column;
    const struct message m = put_message(w, s);
    int64_t kept = put(w, TILE_OP_DROP, s->n_head, s->n_column, wide(m.y, s->n_column), number(0.0F));
    numbers_set(w, 0.3F, 2.0F);
    give(w, TILE_TARGET_OUT, 0, kept, f);
    give_reduced(w, TILE_REDUCTION_MAX, f, 0, m.sum, f);
    give_reduced(w, TILE_REDUCTION_MIN, 2 * f, f, m.sum, f);
    give_reduced(w, TILE_REDUCTION_LOGSUMEXP, 3 * f, 2 * f, m.sum, f);
    give_reduced(w, TILE_REDUCTION_SOFTMAX, 4 * f, 3 * f, m.y, f);
    w->result[w->tile.n_result - 1].with = wide(m.score, 0);
    w->result[w->tile.n_result - 1].n_with = s->n_head;
    w->tile.target[TILE_TARGET_OUT] = 5 * f + 1; /* the last one is written by no result */
    w->tile.scales_mean = w->tile.draws = true;
    return written(w);
}

/* Gradients for either end: where the source won, and weighted as log-sum-exps and softmaxes weigh. */
static struct tile *backward_program(struct writing *w, const struct shape *s, enum tile_target target)
{
    const int64_t f = s->n_head * s->n_column, n_column = s->n_column;
    const struct message m = put_message(w, s);
    w->tile.width[TILE_ROWS_GRAD] = 5 * f + 1;
    w->tile.width[TILE_ROWS_SAVED] = w->tile.saved;
    int64_t won = put(w, TILE_OP_WON, s->n_head, n_column, in(TILE_ROWS_GRAD, f, n_column, 1),
                      in(TILE_ROWS_SAVED, 0, n_column, 1));
    int64_t power = put(w, TILE_OP_SUBTRACT, s->n_head, n_column, wide(m.sum, n_column),
                        in(TILE_ROWS_SAVED, 2 * f, n_column, 1));
    power = put(w, TILE_OP_EXP, s->n_head, n_column, wide(power, n_column), number(0.0F));
    power = put(w, TILE_OP_MULTIPLY, s->n_head, n_column, wide(power, n_column),
                in(TILE_ROWS_GRAD, 3 * f, n_column, 1));
    int64_t alpha = put(w, TILE_OP_SUBTRACT, s->n_head, 1, wide(m.score, 1), in(TILE_ROWS_SAVED, 3 * f, 1, 0));
    alpha = put(w, TILE_OP_EXP, s->n_head, 1, wide(alpha, 1), number(0.0F));
    int64_t weighted = put(w, TILE_OP_MULTIPLY, s->n_head, n_column, in(TILE_ROWS_GRAD, 4 * f, n_column, 1),
                           (struct tile_operand){.kind = TILE_REGISTER, .at = alpha, .head = 1});
    give(w, target, 0, won, f);
    give(w, target, 0, power, f); /* is added */
    give(w, target, f, weighted, f);
    struct tile_result *r = give(w, target, f, 0, f); /* again, without keeping it */
    r->from = in(TILE_ROWS_GRAD, 4 * f, 0, 1);
    r->with = wide(alpha, 0);
    r->n_with = s->n_head;
    w->tile.target[target] = 2 * f;
    if (target == TILE_TARGET_GRAD_IN_2) {
        give(w, TILE_TARGET_PARAM, 0, power, f);
        give_products(w, 1, weighted, f, s->n_head, alpha, s->n_head, 1);
    }
    return written(w);
}

/* --- a layer: all edges of a square block, or of one with more columns, and then those of some rows again --- */

enum { SQUARE, LONG, HUB, EMPTY };
static const struct {
    enum operation_degrees degrees;
    int64_t n_row, n_col;
} graphs[] = {
    [SQUARE] = {OPERATION_DEGREES_MIXED, 120, 120},
    [LONG] = {OPERATION_DEGREES_LONG, 120, 2000},
    [HUB] = {OPERATION_DEGREES_HUB, 12, 75000},
    [EMPTY] = {OPERATION_DEGREES_MIXED, 0, 5},
};

static struct device_block block_open(struct operation_run *run, enum operation_degrees degrees, int64_t n_row,
                                      int64_t n_col, int64_t flags)
{
    struct device_block block = operation_graph(run, degrees, n_row, n_col, 0);
    if ((flags & WEIGHTS) != 0) {
        block.weights = operation_random(run, block.n_edge);
    } else if ((flags & FEATURES) != 0) {
        block.edge_rows = operation_numbers(run, block.n_edge, 3, 2);
        block.edge_table = operation_random(run, (2 * block.n_edge + 3) * N_FEATURE);
    }
    return block;
}

struct layer {
    struct shape shape;
    struct device_block block[2]; /* all rows; every second row */
    struct device_tile_edges how;
    const float *own[TILE_ROWS_N], *far[TILE_ROWS_N]; /* of the block's rows, of its columns */
    int64_t n_row;
};

static void layer_open(struct operation_run *run, const int64_t *shape, struct layer *l)
{
    static const enum tile_rows arrays[] = {TILE_ROWS_IN_0,  TILE_ROWS_IN_2,    TILE_ROWS_GRAD,
                                            TILE_ROWS_SAVED, TILE_ROWS_SCALE_0, TILE_ROWS_SCALE_2};
    const int64_t n_row = graphs[shape[0]].n_row, n_col = graphs[shape[0]].n_col, f = shape[1] * shape[2];
    const int64_t width[] = {f, f, 5 * f + 1, 3 * f + 2 * shape[1], 1, 1};
    *l = (struct layer){.shape = {shape[1], shape[2], shape[3]}, .n_row = n_row};
    l->block[0] = block_open(run, graphs[shape[0]].degrees, n_row, n_col, shape[3]);
    l->block[1] = block_open(run, OPERATION_DEGREES_MIXED, n_row / 2, n_col, shape[3]);
    l->block[1].rows = operation_numbers(run, n_row / 2, 1, 2);
    for (int k = 0; k < 6; k++) {
        l->own[arrays[k]] = operation_random(run, n_row * width[k]);
        l->far[arrays[k]] = operation_random(run, n_col * width[k]);
    }
    bool shifts = (shape[3] & SHIFTS) != 0;
    l->how = (struct device_tile_edges){.of = {.drops = true,
                                               .key = {.seed = 11, .op = 5, .stream = RANDOM_STREAM_EDGE},
                                               .now = operation_now(run, (struct device_now){.epoch = 4}),
                                               .row_node = operation_numbers(run, n_row, 1000, 17)},
                                        .with_self = shape[0] == SQUARE && (shape[3] & FEATURES) == 0,
                                        .col_node = operation_numbers(run, n_col, 1000, 17),
                                        .factor = shifts ? 2.0F : 1.0F,
                                        .shift = shifts ? 0.6931472F : 0.0F};
    l->how.of.param[0] = operation_random(run, f * N_FEATURE);
    l->how.of.param[1] = operation_random(run, f * shape[1]);
}

/* The program over both blocks. */
static void layer_run(struct operation_run *run, struct layer *l, const struct tile *tile, bool rows_are_sources)
{
    static const bool of_source[TILE_ROWS_N] = {[TILE_ROWS_IN_0] = true, [TILE_ROWS_SCALE_0] = true};
    struct device_tile_edges *how = &l->how;
    how->of.tile = tile;
    how->rows_are_sources = rows_are_sources;
    how->of.scratch = operation_scratch(run, device_tile_bytes(run->ops, tile, true));
    for (int k = 0; k < TILE_ROWS_N; k++) {
        how->of.rows[k] = of_source[k] == rows_are_sources ? l->own[k] : l->far[k];
        how->self_rows[k] = l->own[k];
    }
    for (int t = 0; t < TILE_TARGET_N; t++) {
        how->of.to[t] = tile->target[t] > 0 ? operation_floats(run, l->n_row * tile->target[t]) : NULL;
    }
    for (int p = 0; p < 2; p++) {
        how->of.grad_param[p] = tile_grad_at(tile, p) >= 0 ? operation_floats(run, tile->param[p]) : NULL;
    }
    for (int b = 0; b < 2; b++) {
        how->block = &l->block[b];
        how->begin = b == 0;
        how->n_finish = b == 1 && tile->target[TILE_TARGET_OUT] > 0 ? l->n_row : 0;
        how->of.add_param[0] = how->of.add_param[1] = b == 1;
        run->ops->tile_edges(run->device, how);
    }
}

/* graph, heads, columns, flags: forward, gradients of destinations and weights, gradients of sources */
static void tile_edges(struct operation_run *run, const int64_t *shape)
{
    static struct writing forward, targets, sources;
    struct layer l;
    memset(&forward, 0, sizeof forward);
    memset(&targets, 0, sizeof targets);
    memset(&sources, 0, sizeof sources);
    layer_open(run, shape, &l);
    const struct tile *tile = forward_program(&forward, &l.shape);
    float *saved = operation_scratch(run, (size_t)(l.n_row * tile->saved) * sizeof *saved);
    l.how.saved = saved;
    layer_run(run, &l, tile, false);
    l.how.saved = NULL;
    l.own[TILE_ROWS_SAVED] = saved;
    layer_run(run, &l, backward_program(&targets, &l.shape, TILE_TARGET_GRAD_IN_2), false);
    layer_run(run, &l, backward_program(&sources, &l.shape, TILE_TARGET_GRAD_IN_0), true);
    run->ops->block_close(run->device, &l.block[1]);
    run->ops->block_close(run->device, &l.block[0]);
}

#define ROWS OPERATION_SAME_EMULATED, TOLERANCE_SUM, tile_rows
#define EDGES OPERATION_SAME_EMULATED, TOLERANCE_LONG_SUM, tile_edges

const struct operation_case operation_tile_cases[] = {
    {"tile-rows-1x7", ROWS, {500, 1, 7}},
    {"tile-rows-4x16", ROWS, {300, 4, 16}},
    {"tile-rows-3x1", ROWS, {2000, 3, 1}},
    {"tile-rows-1x2", ROWS, {2000, 1, 2}},
    {"tile-rows-2x2", ROWS, {300, 2, 2}},
    {"tile-rows-spilled-2x9", ROWS, {600, 2, 9, 30000}},
    {"tile-rows-empty-2x9", ROWS, {0, 2, 9}},
    {"tile-edges-1x7", EDGES, {SQUARE, 1, 7}},
    {"tile-edges-4x16", EDGES, {SQUARE, 4, 16, WEIGHTS | SHIFTS}},
    {"tile-edges-3x33", EDGES, {SQUARE, 3, 33, FEATURES}},
    {"tile-edges-5x1", EDGES, {SQUARE, 5, 1, WEIGHTS}},
    {"tile-edges-long-2x8", EDGES, {LONG, 2, 8, FEATURES | SHIFTS}},
    {"tile-edges-spilled-2x8", EDGES, {SQUARE, 2, 8, WEIGHTS | SPILLS}},
    {"tile-edges-hub-1x3", EDGES, {HUB, 1, 3}},
    {"tile-edges-empty-4x16", EDGES, {EMPTY, 4, 16, WEIGHTS}},
    {0},
};
