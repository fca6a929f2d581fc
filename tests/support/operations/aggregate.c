/* Sums and maxima over neighbours, sums by relation. */
#include "models/device/codec.h"
#include "tests/support/operations/operation.h"
#include "tests/support/tolerance.h"

/* degrees, n_row, n_col, f: with each term of a sum, and none */
static void sum(struct operation_run *run, const int64_t *shape)
{
    const struct device_ops *ops = run->ops;
    int64_t n_row = shape[1], n_col = shape[2], f = shape[3];
    struct device_block block = operation_graph(run, (enum operation_degrees)shape[0], n_row, n_col, 0);
    const float *x = operation_random(run, n_col * f), *weights = operation_random(run, block.n_edge);
    const struct device_aggregate all = {.col_scale = operation_random(run, n_col),
                                         .self = operation_random(run, n_row * f),
                                         .self_scale = operation_random(run, n_row),
                                         .row_scale = operation_random(run, n_row),
                                         .begin = true,
                                         .finish = true};
    const struct device_aggregate plain = {.begin = true, .finish = true}, added = {.finish = true},
                                  apart = {.apart = true};
    float *twice = operation_floats(run, n_row * f);
    ops->aggregate_sum(run->device, &block, &plain, f, x, operation_floats(run, n_row * f));
    ops->aggregate_sum(run->device, &block, &all, f, x, operation_floats(run, n_row * f));
    block.weights = weights;
    ops->aggregate_sum(run->device, &block, &plain, f, x, operation_floats(run, n_row * f));
    ops->aggregate_sum(run->device, &block, &plain, f, x, twice);
    ops->aggregate_sum(run->device, &block, &added, f, x, twice);
    ops->aggregate_sum(run->device, &block, &apart, f, x, twice);
    struct device_aggregate half = all;
    void *rows = operation_bytes(run, (size_t)(n_col * codec_row_bytes(DEVICE_CODEC_BF16, f)));
    half.is_bf16 = true;
    half.self = NULL;
    ops->rows_round(run->device, n_col, f, operation_random(run, n_col * f), rows);
    ops->aggregate_sum(run->device, &block, &half, f, rows, operation_floats(run, n_row * f));
    ops->block_close(run->device, &block);
}

/* n_row, f: so many edges that long rows are shared out between warps and blocks of threads */
static void units(struct operation_run *run, const int64_t *shape)
{
    enum { N_COL = 2000 };
    int64_t n_row = shape[0], f = shape[1];
    struct device_block block = operation_graph(run, OPERATION_DEGREES_LONG, n_row, N_COL, 0);
    const struct device_aggregate how = {.col_scale = operation_random(run, N_COL),
                                         .row_scale = operation_random(run, n_row),
                                         .begin = true,
                                         .finish = true};
    run->ops->aggregate_sum(run->device, &block, &how, f, operation_random(run, N_COL * f),
                            operation_floats(run, n_row * f));
    run->ops->block_close(run->device, &block);
}

/* f: rows of 0, 1, … 256 edges, each of one block or of as many as every edge begins one; and longer ones, of blocks in
 * pieces. Sums that are apart, and those that are not; also added to rows that are listed. */
static void borders(struct operation_run *run, const int64_t *shape)
{
    enum { N_ROW = 265, N_EDGE = 257 * 256 / 2 + 8 * 700, N_COL = 301 };
    static uint32_t cols[2][N_EDGE];
    int64_t f = shape[0], indptr[N_ROW + 1] = {0};
    if (run->ops->merged_edges == 0) {
        return;
    }
    for (uint32_t r = 0, e = 0; r < N_ROW; r++) {
        const bool is_long = r > 256;
        for (uint32_t i = 0; i < (is_long ? 700 : r); i++, e++) {
            const uint32_t border = i % (1 + r % 40) == r % (is_long ? 2 : 3) ? DEVICE_BORDER : 0;
            cols[0][e] = cols[1][e] = (r * 31 + i * 37) % N_COL;
            cols[0][e] |= !is_long ? 0 : border == 0 && i % 7 == 3 ? DEVICE_BACK : border;
            cols[1][e] |= is_long && i % 7 == 3 ? DEVICE_MARKS : border;
        }
        indptr[r + 1] = e;
    }
    const float *x = operation_random(run, N_COL * f), *scale = operation_random(run, N_COL);
    for (int apart = 0; apart < 2; apart++) {
        struct device_block block = {
            .n_row = N_ROW, .n_col = N_COL, .n_edge = N_EDGE, .bordered = apart, .marked = true};
        const struct device_aggregate how = {.col_scale = scale, .begin = true, .finish = true},
                                      added = {.apart = apart};
        block.indptr = operation_copy(run, indptr, sizeof indptr);
        block.cols = operation_copy(run, cols[apart], sizeof cols[apart]);
        if (run->ops->block_open(run->device, &block) != STATUS_OK) {
            operation_give_up(status_reason());
        }
        run->ops->aggregate_sum(run->device, &block, &how, f, x, operation_floats(run, N_ROW * f));
        block.rows = operation_numbers(run, N_ROW, 1, 2);
        run->ops->aggregate_sum(run->device, &block, &added, f, x, operation_floats(run, 2 * N_ROW * f));
        run->ops->block_close(run->device, &block);
    }
}

/* degrees, n_row, n_col, f */
static void maximum(struct operation_run *run, const int64_t *shape)
{
    const struct device_ops *ops = run->ops;
    int64_t n_row = shape[1], n_col = shape[2], f = shape[3];
    struct device_block block = operation_graph(run, (enum operation_degrees)shape[0], n_row, n_col, 0);
    const float *x = operation_random(run, n_col * f), *self = operation_random(run, n_row * f);
    const float *more = operation_random(run, n_col * f), *grad = operation_random(run, n_row * f);
    for (int turn = 0; turn < 2; turn++) {
        float *out = operation_floats(run, n_row * f);
        uint32_t *arg = operation_bytes(run, (size_t)(n_row * f) * sizeof *arg);
        uint32_t base = turn == 0 ? 0 : (uint32_t)n_row;
        ops->aggregate_max(run->device, &block,
                           &(struct device_max){.arg_base = base, .begin = true, .self = turn == 0 ? NULL : self}, f,
                           x, out, arg);
        ops->aggregate_max(run->device, &block,
                           &(struct device_max){.arg_base = base + (uint32_t)n_col, .n_finish = n_row}, f, more, out,
                           arg);
        ops->aggregate_max_backward(run->device, &block, base, f, arg, grad, operation_floats(run, n_col * f));
    }
    ops->block_close(run->device, &block);
}

/* degrees, n_row, n_col, f */
static void relation(struct operation_run *run, const int64_t *shape)
{
    enum { N_RELATION = 5, N_BASE = 3, BESIDE = 3 };
    const struct device_ops *ops = run->ops;
    int64_t n_row = shape[1], n_col = shape[2], f = shape[3];
    struct device_block block = operation_graph(run, (enum operation_degrees)shape[0], n_row, n_col, N_RELATION);
    const float *x = operation_random(run, n_col * (f + BESIDE)), *comp = operation_random(run, N_RELATION * N_BASE);
    const float *y = operation_random(run, n_row * N_RELATION * f),
                *rows = operation_random(run, n_col * N_RELATION * f);
    for (int mixed = 0; mixed < 2; mixed++) {
        int64_t n_base = mixed ? N_BASE : N_RELATION;
        struct device_relation how = {&block, N_RELATION, n_base, f, f + BESIDE, x, mixed ? comp : NULL, false};
        void *scratch = operation_scratch(run, DEVICE_BYTES(ops, RELATION_DOT, N_RELATION, n_base));
        ops->relation_sum(run->device, &how, operation_floats(run, n_row * n_base * f));
        ops->relation_dot(run->device, &how, y, mixed, scratch, operation_floats(run, N_RELATION * n_base));
        how.stride = n_base * f;
        how.x = rows;
        how.picks = true;
        ops->relation_sum(run->device, &how, operation_floats(run, n_row * f));
    }
    ops->block_close(run->device, &block);
}

/* a, b, c */
static void swap(struct operation_run *run, const int64_t *shape)
{
    int64_t a = shape[0], b = shape[1], c = shape[2];
    run->ops->swap_axes(run->device, a, b, c, operation_random(run, a * b * c), operation_floats(run, a * b * c));
}

const struct operation_case operation_aggregate_cases[] = {
    {"sum-1", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_MIXED, 700, 300, 1}},
    {"sum-3", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_MIXED, 1, 9, 3}},
    {"sum-7", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_MIXED, 300, 300, 7}},
    {"sum-16", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_MIXED, 300, 300, 16}},
    {"sum-100", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_MIXED, 300, 300, 100}},
    {"sum-200", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_MIXED, 300, 300, 200}},
    {"sum-256", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_MIXED, 300, 300, 256}},
    {"sum-17", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_MIXED, 300, 300, 17}},
    {"sum-33", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_MIXED, 300, 300, 33}},
    {"sum-32", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_MIXED, 300, 300, 32}},
    {"sum-64", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_MIXED, 300, 300, 64}},
    {"sum-128", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_MIXED, 300, 300, 128}},
    {"sum-600", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_MIXED, 50, 100, 600}},
    {"sum-long-128", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_LONG, 110, 2000, 128}},
    {"sum-long-9", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_LONG, 110, 2000, 9}},
    {"sum-hub-8", OPERATION_SAME_CPU, TOLERANCE_LONG_SUM, sum, {OPERATION_DEGREES_HUB, 40, 75000, 8}},
    {"sum-hub-100", OPERATION_SAME_CPU, TOLERANCE_LONG_SUM, sum, {OPERATION_DEGREES_HUB, 8, 71000, 100}},
    {"sum-huge-7", OPERATION_SAME_CPU, TOLERANCE_LONG_SUM, sum, {OPERATION_DEGREES_HUGE, 20, 160000, 7}},
    {"sum-many-rows-8", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_MANY, 33001, 2000, 8}},
    {"sum-many-rows-24", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_MANY, 33001, 2000, 24}},
    {"sum-all-47", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_ALL, 300, 500, 47}},
    {"sum-all-128", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_ALL, 300, 500, 128}},
    {"sum-panels-260", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_ALL, 800, 25300, 260}},
    {"sum-units-64", OPERATION_SAME_CPU, TOLERANCE_SUM, units, {60000, 64}},
    {"sum-of-no-rows", OPERATION_SAME_CPU, TOLERANCE_SUM, sum, {OPERATION_DEGREES_MIXED, 0, 5, 16}},
    {"borders-9", OPERATION_SAME_CPU, TOLERANCE_SUM, borders, {9}},
    {"borders-24", OPERATION_SAME_CPU, TOLERANCE_SUM, borders, {24}},
    {"borders-96", OPERATION_SAME_CPU, TOLERANCE_SUM, borders, {96}},
    {"max-33", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, maximum, {OPERATION_DEGREES_MIXED, 300, 300, 33}},
    {"max-3", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, maximum, {OPERATION_DEGREES_HUB, 40, 75000, 3}},
    {"max-16", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, maximum, {OPERATION_DEGREES_MIXED, 300, 300, 16}},
    {"relation-1", OPERATION_SAME_CPU, TOLERANCE_SUM, relation, {OPERATION_DEGREES_MIXED, 300, 300, 1}},
    {"relation-of-no-edges", OPERATION_SAME_CPU, TOLERANCE_SUM, relation, {OPERATION_DEGREES_MIXED, 1, 9, 3}},
    {"relation-33", OPERATION_SAME_CPU, TOLERANCE_SUM, relation, {OPERATION_DEGREES_MIXED, 300, 300, 33}},
    {"max-128", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, maximum, {OPERATION_DEGREES_MIXED, 300, 300, 128}},
    {"max-long-16", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, maximum, {OPERATION_DEGREES_LONG, 110, 2000, 16}},
    {"relation-16", OPERATION_SAME_CPU, TOLERANCE_SUM, relation, {OPERATION_DEGREES_MIXED, 700, 300, 16}},
    {"relation-100", OPERATION_SAME_CPU, TOLERANCE_SUM, relation, {OPERATION_DEGREES_MIXED, 200, 300, 100}},
    {"relation-hub-5", OPERATION_SAME_CPU, TOLERANCE_LONG_SUM, relation, {OPERATION_DEGREES_HUB, 40, 75000, 5}},
    {"swap-60x70x5", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, swap, {60, 70, 5}},
    {"swap-3x200x64", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, swap, {3, 200, 64}},
    {0},
};
