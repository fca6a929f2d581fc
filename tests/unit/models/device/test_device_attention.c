#include "tests/support/device/attention_case.h"
#include "tests/support/device/device_case.h"
#include "tests/support/sanitized.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const tensor_names[] = {"grad_value", "grad_key", "grad_query", "grad_att", "grad_edge", "out"};
static const char *const score_names[] = {"add", "mlp", "dot", "cosine"};

static const struct {
    int64_t n_head, n_column;
} shapes[] = {{1, 1}, {1, 7}, {2, 3}, {4, 64}, {8, 8}, {16, 8}, {2, 16}, {3, 33}, {19, 2}, {1, 300}};

static size_t result_size(const struct attention_case *c)
{
    int64_t n = 0;
    for (int t = 0; t < ATTENTION_TENSOR_N; t++) {
        n += attention_size(c, (enum attention_tensor)t);
    }
    return (size_t)n;
}

/* ‖got - truth‖ and ‖truth‖ */
static double distance(int64_t n, const float *got, const double *truth, double *norm)
{
    double error = 0.0, sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        error += (got[i] - truth[i]) * (got[i] - truth[i]);
        sum += truth[i] * truth[i];
    }
    *norm = sqrt(sum);
    return sqrt(error);
}

/* How far results may be off; gradients of scores' inputs, sums that may nearly cancel, by so much of the values'
 * gradient. */
struct allowed {
    double reference, cpu, cancelled;
};

static const struct allowed usual = {TOLERANCE_ATTENTION_REFERENCE, TOLERANCE_ARRAY, 0.0};
static const struct allowed large = {TOLERANCE_ATTENTION_LARGE, TOLERANCE_ATTENTION_LARGE, TOLERANCE_ATTENTION_LARGE};

static void assert_near(const struct attention_case *c, const char *device_name, const float *got,
                        const struct attention_truth *truth, double tolerance, double cancelled)
{
    double norm_value = 0.0;
    for (int t = 0; t < ATTENTION_TENSOR_N; t++) {
        int64_t n = attention_size(c, (enum attention_tensor)t);
        double norm, error = distance(n, got, truth->grad[t], &norm);
        norm_value = t == ATTENTION_VALUE ? norm : norm_value;
        double share = t == ATTENTION_ATT || t == ATTENTION_EDGE ? fmax(cancelled, TOLERANCE_CANCELLED)
                       : t == ATTENTION_OUT                      ? 0.0
                                                                 : cancelled;
        bool near = error <= fmax(tolerance * norm, share * norm_value);
        cr_assert(near, "%s on %s: %d heads of %d columns, %d blocks, %s is off by %.2g of %.2g",
                  score_names[c->how.score], device_name, (int)c->how.n_head, (int)c->how.n_column, c->n_block,
                  tensor_names[t], error, norm);
        got += n;
    }
}

/* All devices against the truth. */
static void check_case(const struct attention_case *c, const struct allowed *allowed)
{
    struct attention_truth truth;
    attention_truth_init(&truth, c);
    attention_truth_forward(&truth, c);
    attention_truth_backward(&truth, c);
    float *got = device_scratch(result_size(c) * sizeof *got);
    for (int d = 0; d < DEVICE_TABLE_N; d++) {
        struct device *device = NULL;
        cr_assert_eq(device_tables[d]->open(2, &device), STATUS_OK);
        attention_run(device, c, got);
        device_tables[d]->close(device);
        assert_near(c, device_tables[d]->name, got, &truth, d == 0 ? allowed->reference : allowed->cpu,
                    allowed->cancelled);
    }
    free(got);
    attention_truth_release(&truth);
}

/* What widens keys and queries (MLP: att) to scores of this standard deviation. */
static double spread_of(enum device_score_kind score, int64_t n_column, double deviation)
{
    switch (score) {
    case DEVICE_SCORE_ADD:
        return deviation / 0.8;
    case DEVICE_SCORE_MLP:
        return deviation / (0.3 * sqrt((double)n_column));
    case DEVICE_SCORE_COSINE:
        return sqrt(5.2 * deviation / sqrt((double)n_column));
    default:
        return sqrt(3.0 * deviation);
    }
}

/* An emulated GPU takes its time: each shape there over one block or over three. */
static bool emulation_skips(size_t shape, int n_block)
{
    return DEVICE_EMULATED && (shape % 2 == 1) != (n_block == 3);
}

/* All shapes of one kind of score. */
static void check_score(enum device_score_kind score, bool with_self, double p, double deviation,
                        const struct allowed *allowed)
{
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (int n_block = 1; n_block <= 3; n_block += 2) {
            if (emulation_skips(s, n_block)) {
                continue;
            }
            struct attention_case c;
            double spread = deviation > 0.0 ? spread_of(score, shapes[s].n_column, deviation) : 1.0;
            attention_case_init(&c, score, 50, shapes[s].n_head, shapes[s].n_column, spread);
            c.n_block = n_block;
            c.with_self = with_self;
            c.how.p = p;
            check_case(&c, allowed);
            if (deviation == 0.0) {
                device_check_close("attention", attention_run, &c, result_size(&c), allowed->cpu);
            }
            attention_case_release(&c);
        }
    }
}

/* Features of edges: of few columns and many, over blocks whose edges' rows lie anywhere in the table. */
static void check_edges(enum device_score_kind score, double p)
{
    static const int64_t n_edge_columns[] = {1, 5, 16, 37};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (int n_block = 1; n_block <= 3; n_block += 2) {
            if (emulation_skips(s, n_block)) {
                continue;
            }
            struct attention_case c;
            int64_t n_edge_column =
                n_edge_columns[(s + (size_t)n_block) % (sizeof n_edge_columns / sizeof *n_edge_columns)];
            n_edge_column = shapes[s].n_column > 64 ? 5 : DEVICE_EMULATED && n_edge_column > 5 ? 7 : n_edge_column;
            attention_case_init_edges(&c, score, 50, shapes[s].n_head, shapes[s].n_column, n_edge_column, 1.0);
            c.n_block = n_block;
            c.how.p = p;
            check_case(&c, &usual);
            device_check_close("attention of edges with features", attention_run, &c, result_size(&c), usual.cpu);
            attention_case_release(&c);
        }
    }
}

#define EDGES_TESTS(name, SCORE)                                                                                     \
    Test(attention, name##_scores_read_features_of_edges)                                                            \
    {                                                                                                                \
        check_edges(SCORE, 0.0);                                                                                     \
    }                                                                                                                \
    Test(attention, name##_scores_drop_the_same_coefficients_where_edges_have_features)                              \
    {                                                                                                                \
        check_edges(SCORE, 0.6);                                                                                     \
    }
EDGES_TESTS(add, DEVICE_SCORE_ADD)
EDGES_TESTS(mlp, DEVICE_SCORE_MLP)
EDGES_TESTS(dot, DEVICE_SCORE_DOT)

#define SCORE_TESTS(name, SCORE)                                                                                     \
    Test(attention, name##_scores_agree_with_the_direct_computation_for_every_shape)                                 \
    {                                                                                                                \
        check_score(SCORE, false, 0.0, 0.0, &usual);                                                                 \
    }                                                                                                                \
    Test(attention, name##_scores_take_an_edge_from_each_row_to_itself)                                              \
    {                                                                                                                \
        check_score(SCORE, true, 0.0, 0.0, &usual);                                                                  \
    }                                                                                                                \
    Test(attention, name##_scores_drop_the_same_coefficients_forward_and_backward)                                   \
    {                                                                                                                \
        check_score(SCORE, true, 0.6, 0.0, &usual);                                                                  \
    }
SCORE_TESTS(add, DEVICE_SCORE_ADD)
SCORE_TESTS(mlp, DEVICE_SCORE_MLP)
SCORE_TESTS(dot, DEVICE_SCORE_DOT)
SCORE_TESTS(cosine, DEVICE_SCORE_COSINE)

/* Scores of standard deviation 60: α is 0 or 1 nearly everywhere and e^score alone would overflow. */
Test(attention, scores_of_any_size_neither_overflow_nor_lose_the_sum)
{
    check_score(DEVICE_SCORE_ADD, true, 0.0, 60.0, &large);
    check_score(DEVICE_SCORE_MLP, true, 0.0, 60.0, &large);
    check_score(DEVICE_SCORE_DOT, true, 0.0, 60.0, &large);
    check_score(DEVICE_SCORE_COSINE, true, 0.0, 60.0, &large);
}

Test(attention, evaluation_gives_the_bits_of_training_without_dropout)
{
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct attention_case c;
        struct device *device = NULL;
        attention_case_init(&c, DEVICE_SCORE_ADD, 50, shapes[s].n_head, shapes[s].n_column, 1.0);
        c.with_self = true;
        c.n_block = 3;
        size_t n_out = (size_t)attention_size(&c, ATTENTION_OUT), n = result_size(&c);
        float *trained = device_scratch(n * sizeof *trained), *evaluated = device_scratch(n * sizeof *evaluated);
        cr_assert_eq(device_cpu.open(2, &device), STATUS_OK);
        attention_run(device, &c, trained);
        c.forward_only = true;
        attention_run(device, &c, evaluated);
        device_cpu.close(device);
        cr_assert(memcmp(trained + n - n_out, evaluated + n - n_out, n_out * sizeof *trained) == 0);
        free(trained);
        free(evaluated);
        attention_case_release(&c);
    }
}

/* Every derivative of the direct computation, which the devices are held against. */
static void check_differences(enum device_score_kind score, int64_t n_edge_column, double p)
{
    struct attention_case c;
    struct attention_truth truth, moved;
    attention_case_init_edges(&c, score, 8, 2, 3, n_edge_column, 1.0);
    c.with_self = n_edge_column == 0;
    c.how.p = p;
    attention_truth_init(&truth, &c);
    attention_truth_init(&moved, &c);
    attention_truth_backward(&truth, &c);
    for (int t = ATTENTION_VALUE; t <= ATTENTION_EDGE; t++) {
        for (int64_t i = 0; i < attention_size(&c, (enum attention_tensor)t); i++) {
            double x = moved.input[t][i];
            moved.input[t][i] = x + DIFFERENCE_STEP;
            double above = attention_truth_forward(&moved, &c);
            moved.input[t][i] = x - DIFFERENCE_STEP;
            double below = attention_truth_forward(&moved, &c);
            moved.input[t][i] = x;
            double slope = (above - below) / (2.0 * DIFFERENCE_STEP);
            cr_assert(fabs(slope - truth.grad[t][i]) <= TOLERANCE_ARRAY, "%s: %s[%d] is %g, differences say %g",
                      score_names[score], tensor_names[t], (int)i, truth.grad[t][i], slope);
        }
    }
    attention_truth_release(&truth);
    attention_truth_release(&moved);
    attention_case_release(&c);
}

Test(attention, the_direct_computation_agrees_with_central_differences)
{
    for (int score = 0; score < 4; score++) {
        int64_t n_edge_column = score == DEVICE_SCORE_COSINE ? 0 : 4;
        check_differences((enum device_score_kind)score, 0, 0.0);
        check_differences((enum device_score_kind)score, 0, 0.4);
        check_differences((enum device_score_kind)score, n_edge_column, 0.0);
        check_differences((enum device_score_kind)score, n_edge_column, 0.4);
    }
}

Test(attention, coefficients_are_dropped_at_the_rate_asked_for)
{
    struct attention_case c;
    attention_case_init(&c, DEVICE_SCORE_ADD, 120, 6, 1, 0.0); /* equal scores: out is the mean of what is kept */
    c.how.p = 0.3;
    int64_t n_out = attention_size(&c, ATTENTION_OUT), n_row = 0;
    for (int64_t i = 0; i < n_out; i++) {
        c.input[ATTENTION_VALUE][i] = (float)(1.0 - c.how.p);
        n_row += i / 6 % 7 != 3;
    }
    float *got = device_scratch(result_size(&c) * sizeof *got), *out = got + result_size(&c) - n_out;
    for (int d = 0; d < DEVICE_TABLE_N; d++) {
        struct device *device = NULL;
        cr_assert_eq(device_tables[d]->open(2, &device), STATUS_OK);
        attention_run(device, &c, got);
        device_tables[d]->close(device);
        double sum = 0.0;
        for (int64_t i = 0; i < n_out; i++) {
            sum += out[i];
        }
        cr_assert(fabs(sum / (double)n_row - 0.7) < 0.01, "%s keeps %g", device_tables[d]->name, sum / (double)n_row);
    }
    free(got);
    attention_case_release(&c);
}

/* --- rows of many edges: each operation alone, from random state --- */

struct long_rows {
    struct device_block block; /* n_row rows over n_col columns, read as in-edges and as out-edges */
    struct device_attention how;
    const float *row_wide[3], *row_narrow, *col_wide[3], *col_narrow; /* narrow: n × n_head × 2 */
};

static int64_t degree_hub(int64_t row, int64_t n_row)
{
    return row == 1 ? 140000 : row == n_row - 1 ? 66000 : row * 9 % 100;
}

/* Numbers of what how->edge is. */
static int64_t edge_size(const struct device_attention *how)
{
    int64_t n = how->n_head * how->n_edge_column;
    return how->score == DEVICE_SCORE_ADD ? n : how->score == DEVICE_SCORE_MLP ? n * how->n_column : 0;
}

/* Give the block's edges rows of a table of n columns; returns the table. */
static float *features_open(int64_t n, struct device_block *block)
{
    enum { N_TABLE = 997 };
    uint32_t *rows = device_scratch((size_t)block->n_edge * sizeof *rows);
    float *table = device_random((size_t)(N_TABLE * n), 11);
    for (int64_t e = 0; e < block->n_edge; e++) {
        rows[e] = (uint32_t)(e * 41 % N_TABLE);
    }
    block->edge_rows = n > 0 ? rows : NULL;
    block->edge_table = n > 0 ? table : NULL;
    if (n == 0) {
        free(rows);
    }
    return table;
}

/* out: forward's sums and state · gradients of queries and att · gradients of values and keys */
static void run_long_rows(struct device *device, const void *context, float *out)
{
    const struct long_rows *a = context;
    int64_t heads = a->block.n_row * a->how.n_head, wide = heads * device_attention_columns(&a->how);
    bool add = a->how.score == DEVICE_SCORE_ADD, mlp = a->how.score == DEVICE_SCORE_MLP;
    bool narrow = add || a->how.score == DEVICE_SCORE_COSINE;
    struct device_attention_source payload = {a->col_wide[0], narrow ? a->col_narrow : mlp ? NULL : a->col_wide[1]};
    struct device_attention_source own = {a->row_wide[0], narrow ? a->row_narrow : mlp ? NULL : a->row_wide[1]};
    struct device_attention_target far = {add ? a->col_narrow : a->col_wide[1], a->col_narrow, a->col_wide[2]};
    struct device_attention_target near = {add ? a->row_narrow : a->row_wide[1], a->row_narrow, a->row_wide[2]};
    struct device_attention_state state = {out + wide, NULL, NULL};
    if (add && a->how.n_edge_column == 0) {
        state.positive = out + wide + 2 * heads;
        state.positive_weight = state.positive + wide;
    }
    for (int64_t i = 0; i < 2 * heads; i++) {
        state.softmax[i] = i % 2 == 0 ? 0.5f : 2.0f;
    }
    struct device_block block = a->block;
    cr_assert_eq(device->ops->block_open(device, &block), STATUS_OK);
    struct device_attention_rows rows = {.how = &a->how, .block = &block, .source = payload, .target = near};
    device->ops->attention_forward(device, &rows, &state, out);
    out += 2 * wide + 3 * heads;
    size_t n_bytes = device_attention_bytes(device->ops, block.n_row, &a->how);
    void *scratch = device_scratch(n_bytes);
    int64_t n_att = a->how.n_head * a->how.n_column, n_edge = edge_size(&a->how);
    if (!add || n_edge > 0) {
        device->ops->attention_backward_query(device, &rows, scratch, out, mlp ? out + wide : NULL,
                                              n_edge > 0 ? out + wide + n_att : NULL);
    }
    out += wide + n_att + n_edge;
    rows.source = own;
    rows.target = far;
    device->ops->attention_backward_source(device, &rows, out, mlp ? NULL : out + wide);
    device->ops->block_close(device, &block);
    free(scratch);
}

static void check_long_edges(const struct device_block *block, enum device_score_kind score, int64_t n_head,
                             int64_t n_column, int64_t n_edge_column, double tolerance)
{
    size_t n = (size_t)(block->n_row * n_head), n_col = (size_t)(block->n_col * n_head);
    size_t f = (size_t)(n_column + (score == DEVICE_SCORE_DOT ? n_edge_column : 0));
    struct long_rows a = {.block = *block};
    size_t n_node = n > n_col ? n : n_col;
    uint32_t *node = device_scratch(n_node * sizeof *node);
    for (uint32_t i = 0; i < n_node; i++) {
        node[i] = i * 3;
    }
    a.how = (struct device_attention){.score = score,
                                      .n_head = n_head,
                                      .n_column = n_column,
                                      .n_edge_column = n_edge_column,
                                      .slope = 0.2f,
                                      .scale = 0.3f,
                                      .p = 0.2,
                                      .key.stream = RANDOM_STREAM_EDGE,
                                      .row_node = node,
                                      .col_node = node};
    float *att = device_random((size_t)(n_head * n_column), 1);
    float *edge = device_random((size_t)edge_size(&a.how), 10), *table = features_open(n_edge_column, &a.block);
    a.how.att = att;
    a.how.edge = edge;
    for (uint32_t i = 0; i < 3; i++) {
        a.row_wide[i] = device_random(n * f, 2 + i);
        a.col_wide[i] = device_random(n_col * f, 5 + i);
    }
    a.row_narrow = device_random(2 * n, 8);
    a.col_narrow = device_random(2 * n_col, 9);
    size_t n_result = 5 * n * f + 3 * n + (size_t)(n_head * n_column + edge_size(&a.how));
    device_check_close("long rows", run_long_rows, &a, n_result, tolerance);
    for (uint32_t i = 0; i < 3; i++) {
        free((void *)a.row_wide[i]);
        free((void *)a.col_wide[i]);
    }
    free((void *)a.row_narrow);
    free((void *)a.col_narrow);
    free(edge);
    free(table);
    free((void *)a.block.edge_rows);
    free(att);
    free(node);
}

static void check_long_rows(const struct device_block *block, enum device_score_kind score, int64_t n_head,
                            int64_t n_column, double tolerance)
{
    check_long_edges(block, score, n_head, n_column, 0, tolerance);
}

Test(attention, a_row_of_140000_edges_agrees_with_the_reference)
{
    struct device_block block = device_graph(12, 150000, degree_hub);
    for (int score = 0; score < 4; score++) {
        check_long_rows(&block, (enum device_score_kind)score, 1, 3, TOLERANCE_LONG_SUM);
    }
    device_graph_free(&block);
}

/* Eight heads together; five, of which a piece has room for three at a time; and one that it has no room for. */
Test(attention, a_row_in_pieces_agrees_with_the_reference_however_many_heads_fit)
{
    enum { N_COL = 4001, LONG = DEVICE_EMULATED ? 20000 : 70000 };
    static uint32_t cols[LONG + 5];
    const int64_t indptr[] = {0, 5, LONG + 5};
    for (uint32_t e = 0; e < LONG + 5; e++) {
        cols[e] = e * 37 % N_COL; /* any order will do, and equal terms in a row would round alike */
    }
    const struct device_block block = {
        .n_row = 2, .n_col = N_COL, .n_edge = LONG + 5, .indptr = indptr, .cols = cols};
    const struct {
        enum device_score_kind score;
        int64_t n_head, n_column, n_edge_column;
    } ways[] = {
#ifdef CUDA_EMULATED /* a GPU takes such a row whole, however wide it is */
        {DEVICE_SCORE_ADD, 1, 3, 2},
        {DEVICE_SCORE_MLP, 1, 3, 2},
        {DEVICE_SCORE_DOT, 1, 3, 2},
#else
        {DEVICE_SCORE_ADD, 8, 8, 0},   {DEVICE_SCORE_ADD, 5, 128, 0}, {DEVICE_SCORE_ADD, 1, 512, 0},
        {DEVICE_SCORE_ADD, 5, 128, 2}, {DEVICE_SCORE_ADD, 1, 512, 2}, {DEVICE_SCORE_MLP, 5, 128, 2},
        {DEVICE_SCORE_MLP, 1, 512, 2}, {DEVICE_SCORE_DOT, 5, 128, 2}, {DEVICE_SCORE_DOT, 1, 512, 2},
#endif
    };
    const size_t n_way = sizeof ways / sizeof *ways;
    for (size_t w = 0; w < n_way; w++) {
        if (!ways_skip(w, n_way)) {
            check_long_edges(&block, ways[w].score, ways[w].n_head, ways[w].n_column, ways[w].n_edge_column,
                             TOLERANCE_LONG_SUM);
        }
    }
}

static int64_t degree_long(int64_t row, int64_t n_row)
{
    return row * 131 % n_row % 200;
}

Test(attention, rows_of_every_length_agree_with_the_reference_in_ranges_of_even_work)
{
    struct device_block block = device_graph(400, 300, degree_long), none = device_graph(0, 5, degree_mixed);
    for (int score = 0; score < 4; score++) {
        check_long_rows(&block, (enum device_score_kind)score, 4, 16, TOLERANCE_SUM);
        check_long_rows(&none, (enum device_score_kind)score, 4, 16, TOLERANCE_SUM);
        int64_t n_edge_column = score == DEVICE_SCORE_COSINE ? 0
                                : DEVICE_EMULATED            ? 2
                                                             : 20,
                n_head = DEVICE_EMULATED ? 1 : 4;
        check_long_edges(&block, (enum device_score_kind)score, n_head, 16, n_edge_column, TOLERANCE_SUM);
        check_long_edges(&none, (enum device_score_kind)score, n_head, 16, n_edge_column, TOLERANCE_SUM);
    }
    device_graph_free(&block);
    device_graph_free(&none);
}

/* --- products head by head and means over heads --- */

struct heads {
    int64_t n, n_head, n_column;
    bool add;
    const float *x, *w, *grad;
};

/* out: products · gradients of x, w · means · gradient of what is averaged */
static void run_heads(struct device *device, const void *context, float *out)
{
    const struct heads *a = context;
    int64_t wide = a->n_head * a->n_column;
    void *scratch = device_scratch(DEVICE_BYTES(device->ops, COLUMN_SUM, a->n, wide));
    device->ops->head_dot(device, a->n, a->n_head, a->n_column, a->x, a->w, out);
    out += a->n * a->n_head;
    device->ops->head_dot_backward_input(device, a->n, a->n_head, a->n_column, a->w, a->grad, a->add, out);
    out += a->n * wide;
    device->ops->column_sum(device,
                            &(struct device_column_sum){a->n, a->n_head * a->n_column, a->x, .n_head = a->n_head,
                                                        .factor = a->grad, .scratch = scratch},
                            out);
    out += wide;
    device->ops->head_mean(device, a->n, a->n_head, a->n_column, false, a->x, false, out);
    out += a->n * a->n_column;
    device->ops->head_mean(device, a->n, a->n_head, a->n_column, true, a->x, a->add, out);
    free(scratch);
}

Test(attention, two_heads_of_two_columns_have_these_products_and_means)
{
    const float x[] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f, 8.0f}, w[] = {1.0f, 10.0f, 100.0f, 1000.0f};
    const float grad[] = {1.0f, 2.0f, 3.0f, 4.0f};
    const float expected[] = {
        21.0f, 4300.0f, 65.0f,  8700.0f,                                /* products */
        8.0f,  17.0f,   207.0f, 2007.0f, 10.0f, 37.0f, 407.0f, 4007.0f, /* 7 + gradients of x */
        16.0f, 20.0f,   34.0f,  40.0f,                                  /* of w */
        2.0f,  3.0f,    6.0f,   7.0f,                                   /* means */
        7.5f,  8.0f,    7.5f,   8.0f,    8.5f,  9.0f,  8.5f,   9.0f}; /* 7 + gradients of x's first rows as means' */
    struct heads a = {.n = 2, .n_head = 2, .n_column = 2, .add = true, .x = x, .w = w, .grad = grad};
    for (int d = 0; d < DEVICE_TABLE_N; d++) {
        struct device *device = NULL;
        float out[28];
        for (int i = 0; i < 28; i++) {
            out[i] = 7.0f;
        }
        cr_assert_eq(device_tables[d]->open(1, &device), STATUS_OK);
        run_heads(device, &a, out);
        device_tables[d]->close(device);
        for (int i = 0; i < 28; i++) {
            cr_assert_eq(out[i], expected[i], "%s: element %d is %g", device_tables[d]->name, i, (double)out[i]);
        }
    }
}

/* Move the inputs to `offset` floats behind an aligned place; blocks: what is to be freed once they are not used any
 * more. */
static void inputs_place(struct attention_case *c, size_t offset, float *blocks[ATTENTION_TENSOR_N])
{
    for (int t = 0; t < ATTENTION_TENSOR_N; t++) {
        size_t n = (size_t)attention_size(c, (enum attention_tensor)t);
        blocks[t] = device_scratch((n + offset) * sizeof(float));
        memcpy(blocks[t] + offset, c->input[t], n * sizeof(float));
        c->input[t] = blocks[t] + offset;
    }
}

/* Rows of payloads begin wherever the payloads before them end: on 16 bytes or not. */
Test(attention, no_bit_depends_on_where_rows_lie)
{
    for (int score = DEVICE_SCORE_ADD; score <= DEVICE_SCORE_COSINE; score++) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            struct attention_case c, placed;
            attention_case_init(&c, (enum device_score_kind)score, 50, shapes[s].n_head, shapes[s].n_column, 1.0);
            float *got[2] = {device_scratch(result_size(&c) * sizeof(float)),
                             device_scratch(result_size(&c) * sizeof(float))};
            for (int d = 0; d < DEVICE_TABLE_N; d++) {
                for (size_t offset = 0; offset < 2; offset++) {
                    float *blocks[ATTENTION_TENSOR_N];
                    struct device *device = NULL;
                    cr_assert_eq(device_tables[d]->open(2, &device), STATUS_OK);
                    placed = c;
                    inputs_place(&placed, offset, blocks);
                    attention_run(device, &placed, got[offset]);
                    device_tables[d]->close(device);
                    for (int t = 0; t < ATTENTION_TENSOR_N; t++) {
                        free(blocks[t]);
                    }
                }
                cr_expect_arr_eq(got[1], got[0], result_size(&c) * sizeof(float), "%s on %s: %d heads of %d columns",
                                 score_names[score], device_tables[d]->name, (int)shapes[s].n_head,
                                 (int)shapes[s].n_column);
            }
            free(got[0]);
            free(got[1]);
            attention_case_release(&c);
        }
    }
}
