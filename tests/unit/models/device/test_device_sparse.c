#include "models/device/device.h"
#include "tests/support/device/device_case.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <stdlib.h>

struct sparse {
    struct device_csr csr;
    struct device_activate activate;
    int64_t f_out;
    const float *values, *w, *bias, *grad_y;
};

/* out: y, grad_w */
static void linear(struct device *device, const void *context, float *out)
{
    const struct sparse *s = context;
    struct device_csr csr = s->csr;
    void *scratch = device_scratch(device->ops->csr_linear_scratch(csr.n_col, s->f_out));
    cr_assert_eq(device->ops->csr_open(device, &csr), STATUS_OK);
    device->ops->csr_linear_forward(device, &csr, s->values, s->f_out, s->w, s->bias, scratch, out);
    device->ops->csr_linear_backward_weight(device, &csr, s->values, s->f_out, s->grad_y, scratch,
                                            out + csr.n_row * s->f_out);
    device->ops->csr_close(device, &csr);
    free(scratch);
}

static void dropout(struct device *device, const void *context, float *out)
{
    const struct sparse *s = context;
    struct device_csr csr = s->csr;
    cr_assert_eq(device->ops->csr_open(device, &csr), STATUS_OK);
    device->ops->csr_dropout(device, &csr, &s->activate, out);
    device->ops->csr_close(device, &csr);
}

static void dense(struct device *device, const void *context, float *out)
{
    const struct sparse *s = context;
    device->ops->csr_dense(device, &s->csr, out); /* as the trainer has it made: the csr is not open */
}

static struct device_csr csr_of(const struct device_block *block, const float *values)
{
    return (struct device_csr){.n_row = block->n_row,
                               .n_col = block->n_col,
                               .n_value = block->n_edge,
                               .indptr = block->indptr,
                               .cols = block->cols,
                               .values = values};
}

static int64_t degree_long(int64_t row, int64_t n_row)
{
    return row == 1 ? 90000 : row % 10 + n_row * 0;
}

static int64_t degree_one(int64_t row, int64_t n_row)
{
    (void)row;
    (void)n_row;
    return 1;
}

static void check(const struct device_block *block, int64_t f_out, double tolerance)
{
    float *values = device_random((size_t)block->n_edge, 1), *other = device_random((size_t)block->n_edge, 2);
    float *w = device_random((size_t)(f_out * block->n_col), 3), *bias = device_random((size_t)f_out, 4);
    float *grad_y = device_random((size_t)(block->n_row * f_out), 5);
    struct sparse s = {.csr = csr_of(block, values), .f_out = f_out, .w = w, .bias = bias, .grad_y = grad_y};
    size_t n_out = (size_t)((block->n_row + block->n_col) * f_out);
    device_check("sparse linear", linear, &s, n_out, tolerance);
    s.values = other;
    s.bias = NULL;
    device_check("sparse linear with other values", linear, &s, n_out, tolerance);
    free(values);
    free(other);
    free(w);
    free(bias);
    free(grad_y);
}

Test(sparse, products_with_sparse_features_agree_with_the_reference)
{
    const int64_t widths[] = {1, 3, 7, 16, 17, 33, 64, 100, 128, 256, 300};
    struct device_block block = device_graph(400, 150, degree_mixed);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        check(&block, widths[i], TOLERANCE_SUM);
    }
    device_graph_free(&block);
}

Test(sparse, no_rows_and_rows_and_columns_of_very_many_values_are_fine)
{
    struct device_block none = device_graph(0, 30, degree_mixed);
    check(&none, 16, TOLERANCE_SUM);
    device_graph_free(&none);
    struct device_block long_row = device_graph(30, 100000, degree_long);
    check(&long_row, 3, TOLERANCE_LONG_SUM);
    device_graph_free(&long_row);
    struct device_block long_column = device_graph(90000, 1, degree_one);
    check(&long_column, 5, TOLERANCE_LONG_SUM);
    device_graph_free(&long_column);
}

Test(sparse, dropout_and_dense_rows_agree_with_the_reference)
{
    struct device_block block = device_graph(3000, 500, degree_mixed);
    float *values = device_random((size_t)block.n_edge, 1);
    uint32_t *node = device_scratch(3000 * sizeof *node);
    for (uint32_t r = 0; r < 3000; r++) {
        node[r] = 3 * r + 1;
    }
    struct sparse s = {.csr = csr_of(&block, values),
                       .activate = {.p = 0.5, .node = node, .key = {.seed = 4, .stream = RANDOM_STREAM_DROPOUT}}};
    device_check("csr_dropout", dropout, &s, (size_t)block.n_edge, TOLERANCE_ELEMENT);
    device_check("csr_dense", dense, &s, 3000 * 500, TOLERANCE_ELEMENT);
    s.activate.p = 0.0;
    device_check("csr_dropout of nothing", dropout, &s, (size_t)block.n_edge, TOLERANCE_ELEMENT);
    free(values);
    free(node);
    device_graph_free(&block);
}

Test(sparse, a_dropped_value_is_the_one_that_dense_dropout_drops)
{
    struct device_block block = device_graph(50, 40, degree_mixed);
    float *values = device_random((size_t)block.n_edge, 1),
          *dropped = device_scratch((size_t)block.n_edge * sizeof *dropped);
    float rows[50 * 40], expected[50 * 40], got[50 * 40];
    uint32_t node[50];
    for (uint32_t r = 0; r < 50; r++) {
        node[r] = 1000 + r;
    }
    struct device_csr csr = csr_of(&block, values);
    struct device_activate how = {.p = 0.5, .node = node, .key = {.seed = 4, .stream = RANDOM_STREAM_DROPOUT}};
    struct device *device = NULL;
    cr_assert_eq(device_cpu.open(1, &device), STATUS_OK);
    device_cpu.csr_dense(device, &csr, rows);
    device_cpu.activate_forward(device, 50, 40, &how, rows, expected);
    device_cpu.csr_dropout(device, &csr, &how, dropped);
    csr.values = dropped;
    device_cpu.csr_dense(device, &csr, got);
    for (int i = 0; i < 50 * 40; i++) {
        cr_assert_eq(got[i], expected[i]);
    }
    device_cpu.close(device);
    free(values);
    free(dropped);
    device_graph_free(&block);
}

/* Every third row has a column of its own, between columns 4 and 5 that are shared; the other rows are mixed. */
static void embedded_of(int64_t n_row, struct device_csr *csr, uint32_t *rows, uint32_t *columns,
                        struct embedded *embedded, struct embedded_run *run)
{
    for (uint32_t r = 0; r < n_row; r += 3) {
        rows[r / 3] = r;
        columns[r / 3] = 5 + r / 3;
    }
    *run = (struct embedded_run){5, 5 + (n_row + 2) / 3};
    *embedded = (struct embedded){1, run};
    csr->embedded = embedded;
    csr->n_embedded = (n_row + 2) / 3;
    csr->embedded_rows = rows;
    csr->embedded_columns = columns;
}

static int64_t degree_embedded(int64_t row, int64_t n_row)
{
    (void)n_row;
    return row % 3 == 0 ? 0 : row % 7;
}

/* out: y, grad_table */
static void embed(struct device *device, const void *context, float *out)
{
    const struct sparse *s = context;
    int64_t n_y = s->csr.n_row * s->f_out;
    device->ops->upload(device, out, s->grad_y, (size_t)n_y * sizeof *out);
    device->ops->csr_embed_forward(device, &s->csr, s->values, s->f_out, s->w, out);
    device->ops->csr_embed_backward(device, &s->csr, s->values, s->f_out, s->grad_y, out + n_y);
}

Test(sparse, rows_with_columns_of_their_own_agree_with_the_reference)
{
    enum { N_ROW = 6000, N_OWN = 2000 };
    struct device_block block = device_graph(N_ROW, 30, degree_embedded);
    float *values = device_random((size_t)block.n_edge + N_OWN, 1), *w = device_random(N_OWN * 33, 2);
    float *grad_y = device_random(N_ROW * 33, 3);
    uint32_t rows[N_OWN], columns[N_OWN], *node = device_scratch(N_ROW * sizeof *node);
    for (uint32_t r = 0; r < N_ROW; r++) {
        node[r] = 3 * r + 1;
    }
    struct embedded embedded;
    struct embedded_run run;
    struct sparse s = {.csr = csr_of(&block, values),
                       .f_out = 33,
                       .w = w,
                       .grad_y = grad_y,
                       .activate = {.p = 0.5, .node = node, .key = {.seed = 4, .stream = RANDOM_STREAM_DROPOUT}}};
    embedded_of(N_ROW, &s.csr, rows, columns, &embedded, &run);
    device_check("csr_embed", embed, &s, (N_ROW + N_OWN) * 33, TOLERANCE_ELEMENT);
    s.values = values;
    device_check("csr_embed with other values", embed, &s, (N_ROW + N_OWN) * 33, TOLERANCE_ELEMENT);
    device_check("csr_dropout", dropout, &s, (size_t)block.n_edge + N_OWN, TOLERANCE_ELEMENT);
    free(node);
    free(grad_y);
    free(w);
    free(values);
    device_graph_free(&block);
}

Test(sparse, a_column_of_its_own_is_dense_and_dropped_like_any_column)
{
    enum { N_ROW = 50, N_OWN = 17, N_COLUMN = 30 + N_OWN };
    struct device_block block = device_graph(N_ROW, 30, degree_embedded);
    float *values = device_random((size_t)block.n_edge, 1);
    float *dropped = device_scratch(((size_t)block.n_edge + N_OWN) * sizeof *dropped);
    float rows[N_ROW * N_COLUMN], expected[N_ROW * N_COLUMN];
    uint32_t own_rows[N_OWN], columns[N_OWN], node[N_ROW];
    for (uint32_t r = 0; r < N_ROW; r++) {
        node[r] = 1000 + r;
    }
    struct embedded embedded;
    struct embedded_run run;
    struct device_csr csr = csr_of(&block, values);
    embedded_of(N_ROW, &csr, own_rows, columns, &embedded, &run);
    struct device_activate how = {.p = 0.5, .node = node, .key = {.seed = 4, .stream = RANDOM_STREAM_DROPOUT}};
    struct device *device = NULL;
    cr_assert_eq(device_cpu.open(1, &device), STATUS_OK);
    device_cpu.csr_dense(device, &csr, rows);
    device_cpu.activate_forward(device, N_ROW, N_COLUMN, &how, rows, expected);
    device_cpu.csr_dropout(device, &csr, &how, dropped);
    for (int64_t k = 0; k < N_OWN; k++) {
        cr_assert_eq(rows[own_rows[k] * N_COLUMN + columns[k]], 1.0f);
        cr_assert_eq(dropped[block.n_edge + k], expected[own_rows[k] * N_COLUMN + columns[k]]);
    }
    for (int64_t r = 0; r < N_ROW; r++) {
        for (int64_t e = block.indptr[r]; e < block.indptr[r + 1]; e++) {
            int64_t column = embedded_column(&embedded, block.cols[e]);
            cr_assert_eq(rows[r * N_COLUMN + column], values[e]);
            cr_assert_eq(dropped[e], expected[r * N_COLUMN + column]);
        }
    }
    device_cpu.close(device);
    free(dropped);
    free(values);
    device_graph_free(&block);
}
