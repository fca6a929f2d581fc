#include "tests/support/device/device_case.h"
#include "tests/support/sanitized.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

Test(attention, coefficients_are_dropped_at_the_rate_asked_for)
{
    enum { N = 100000 };
    const struct random_key key = {.seed = 11, .epoch = 3, .op = 5, .stream = RANDOM_STREAM_EDGE};
    int n_dropped = 0;
    for (uint32_t i = 0; i < N; i++) {
        n_dropped += random_edge_u32(&key, 1000 + 17 * (i % 317), 1000 + 17 * (i / 317), i % 6) <
                     random_drop_threshold(0.3);
    }
    cr_expect_lt(abs(n_dropped - 3 * N / 10), 600, "%d of %d, 4 standard deviations are 580", n_dropped, N);
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
