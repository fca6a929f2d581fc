/* What is not a number stays one: softmaxes, maxima, maps, losses and steps, on all devices and variants. */
#include "models/cpu/cpu.h"
#include "models/device/device.h"
#include "models/device/tile_edges.h"
#include "tests/support/device/device_case.h"
#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Run with every device, the cpu device with all variants. */
static void each_device(void (*run)(struct device *, const char *name, const void *), const void *context)
{
    for (int d = 0; d < DEVICE_TABLE_N; d++) {
        for (int variant = 0; variant < CPU_VARIANT_N; variant++) {
            bool is_cpu = device_tables[d] == &device_cpu;
            const struct cpu_kernels *kernels = cpu_kernels_find((enum cpu_variant)variant);
            if (is_cpu ? kernels == NULL : variant > 0) {
                continue;
            }
            struct device *device = NULL;
            cr_assert_eq(device_tables[d]->open(3, &device), STATUS_OK);
            if (is_cpu) {
                ((struct cpu_device *)device)->kernels = kernels;
            }
            run(device, is_cpu ? kernels->name : device_tables[d]->name, context);
            device->ops->close(device);
        }
    }
}

/* --- reductions over edges --- */

#define POISONED 2 /* a source whose row has a NaN */

/* Row 3 is a hub, which is cut into pieces; rows of 0 to 9 edges, and of 40. */
static int64_t degree(int64_t row, int64_t n_row)
{
    return n_row == 12 && row == 3 ? 70000 : row == 5 ? 40 : row % 10;
}

struct graph {
    struct device_block block;
    uint32_t *node;
};

static struct graph graph_open(bool has_hub)
{
    const int64_t n_row = has_hub ? 12 : 150, n_col = has_hub ? 75000 : 150;
    struct graph g = {device_graph(n_row, n_col, degree), device_scratch((size_t)n_col * sizeof *g.node)};
    for (uint32_t i = 0; i < n_col; i++) {
        g.node[i] = i;
    }
    uint32_t *cols = (uint32_t *)(uintptr_t)g.block.cols;
    for (int64_t r = 1; r < n_row; r += 4) { /* at the row's first edge, or in its middle */
        int64_t n = g.block.indptr[r + 1] - g.block.indptr[r];
        if (n > 0) {
            cols[g.block.indptr[r] + r % 3 * n / 3] = POISONED;
        }
    }
    return g;
}

static void graph_close(struct graph *g)
{
    device_graph_free(&g->block);
    free(g->node);
}

static bool is_poisoned(const struct device_block *block, int64_t row)
{
    bool any = false;
    for (int64_t e = block->indptr[row]; e < block->indptr[row + 1]; e++) {
        any = any || block->cols[e] == POISONED;
    }
    return any;
}

/* of: NaN in rows with an edge from what is poisoned, and `also` one more; numbers in all others */
static void rows_check(const struct device_block *block, int64_t also, int64_t width, const float *of,
                       const char *what, const char *name)
{
    for (int64_t i = 0; i < block->n_row * width; i++) {
        int64_t row = i / width;
        bool wanted = is_poisoned(block, row) || row == also;
        cr_assert_eq(isnan(of[i]), wanted, "%s, %s: column %ld of row %ld is %g", what, name, (long)(i % width),
                     (long)row, (double)of[i]);
    }
}

struct attention_case {
    enum device_score_kind score;
    int64_t n_head, n_column;
    bool has_hub, with_self;
};

/* The key of one source, and the query of row 4, are NaN; all values are numbers. */
static void attention_run(struct device *device, const char *name, const void *context)
{
    const struct attention_case *c = context;
    struct graph g = graph_open(c->has_hub);
    struct device_attention how = {.score = c->score,
                                   .n_head = c->n_head,
                                   .n_column = c->n_column,
                                   .slope = 0.2F,
                                   .scale = 0.3F,
                                   .row_node = g.node,
                                   .col_node = g.node};
    const int64_t heads = g.block.n_row * c->n_head, wide = heads * c->n_column,
                  far = g.block.n_col * c->n_head * c->n_column;
    bool dot = c->score == DEVICE_SCORE_DOT, has_key = c->score != DEVICE_SCORE_MLP;
    const int64_t n_key = dot ? c->n_head * c->n_column : c->n_head,
                  n_query = c->score == DEVICE_SCORE_ADD ? c->n_head : c->n_head * c->n_column;
    float *value = device_random((size_t)far, 1), *key = device_random((size_t)far, 2),
          *query = device_random((size_t)wide, 3), *att = device_random((size_t)(c->n_head * c->n_column), 4),
          *out = device_scratch((size_t)wide * sizeof *out),
          *positive = device_scratch((size_t)wide * sizeof *positive),
          *weight = device_scratch((size_t)heads * sizeof *weight),
          *softmax = device_scratch((size_t)(2 * heads) * sizeof *softmax);
    for (int64_t i = 0; i < n_key && has_key; i++) {
        key[POISONED * n_key + i] = NAN;
    }
    for (int64_t i = 0; i < n_query; i++) {
        query[4 * n_query + i] = NAN;
    }
    how.att = att;
    uint32_t *cols = (uint32_t *)(uintptr_t)g.block.cols;
    for (int64_t e = 0; e < g.block.n_edge && !has_key; e++) {
        cols[e] += cols[e] == POISONED;
    }
    cr_assert_eq(device->ops->block_open(device, &g.block), STATUS_OK);
    const struct device_attention_source source = {value, key};
    const struct device_attention_target target = {query, softmax, NULL};
    const struct device_attention_state state = {softmax, positive, weight};
    const struct device_attention_rows rows = {&how,   &g.block, true,   c->with_self, source,
                                               source, target,   target, true};
    device->ops->attention_forward(device, &rows, &state, out);
    device->ops->attention_finish(device, g.block.n_row, &how, &state, out);
    cr_assert_eq(device_sync(device), STATUS_OK);
    device->ops->block_close(device, &g.block);
    for (int64_t h = 0; h < c->n_head * c->n_column && c->with_self && has_key; h++) {
        out[POISONED * c->n_head * c->n_column + h] = isnan(out[POISONED * c->n_head * c->n_column + h]) ? 0.0F : NAN;
    }
    rows_check(&g.block, 4, c->n_head * c->n_column, out, "attention", name);
    float *all[] = {value, key, query, att, out, positive, weight, softmax};
    for (int i = 0; i < 8; i++) {
        free(all[i]);
    }
    graph_close(&g);
}

Test(nan, a_score_that_is_not_a_number_makes_the_head_s_row_one)
{
    static const int64_t shapes[][2] = {{1, 5}, {8, 8}, {2, 40}, {4, 64}};
    for (int score = DEVICE_SCORE_ADD; score <= DEVICE_SCORE_COSINE; score++) {
        for (size_t i = 0; i < 8; i += SANITIZED ? 3 : 1) {
            struct attention_case c = {(enum device_score_kind)score, shapes[i % 4][0], shapes[i % 4][1],
                                       i >= 4 && i % 4 != 3, i < 4 && i % 2 == 1};
            each_device(attention_run, &c);
        }
    }
}

enum { COLUMNS = 5 };

/* All reductions of a row's first columns, a softmax with its last column as score. */
static void tile_run(struct device *device, const char *name, const void *context)
{
    struct graph g = graph_open(*(const bool *)context);
    const struct tile_operand columns = {.kind = TILE_ROW, .which = TILE_ROWS_IN_0, .column = 1},
                              score = {.kind = TILE_ROW, .which = TILE_ROWS_IN_0, .at = COLUMNS, .column = 1};
    struct tile_result results[] = {
        {.reduction = TILE_REDUCTION_MAX, .from = score, .n = 1},
        {.reduction = TILE_REDUCTION_MIN, .at = 1, .saved = 1, .from = score, .n = 1},
        {.reduction = TILE_REDUCTION_LOGSUMEXP, .at = 2, .saved = 2, .from = score, .n = 1},
        {.reduction = TILE_REDUCTION_SOFTMAX,
         .at = 3,
         .saved = 3,
         .from = columns,
         .n = COLUMNS,
         .with = score,
         .n_with = 1},
    };
    struct tile tile = {.n_result = 4, .result = results, .saved = 5};
    tile.width[TILE_ROWS_IN_0] = COLUMNS + 1;
    tile.target[TILE_TARGET_OUT] = 3 + COLUMNS;
    cr_assert(tile_check(&tile));
    float *x = device_random((size_t)(g.block.n_col * (COLUMNS + 1)), 5),
          *out = device_scratch((size_t)(g.block.n_row * (3 + COLUMNS)) * sizeof *out),
          *saved = device_scratch((size_t)(g.block.n_row * tile.saved) * sizeof *saved);
    x[POISONED * (COLUMNS + 1) + COLUMNS] = NAN;
    struct device_tile_edges how = {.of = {.tile = &tile, .row_node = g.node},
                                    .block = &g.block,
                                    .begin = true,
                                    .col_node = g.node,
                                    .n_finish = g.block.n_row,
                                    .factor = 1.0F,
                                    .saved = saved};
    how.of.rows[TILE_ROWS_IN_0] = x;
    how.of.to[TILE_TARGET_OUT] = out;
    how.of.scratch = device_scratch(device_tile_bytes(device->ops, &tile, true));
    cr_assert_eq(device->ops->block_open(device, &g.block), STATUS_OK);
    device->ops->tile_edges(device, &how);
    cr_assert_eq(device_sync(device), STATUS_OK);
    rows_check(&g.block, -1, 3 + COLUMNS, out, "tile", name);
    uint32_t *arg = device_scratch((size_t)(g.block.n_row * (COLUMNS + 1)) * sizeof *arg);
    float *most = device_scratch((size_t)(g.block.n_row * (COLUMNS + 1)) * sizeof *most);
    for (int64_t i = 0; i < COLUMNS; i++) {
        x[POISONED * (COLUMNS + 1) + i] = NAN;
    }
    device->ops->aggregate_max(device, &g.block, &(struct device_max){.begin = true, .n_finish = g.block.n_row},
                               COLUMNS + 1, x, most, arg);
    cr_assert_eq(device_sync(device), STATUS_OK);
    rows_check(&g.block, -1, COLUMNS + 1, most, "max", name);
    device->ops->block_close(device, &g.block);
    void *all[] = {x, out, saved, how.of.scratch, arg, most};
    for (int i = 0; i < 6; i++) {
        free(all[i]);
    }
    graph_close(&g);
}

Test(nan, maxima_minima_and_softmaxes_of_tile_programs_do_not_hide_it)
{
    each_device(tile_run, &(bool){false});
    each_device(tile_run, &(bool){true});
}

/* --- maps --- */

/* f(NaN), f(NaN, 1) and f(1, NaN) of each operation, 20 columns side by side; f_BACK: of the gradient. */
static void maps_run(struct device *device, const char *name, const void *context)
{
    enum { N = 20 };
    (void)context;
    for (int op = TILE_OP_COPY; op <= TILE_OP_POWER_BACK; op++) {
        const int n_operand = tile_op_n_operand((enum tile_op)op);
        for (int turn = 0; turn < (op >= TILE_OP_RELU_BACK ? 1 : n_operand); turn++) {
            float x[N], out[N];
            for (int i = 0; i < N; i++) {
                x[i] = NAN;
            }
            const struct tile_operand row = {.kind = TILE_ROW, .column = 1}, one = {.kind = TILE_NUMBER, .number = 1};
            struct tile_instruction i = {.op = (enum tile_op)op,
                                         .n_head = 1,
                                         .n_column = N,
                                         .n_inner = 1,
                                         .a = turn == 0 ? row : one,
                                         .b = turn == 0 ? one : row,
                                         .number = {op == TILE_OP_CLAMP_BACK ? -2.0F : 0.5F, 2.0F}};
            struct tile_result r = {.from = {.kind = TILE_REGISTER, .column = 1}, .n = N};
            struct tile tile = {.n_instruction = 1, .n_result = 1, .instruction = &i, .result = &r, .n_float = N};
            tile.width[TILE_ROWS_IN_0] = tile.target[TILE_TARGET_OUT] = N;
            struct device_tile how = {.tile = &tile, .scratch = device_scratch(1024)};
            how.rows[TILE_ROWS_IN_0] = x;
            how.to[TILE_TARGET_OUT] = out;
            device->ops->tile_rows(device, 1, &how);
            cr_assert_eq(device_sync(device), STATUS_OK);
            for (int c = 0; c < N; c++) {
                cr_assert(isnan(out[c]), "%s: operation %d of NaN is %g", name, op, (double)out[c]);
            }
            free(how.scratch);
        }
    }
    float x[] = {1.0F, NAN, 1.0F}, y[] = {NAN, 1.0F, 1.0F}, out[3], norm[1];
    device->ops->max_forward(device, 3, x, y, out);
    device->ops->inverse_norm(device, 1, 3, x, norm);
    cr_assert_eq(device_sync(device), STATUS_OK);
    cr_assert(isnan(out[0]) && isnan(out[1]) && out[2] == 1.0F, "%s: a maximum hides it", name);
    cr_assert(isnan(norm[0]), "%s: a norm is %g", name, (double)norm[0]);
}

Test(nan, operations_element_by_element_keep_it)
{
    each_device(maps_run, NULL);
}

/* f_BACK(g, x) where f has a border at x, as docs/programs.md has it. */
static void borders_run(struct device *device, const char *name, const void *context)
{
    static const struct {
        enum tile_op op;
        float number[2], g, x, expected;
    } cases[] = {
        {TILE_OP_RELU_BACK, {0}, 3.0F, 0.0F, 0.0F},
        {TILE_OP_LEAKY_RELU_BACK, {0.5F}, 3.0F, 0.0F, 1.5F},
        {TILE_OP_ELU_BACK, {0}, 3.0F, 0.0F, 3.0F},
        {TILE_OP_ABS_BACK, {0}, 3.0F, 0.0F, 0.0F},
        {TILE_OP_CLAMP_BACK, {-1.0F, 1.0F}, 3.0F, 1.0F, 3.0F},
        {TILE_OP_CLAMP_BACK, {-1.0F, 1.0F}, 3.0F, -1.0F, 3.0F},
        {TILE_OP_SQRT_BACK, {0}, 3.0F, 0.0F, INFINITY},
        {TILE_OP_SQRT_BACK, {0}, 0.0F, 0.0F, 0.0F},
        {TILE_OP_SQRT_BACK, {1.0F}, 3.0F, 0.0F, 0.0F}, /* of norm(x) */
        {TILE_OP_POWER_BACK, {0.5F}, -3.0F, 0.0F, -INFINITY},
        {TILE_OP_POWER_BACK, {0.5F}, 0.0F, 0.0F, 0.0F},
        {TILE_OP_POWER_BACK, {0.0F}, 3.0F, 0.0F, 0.0F},
        {TILE_OP_POWER_BACK, {1.0F}, 3.0F, 0.0F, 3.0F},
        {TILE_OP_POWER_BACK, {2.0F}, 3.0F, 0.0F, 0.0F},
        {TILE_OP_DIVIDE, {0}, 3.0F, 0.0F, INFINITY}, /* of log(x) */
        {TILE_OP_LESS, {0}, 2.0F, 2.0F, 0.5F},       /* of equals */
    };
    (void)context;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        float out;
        struct tile_instruction i = {.op = cases[k].op,
                                     .n_head = 1,
                                     .n_column = 1,
                                     .n_inner = 1,
                                     .a = {.kind = TILE_NUMBER, .number = cases[k].g},
                                     .b = {.kind = TILE_NUMBER, .number = cases[k].x},
                                     .number = {cases[k].number[0], cases[k].number[1]}};
        struct tile_result r = {.from = {.kind = TILE_REGISTER, .column = 1}, .n = 1};
        struct tile tile = {.n_instruction = 1, .n_result = 1, .instruction = &i, .result = &r, .n_float = 1};
        tile.target[TILE_TARGET_OUT] = 1;
        struct device_tile how = {.tile = &tile, .scratch = device_scratch(1024)};
        how.to[TILE_TARGET_OUT] = &out;
        device->ops->tile_rows(device, 1, &how);
        cr_assert_eq(device_sync(device), STATUS_OK);
        cr_assert_eq(out, cases[k].expected, "%s: case %zu gives %g", name, k, (double)out);
        free(how.scratch);
    }
}

Test(nan, slopes_at_borders_are_those_that_programs_are_promised)
{
    each_device(borders_run, NULL);
}

static void losses_run(struct device *device, const char *name, const void *context)
{
    (void)context;
    const float logits[] = {0.5F, NAN}, targets[] = {1.0F, 0.0F};
    const int32_t label = 0;
    const uint8_t split = 1;
    double scratch[512];
    for (int loss = DEVICE_LOSS_CROSS_ENTROPY; loss <= DEVICE_LOSS_HUBER; loss++) {
        const struct device_scoring how = {.loss = (enum device_loss)loss,
                                           .n = 1,
                                           .c = 2,
                                           .logits = logits,
                                           .labels = loss == DEVICE_LOSS_CROSS_ENTROPY ? (const void *)&label
                                                                                       : targets,
                                           .delta = 1.0,
                                           .row_split = &split,
                                           .split = 1,
                                           .scratch = scratch};
        struct device_score score;
        device->ops->loss(device, &how, &score);
        cr_assert_eq(device_sync(device), STATUS_OK);
        cr_assert(isnan(score.loss), "%s: loss %d is %g", name, loss, score.loss);
    }
    for (int i = 0; i < 6; i++) {
        float scores[] = {1.0F, 3.0F, 2.0F};
        scores[i / 3] = NAN;
        const struct device_pair_losses how = {.loss = (enum device_pair_loss)(i % 3),
                                               .n_group = 1,
                                               .n_negative = 2,
                                               .has_edge = true,
                                               .weight = 1.0,
                                               .share = 1.0,
                                               .margin = 1.0F,
                                               .score = scores,
                                               .scratch = scratch};
        double sum = 0.0;
        device->ops->pair_losses(device, &how, &sum);
        cr_assert_eq(device_sync(device), STATUS_OK);
        cr_assert(isnan(sum), "%s: loss %d of pairs is %g", name, i % 3, sum);
    }
}

Test(nan, losses_show_it)
{
    each_device(losses_run, NULL);
}

/* --- steps --- */

struct step_case {
    enum device_optimizer optimizer;
    double momentum;
    float *grad, *w; /* both with numbers alone before */
    int64_t n, at;
};

static uint32_t step_found(struct device *device, const struct step_case *c, float weight, float gradient,
                           uint32_t before)
{
    float *m = device_scratch((size_t)c->n * sizeof *m), *v = device_scratch((size_t)c->n * sizeof *v),
          *w = device_scratch((size_t)c->n * sizeof *w), kept = c->grad[c->at];
    const struct device_now now = {.lr = 0.01, .correction_1 = 0.1, .correction_2 = 0.001};
    uint32_t found = before;
    const struct device_step how = {.optimizer = c->optimizer,
                                    .beta1 = 0.9,
                                    .beta2 = 0.999,
                                    .epsilon = 1e-8,
                                    .momentum = c->momentum,
                                    .now = &now,
                                    .not_finite = &found,
                                    .weight = 3,
                                    .gradient = 9};
    memcpy(w, c->w, (size_t)c->n * sizeof *w);
    w[c->at] = weight;
    c->grad[c->at] = gradient;
    device->ops->step(device, &how, c->n, c->grad, w, m, v);
    cr_assert_eq(device_sync(device), STATUS_OK);
    c->grad[c->at] = kept;
    free(m);
    free(v);
    free(w);
    return found;
}

static void step_run(struct device *device, const char *name, const void *context)
{
    const struct step_case *c = context;
    cr_expect_eq(step_found(device, c, 1.0F, 1.0F, 0), 0, "%s: all are numbers", name);
    cr_expect_eq(step_found(device, c, 1.0F, 1.0F, 5), 5, "%s: of a parameter before", name);
    cr_expect_eq(step_found(device, c, NAN, 1.0F, 0), 3, "%s", name);
    cr_expect_eq(step_found(device, c, INFINITY, 1.0F, 2), 3, "%s", name);
    cr_expect_eq(step_found(device, c, INFINITY, 1.0F, 5), 5, "%s", name);
    cr_expect_eq(step_found(device, c, 1.0F, NAN, 3), 9, "%s", name);
    cr_expect_eq(step_found(device, c, 1.0F, -INFINITY, 0), 9, "%s", name);
}

Test(nan, a_step_says_whether_a_weight_or_its_gradient_is_not_finite)
{
    static const int64_t places[][2] = {{1, 0}, {40, 39}, {60000, 59999}, {60000, 31}};
    for (size_t i = 0; i < 12; i++) {
        struct step_case c = {
            (enum device_optimizer)(i % 3), i % 2 == 0 ? 0.9 : 0.0, NULL, NULL, places[i / 3][0], places[i / 3][1]};
        c.grad = device_random((size_t)c.n, 6);
        c.w = device_random((size_t)c.n, 7);
        each_device(step_run, &c);
        free(c.grad);
        free(c.w);
    }
}
