#include "models/device/device.h"
#include "tests/support/device/device_case.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static struct device_csr csr_of(const struct device_block *block, const float *values)
{
    return (struct device_csr){.n_row = block->n_row,
                               .n_col = block->n_col,
                               .n_value = block->n_edge,
                               .indptr = block->indptr,
                               .cols = block->cols,
                               .values = values};
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
