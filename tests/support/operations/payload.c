/* Rows packed, written down and added again; blocks made of others for one halo pass. */
#include "models/device/codec.h"
#include "tests/support/operations/operation.h"
#include "tests/support/tolerance.h"

/* n, f */
static void rows(struct operation_run *run, const int64_t *shape)
{
    const struct device_ops *ops = run->ops;
    int64_t n = shape[0], f = shape[1];
    const uint32_t *listed = operation_numbers(run, n, 1, 2);
    const float *x = operation_random(run, 2 * n * f);
    for (int turn = 0; turn < 2; turn++) {
        float factor = turn == 0 ? 1.0F : 10.0F;
        ops->rows_gather(run->device, n, f, listed, factor, x, operation_floats(run, n * f));
        ops->rows_add(run->device, n, f, listed, factor, x, operation_floats(run, 2 * n * f));
        ops->rows_add(run->device, n, f, NULL, factor, x, operation_floats(run, n * f));
    }
}

/* codec, f: all rows, listed rows with factors, with what was lost before, and of BF16 */
static void codec(struct operation_run *run, const int64_t *shape)
{
    enum { N = 130, N_ROW = 300 };
    const struct device_ops *ops = run->ops;
    int64_t f = shape[1];
    struct device_coding how = {.codec = (enum device_codec)shape[0],
                                .n_row = N,
                                .f = f,
                                .factor = 1.0F,
                                .x = operation_random(run, N_ROW * f),
                                .key = {.seed = 7, .op = 5, .stream = RANDOM_STREAM_CODEC},
                                .now = operation_now(run, (struct device_now){.epoch = 3}),
                                .node = operation_numbers(run, N_ROW, 3, 1009)};
    const uint32_t *listed = operation_numbers(run, N, 1, 2);
    const float *residual = operation_random(run, N_ROW * f);
    void *rounded = operation_bytes(run, (size_t)(N_ROW * codec_row_bytes(DEVICE_CODEC_BF16, f)));
    ops->rows_round(run->device, N_ROW, f, operation_random(run, N_ROW * f), rounded);
    for (int turn = 0; turn < 4; turn++) {
        how.is_bf16 = turn == 3;
        how.x = turn == 3 ? rounded : how.x;
        how.rows = turn > 0 ? listed : NULL;
        how.factor = turn == 1 ? 10.0F : 1.0F;
        how.residual = turn == 2 ? residual : NULL;
        how.residual_out = turn == 2 ? operation_floats(run, N_ROW * f) : NULL;
        void *written = operation_bytes(run, (size_t)(N * codec_row_bytes(how.codec, f)));
        ops->rows_encode(run->device, &how, written);
        ops->rows_decode(run->device, how.codec, N, f, written, operation_floats(run, N * f));
    }
}

/* The block's edges as they come out of scratch: ends of rows, columns, weights, and types. */
static void block_results(struct operation_run *run, const struct device_block *made, int64_t n_edge)
{
    const struct device_ops *ops = run->ops;
    int64_t ends = made->n_row + 1;
    ops->move(run->device, DEVICE_LANE_COMPUTE, operation_bytes(run, (size_t)ends * sizeof *made->indptr),
              made->indptr, (size_t)ends * sizeof *made->indptr);
    int64_t n = 0;
    ops->copy(run->device, &n, made->indptr + made->n_row, sizeof n);
    if (n < 0 || n > n_edge) {
        operation_give_up("a block that was made has more edges than there are");
    }
    size_t n_columns = (size_t)n * sizeof *made->cols, n_weights = (size_t)n * sizeof *made->weights;
    ops->move(run->device, DEVICE_LANE_COMPUTE, operation_bytes(run, n_columns), made->cols, n_columns);
    if (made->weights != NULL) {
        ops->move(run->device, DEVICE_LANE_COMPUTE, operation_bytes(run, n_weights), made->weights, n_weights);
    }
    if (made->types != NULL) {
        size_t n_types = (size_t)n * sizeof *made->types;
        ops->move(run->device, DEVICE_LANE_COMPUTE, operation_bytes(run, n_types), made->types, n_types);
    }
}

/* degrees, n_row, n_col, n_type, step: every so manieth column is kept, then transposed; and sums over both. Rows of
 * edges with types are listed */
static void sample(struct operation_run *run, const int64_t *shape)
{
    enum { F = 9 };
    const struct device_ops *ops = run->ops;
    struct device_block block = operation_graph(run, (enum operation_degrees)shape[0], shape[1], shape[2],
                                                (int)shape[3]);
    int64_t n_kept = (block.n_col + shape[4] - 1) / shape[4], n_own = block.n_row;
    if (block.types != NULL) {
        n_own = 2 * block.n_row;
        block.rows = operation_numbers(run, block.n_row, 1, 2);
    }
    size_t each = sizeof(uint32_t) + (block.types != NULL ? sizeof(uint16_t) + sizeof(float) : 0);
    const uint32_t *kept = operation_numbers(run, n_kept, 0, (uint32_t)shape[4]);
    void *first = operation_scratch(run, DEVICE_BYTES(ops, BLOCK_MADE, block.n_row, block.n_col, block.n_edge, each));
    void *second = operation_scratch(run, DEVICE_BYTES(ops, BLOCK_MADE, block.n_col, n_own, block.n_edge, each));
    const struct device_aggregate whole = {.begin = true, .finish = true}, added = {.finish = true};
    const float *x = operation_random(run, (n_kept > n_own ? n_kept : n_own) * F);
    struct device_block sampled, transposed;
    ops->block_sample(run->device, &block, n_kept, kept, first, &sampled);
    block_results(run, &sampled, block.n_edge);
    ops->aggregate_sum(run->device, &sampled, block.rows != NULL ? &added : &whole, F, x,
                       operation_floats(run, n_own * F));
    ops->block_transpose(run->device, &sampled, n_own, second, &transposed);
    block_results(run, &transposed, block.n_edge);
    ops->aggregate_sum(run->device, &transposed, &whole, F, x, operation_floats(run, n_kept * F));
    ops->block_close(run->device, &block);
}

const struct operation_case operation_payload_cases[] = {
    {"rows-200x33", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, rows, {200, 33}},
    {"rows-200x128", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, rows, {200, 128}},
    {"bf16-100", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, codec, {DEVICE_CODEC_BF16, 100}},
    {"bf16-1", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, codec, {DEVICE_CODEC_BF16, 1}},
    {"int8-1", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, codec, {DEVICE_CODEC_INT8, 1}},
    {"int2-31", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, codec, {DEVICE_CODEC_INT2, 31}},
    {"int8-64", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, codec, {DEVICE_CODEC_INT8, 64}},
    {"int8-257", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, codec, {DEVICE_CODEC_INT8, 257}},
    {"int4-31", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, codec, {DEVICE_CODEC_INT4, 31}},
    {"int4-128", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, codec, {DEVICE_CODEC_INT4, 128}},
    {"int2-100", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, codec, {DEVICE_CODEC_INT2, 100}},
    {"sample-5000x700", OPERATION_SAME_CPU, TOLERANCE_SUM, sample, {OPERATION_DEGREES_MIXED, 5000, 700, 0, 3}},
    {"sample-all-500x70", OPERATION_SAME_CPU, TOLERANCE_SUM, sample, {OPERATION_DEGREES_MIXED, 500, 70, 0, 1}},
    {"sample-typed-900x60", OPERATION_SAME_CPU, TOLERANCE_SUM, sample, {OPERATION_DEGREES_MIXED, 900, 60, 5, 2}},
    {"sample-huge-40x200000", OPERATION_SAME_CPU, TOLERANCE_SUM, sample, {OPERATION_DEGREES_HUGE, 40, 200000, 0, 2}},
    {0},
};
