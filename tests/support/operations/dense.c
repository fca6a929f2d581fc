/* Products, sums over rows, sparse features. */
#include "tests/support/operations/operation.h"
#include "tests/support/tolerance.h"

/* n, f_in, f_out: a linear layer and its gradients, alone and added to what is there */
static void linear(struct operation_run *run, const int64_t *shape)
{
    const struct device_ops *ops = run->ops;
    int64_t n = shape[0], f_in = shape[1], f_out = shape[2];
    const float *x = operation_random(run, n * f_in), *w = operation_random(run, f_in * f_out);
    const float *bias = operation_random(run, f_out), *grad_y = operation_random(run, n * f_out);
    void *scratch = operation_scratch(run, DEVICE_BYTES(ops, LINEAR, n, f_in, f_out));
    for (int add = 0; add < 2; add++) {
        float *y = operation_floats(run, n * f_out), *grad_x = operation_floats(run, n * f_in);
        float *grad_w = operation_floats(run, f_in * f_out);
        ops->linear(
            run->device,
            &(struct device_linear){n, f_in, f_out, x, w, .bias = add ? NULL : bias, .add = add, .scratch = scratch},
            y);
        ops->linear(run->device, &(struct device_linear){n, f_in, f_out, x, w, .add = true}, y);
        ops->linear(run->device, &(struct device_linear){n, f_out, f_in, grad_y, w, .transposed = true, .add = add},
                    grad_x);
        ops->linear_backward_weight(run->device, n, f_in, f_out, x, grad_y, scratch, add, grad_w);
    }
}

/* n, f_in, f_out, products */
static void linear_products(struct operation_run *run, const int64_t *shape)
{
    run->device->products = (enum device_products)shape[3];
    linear(run, shape);
    run->device->products = DEVICE_PRODUCTS_FP32;
}

/* n, f */
static void sums(struct operation_run *run, const int64_t *shape)
{
    const struct device_ops *ops = run->ops;
    int64_t n = shape[0], f = shape[1];
    const float *x = operation_random(run, n * f), *y = operation_random(run, n * f);
    void *scratch = operation_scratch(run, DEVICE_BYTES(ops, COLUMN_SUM, n, f));
    for (int add = 0; add < 2; add++) {
        float *columns = operation_floats(run, f), *dot = operation_floats(run, 1);
        ops->column_sum(run->device, &(struct device_column_sum){n, f, x, .add = add, .scratch = scratch}, columns);
        ops->dot(run->device, n, f, x, y, scratch, add, dot);
    }
    double *added = operation_doubles(run, n), *compared = operation_doubles(run, 3);
    ops->doubles_merge(run->device, false, n, (const double *)(const void *)x, added); /* any bits will do; f ≥ 2 */
    ops->floats_compare(run->device, n, x, y, compared);
}

/* n_chunk, f */
static void chunks(struct operation_run *run, const int64_t *shape)
{
    const float *x = operation_random(run, shape[0] * shape[1]);
    run->ops->chunks_add(run->device, shape[1], shape[0], x, operation_floats(run, shape[1]));
}

static struct device_csr csr_of(struct operation_run *run, const struct device_block *block)
{
    return (struct device_csr){.n_row = block->n_row,
                               .n_col = block->n_col,
                               .n_value = block->n_edge,
                               .indptr = block->indptr,
                               .cols = block->cols,
                               .values = operation_random(run, block->n_edge)};
}

static void csr_open(struct operation_run *run, struct device_csr *csr)
{
    if (run->ops->csr_open(run->device, csr) != STATUS_OK) {
        operation_give_up(status_reason());
    }
}

/* n_row, n_col, f_out, degrees */
static void sparse(struct operation_run *run, const int64_t *shape)
{
    const struct device_ops *ops = run->ops;
    int64_t f = shape[2];
    struct device_block block = operation_graph(run, (enum operation_degrees)shape[3], shape[0], shape[1], 0);
    struct device_csr csr = csr_of(run, &block);
    const float *other = operation_random(run, csr.n_value), *w = operation_random(run, f * csr.n_col);
    const float *bias = operation_random(run, f), *grad_y = operation_random(run, csr.n_row * f);
    void *scratch = operation_scratch(run, DEVICE_BYTES(ops, CSR_LINEAR, csr.n_col, f));
    const struct device_activate dropout = {.p = 0.4,
                                            .key = {.seed = 4, .op = 2, .stream = RANDOM_STREAM_DROPOUT},
                                            .now = operation_now(run, (struct device_now){.epoch = 3}),
                                            .node = operation_numbers(run, csr.n_row, 1000, 17)};
    csr_open(run, &csr);
    for (int turn = 0; turn < 2; turn++) {
        const float *values = turn == 0 ? NULL : other;
        float *y = operation_floats(run, csr.n_row * f), *grad_w = operation_floats(run, csr.n_col * f);
        const struct device_csr_linear how = {
            .values = values, .f_out = f, .w = w, .bias = turn == 0 ? bias : NULL, .scratch = scratch};
        ops->csr_forward(run->device, &csr, &how, y);
        ops->csr_backward(run->device, &csr, &how, grad_y, grad_w, NULL);
    }
    ops->csr_dropout(run->device, &csr, &dropout, operation_floats(run, csr.n_value));
    if (csr.n_row * csr.n_col <= 1 << 20) {
        ops->csr_dense(run->device, &csr, operation_floats(run, csr.n_row * csr.n_col));
    }
    ops->csr_close(run->device, &csr);
    ops->block_close(run->device, &block);
}

/* f: every third of 3 000 rows has a column of its own, between the shared columns 4 and 5 */
static void embedded(struct operation_run *run, const int64_t *shape)
{
    enum { N_ROW = 3000, N_OWN = 1000 };
    const struct device_ops *ops = run->ops;
    int64_t f = shape[0];
    const struct embedded_run columns = {5, 5 + N_OWN};
    const struct embedded embedded = {1, &columns};
    struct device_block block = operation_graph(run, OPERATION_DEGREES_MIXED, N_ROW, 30, 0);
    struct device_csr csr = csr_of(run, &block);
    csr.embedded = &embedded;
    csr.n_embedded = N_OWN;
    csr.embedded_rows = operation_numbers(run, N_OWN, 0, 3);
    csr.embedded_columns = operation_numbers(run, N_OWN, 5, 1);
    csr_open(run, &csr);
    const struct device_activate dropout = {
        .p = 0.5, .key = {.seed = 4, .stream = RANDOM_STREAM_DROPOUT}, .node = operation_numbers(run, N_ROW, 1, 3)};
    const float *values = operation_random(run, csr.n_value + N_OWN), *table = operation_random(run, N_OWN * f);
    const float *grad_y = operation_random(run, N_ROW * f);
    float *y = operation_floats(run, N_ROW * f), *grad_table = operation_floats(run, N_OWN * f);
    const struct device_csr_linear how = {.values = values, .f_out = f, .table = table};
    ops->csr_forward(run->device, &csr, &how, y);
    ops->csr_backward(run->device, &csr, &how, grad_y, NULL, grad_table);
    ops->csr_dropout(run->device, &csr, &dropout, operation_floats(run, csr.n_value + N_OWN));
    ops->csr_dense(run->device, &csr, operation_floats(run, N_ROW * (30 + N_OWN)));
    ops->csr_close(run->device, &csr);
    ops->block_close(run->device, &block);
}

/* Products with more than 64 columns are a library's, where there is one. */
const struct operation_case operation_dense_cases[] = {
    {"linear-700x33x16", OPERATION_SAME_EMULATED, TOLERANCE_SUM, linear, {700, 33, 16}},
    {"linear-1100x64x64", OPERATION_SAME_EMULATED, TOLERANCE_SUM, linear, {1100, 64, 64}},
    {"linear-5x1x3", OPERATION_SAME_EMULATED, TOLERANCE_SUM, linear, {5, 1, 3}},
    {"linear-2100x96x130", OPERATION_SAME_NUMBERS, TOLERANCE_SUM, linear, {2100, 96, 130}},
    {"linear-300x257x256", OPERATION_SAME_NUMBERS, TOLERANCE_SUM, linear, {300, 257, 256}},
    {"linear-1x1x1", OPERATION_SAME_EMULATED, TOLERANCE_SUM, linear, {1, 1, 1}},
    {"linear-20000x9x6", OPERATION_SAME_EMULATED, TOLERANCE_SUM, linear, {20000, 9, 6}},
    {"tf32x3-700x33x16",
     OPERATION_SAME_NUMBERS,
     TOLERANCE_SUM,
     linear_products,
     {700, 33, 16, DEVICE_PRODUCTS_TF32X3}},
    {"tf32x3-2100x96x130",
     OPERATION_SAME_NUMBERS,
     TOLERANCE_SUM,
     linear_products,
     {2100, 96, 130, DEVICE_PRODUCTS_TF32X3}},
    {"tf32-300x257x47",
     OPERATION_SAME_NUMBERS,
     TOLERANCE_TF32,
     linear_products,
     {300, 257, 47, DEVICE_PRODUCTS_TF32}},
    {"chunks-9x700", OPERATION_SAME_CPU, TOLERANCE_SUM, chunks, {9, 700}},
    {"sums-1x1", OPERATION_SAME_CPU, TOLERANCE_DOUBLE_SUM, sums, {1, 2}},
    {"sums-3000x5", OPERATION_SAME_CPU, TOLERANCE_DOUBLE_SUM, sums, {3000, 5}},
    {"sums-1025x130", OPERATION_SAME_CPU, TOLERANCE_DOUBLE_SUM, sums, {1025, 130}},
    {"sparse-400x150x16", OPERATION_SAME_CPU, TOLERANCE_SUM, sparse, {400, 150, 16, OPERATION_DEGREES_MIXED}},
    {"sparse-400x150x100", OPERATION_SAME_CPU, TOLERANCE_SUM, sparse, {400, 150, 100, OPERATION_DEGREES_MIXED}},
    {"sparse-hub-20x80000x3", OPERATION_SAME_CPU, TOLERANCE_SUM, sparse, {20, 80000, 3, OPERATION_DEGREES_HUB}},
    {"embedded-33", OPERATION_SAME_CPU, TOLERANCE_SUM, embedded, {33}},
    {0},
};
