/* Blocks made of others for one halo pass: the same edges on every device, and sums over them that are those of the
 * edges left. */
#include "models/device/device.h"
#include "tests/support/device/device_case.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

struct sample {
    struct device_block block;
    int64_t n_kept;
    uint32_t *kept;
    bool transposed;
    int64_t f;
    const float *x; /* rows of the block's columns, or transposed of its rows */
};

static size_t edge_bytes(const struct device_block *block)
{
    return sizeof(uint32_t) + (block->types != NULL ? sizeof(uint16_t) : 0) +
           (block->weights != NULL ? sizeof(float) : 0);
}

/* The sampled block, transposed where that is asked for. Scratch is the caller's to free. */
static struct device_block make(struct device *device, const struct sample *s, void *scratch[2])
{
    const struct device_ops *ops = device->ops;
    const struct device_block *b = &s->block;
    struct device_block out, turned;
    size_t each = edge_bytes(b);
    scratch[0] = device_scratch(DEVICE_BYTES(ops, BLOCK_MADE, b->n_row, b->n_col, b->n_edge, each));
    scratch[1] = device_scratch(DEVICE_BYTES(ops, BLOCK_MADE, b->n_col, b->n_row, b->n_edge, each));
    ops->block_sample(device, b, s->n_kept, s->kept, scratch[0], &out);
    if (!s->transposed) {
        return out;
    }
    ops->block_transpose(device, &out, b->n_row, scratch[1], &turned);
    return turned;
}

static size_t n_most_row(const struct sample *s)
{
    return (size_t)(s->block.n_row > s->block.n_col ? s->block.n_row : s->block.n_col);
}

/* Every number of the block that is made: ends of rows, then columns, types and weights of edges. */
static void arrays(struct device *device, const void *context, float *out)
{
    const struct sample *s = context;
    void *scratch[2];
    struct device_block made = make(device, s, scratch);
    size_t n_row = n_most_row(s), n_edge = (size_t)s->block.n_edge;
    cr_assert_eq(made.n_row, s->transposed ? s->n_kept : s->block.n_row);
    cr_assert_eq(made.n_col, s->transposed ? s->block.n_row : s->n_kept);
    cr_assert_eq(made.edge_table, s->block.edge_table);
    memset(out, 0, (n_row + 3 * n_edge) * sizeof *out);
    for (int64_t r = 0; r < made.n_row; r++) {
        out[r] = (float)made.indptr[r + 1];
    }
    for (int64_t e = 0; e < made.indptr[made.n_row]; e++) {
        out[n_row + (size_t)e] = (float)made.cols[e];
        out[n_row + n_edge + (size_t)e] = made.types != NULL ? made.types[e] : 0.0F;
        out[n_row + 2 * n_edge + (size_t)e] = made.weights != NULL ? made.weights[e] : 0.0F;
    }
    free(scratch[0]);
    free(scratch[1]);
}

static void sum(struct device *device, const void *context, float *out)
{
    const struct sample *s = context;
    const struct device_aggregate how = {.begin = true, .finish = true};
    void *scratch[2];
    struct device_block made = make(device, s, scratch);
    memset(out, 0, n_most_row(s) * (size_t)s->f * sizeof *out);
    device->ops->aggregate_sum(device, &made, &how, s->f, s->x, out);
    free(scratch[0]);
    free(scratch[1]);
}

/* Each column with a chance of one in `every`; the last one always. */
static void kept_draw(struct sample *s, uint32_t every)
{
    float *draw = device_random((size_t)s->block.n_col, 17);
    s->kept = device_scratch((size_t)s->block.n_col * sizeof *s->kept);
    s->n_kept = 0;
    for (uint32_t c = 0; c < s->block.n_col; c++) {
        if (draw[c] < 2.0F / (float)every - 1.0F || c == s->block.n_col - 1) {
            s->kept[s->n_kept++] = c;
        }
    }
    free(draw);
}

static void check(const char *what, struct sample *s)
{
    size_t n_row = n_most_row(s), n_edge = (size_t)s->block.n_edge;
    s->f = 9;
    s->x = device_random(n_row * (size_t)s->f, 5);
    for (int turn = 0; turn < 2; turn++) {
        s->transposed = turn == 1;
        device_check(what, arrays, s, n_row + 3 * n_edge, 0.0);
        device_check(what, sum, s, n_row * (size_t)s->f, TOLERANCE_ARRAY);
    }
    free((void *)(uintptr_t)s->x);
    free(s->kept);
}

static int64_t degree_hub(int64_t row, int64_t n_row)
{
    (void)n_row;
    return row == 3 ? 150000 : row % 4;
}

Test(block_sample, edges_of_kept_columns_are_left_in_their_order_and_turned_by_column)
{
    static const uint32_t shares[] = {1, 2, 10};
    for (int i = 0; i < 3; i++) {
        struct sample s = {.block = device_graph(5000, 700, degree_mixed)};
        kept_draw(&s, shares[i]);
        check("sampled", &s);
        device_graph_free(&s.block);
    }
    struct sample hub = {.block = device_graph(40, 200000, degree_hub)};
    kept_draw(&hub, 2);
    check("a hub row of three pieces, sampled", &hub);
    device_graph_free(&hub.block);
}

Test(block_sample, types_ascend_in_rows_and_weights_stay_with_their_edges)
{
    struct sample s = {.block = device_graph(900, 60, degree_mixed)};
    int64_t n_edge = s.block.n_edge;
    uint16_t *types = device_scratch((size_t)n_edge * sizeof *types);
    uint32_t *rows = device_scratch((size_t)s.block.n_row * sizeof *rows);
    for (int64_t r = 0; r < s.block.n_row; r++) {
        int64_t n = s.block.indptr[r + 1] - s.block.indptr[r];
        rows[r] = (uint32_t)(2 * r);
        for (int64_t k = 0; k < n; k++) {
            types[s.block.indptr[r] + k] = (uint16_t)(5 * k / n);
        }
    }
    s.block.types = types;
    s.block.weights = device_random((size_t)n_edge, 3);
    s.block.edge_table = s.block.weights; /* weights may be rows of a table, which stays the block's */
    kept_draw(&s, 2);
    s.transposed = true;
    for (int listed = 0; listed < 2; listed++) {
        s.block.rows = listed ? rows : NULL;
        device_check("typed", arrays, &s, n_most_row(&s) + 3 * (size_t)n_edge, 0.0);
    }
    void *scratch[2];
    struct device *device;
    cr_assert_eq(device_cpu.open(1, &device), STATUS_OK);
    struct device_block turned = make(device, &s, scratch);
    for (int64_t c = 0; c < turned.n_row; c++) {
        for (int64_t e = turned.indptr[c] + 1; e < turned.indptr[c + 1]; e++) {
            bool ascends = turned.types[e] > turned.types[e - 1] ||
                           (turned.types[e] == turned.types[e - 1] && turned.cols[e] > turned.cols[e - 1]);
            cr_assert(ascends, "row %ld, edge %ld", (long)c, (long)e);
        }
    }
    device_cpu.close(device);
    free(scratch[0]);
    free(scratch[1]);
    free(s.kept);
    free(rows);
    free(types);
    free((void *)(uintptr_t)s.block.weights);
    s.block.weights = s.block.edge_table = NULL;
    s.block.types = NULL;
    s.block.rows = NULL;
    device_graph_free(&s.block);
}
