/* Sums over neighbours by a library in place of the device's own kernels; emulated, since no other device has one. */
#include "models/device/device.h"
#include "tests/support/device/device_case.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(sums, the_cpu_and_the_reference_have_no_library_for_them)
{
    cr_expect_null(device_cpu.sums_open);
    cr_expect_null(device_reference.sums_open);
}

#ifdef CUDA_EMULATED

struct sum {
    struct device_block block;
    struct device_aggregate how;
    int64_t f;
    const float *x;
};

static const int64_t widths[] = {1, 3, 16, 33, 128};
#define N_WIDTH (sizeof widths / sizeof *widths)

static struct device_sums sums_of(int64_t n_node)
{
    struct device_sums sums = {.n_node = n_node, .n_width = (int)N_WIDTH, .plain = true, .scaled = true};
    memcpy(sums.width, widths, sizeof widths);
    return sums;
}

static void open_block(struct device *device, const struct sum *s, struct device_block *block)
{
    const struct device_sums sums = sums_of(s->block.n_col + 50);
    const struct device_sum_sizes planned = {.n_col = s->block.n_col};
    *block = s->block;
    if (device->ops->sums_open != NULL) {
        cr_assert_eq(device->ops->sums_open(device, &sums), STATUS_OK, "%s", status_reason());
    }
    cr_assert_eq(device->ops->block_open(device, block), STATUS_OK, "%s", status_reason());
    if (device->ops->sums_open != NULL) {
        cr_assert_eq(device->ops->sums_take(device, &planned), STATUS_OK, "%s", status_reason());
        cr_assert_eq(block->matrix != NULL, block->types == NULL && block->n_edge > 0);
    }
}

static void sum(struct device *device, const void *context, float *out)
{
    const struct sum *s = context;
    struct device_block block;
    open_block(device, s, &block);
    device->ops->aggregate_sum(device, &block, &s->how, s->f, s->x, out);
    cr_assert_eq(device_sync(device), STATUS_OK, "%s", status_reason());
    device->ops->block_close(device, &block);
}

/* All ways of surrounding a sum. `apart` is no way of its own: a library's sums are. */
static void check_sum(const struct device_block *block, int64_t f, int64_t n_own)
{
    float *x = device_random((size_t)(block->n_col * f + 1), 1), *self = device_random((size_t)(n_own * f), 2);
    float *col_scale = device_random((size_t)block->n_col, 3), *scale = device_random((size_t)n_own, 4);
    const struct device_aggregate begins[] = {
        {.begin = true},
        {.begin = true, .self = self, .finish = true},
        {.begin = true,
         .self = self,
         .self_scale = scale,
         .col_scale = col_scale,
         .row_scale = scale,
         .finish = true},
        {.begin = true, .row_scale = scale, .finish = true},
    };
    const struct device_aggregate adds[] = {
        {.col_scale = col_scale, .self = self},
        {.apart = true, .col_scale = col_scale},
        {.row_scale = scale, .finish = true},
        {.row_scale = scale},
    };
    for (int i = 0; i < 4; i++) {
        /* Rows of x that begin at a multiple of 16 bytes, and rows that do not, as may be where they are not so
         * long. */
        for (int shift = 0; shift < (f % 4 != 0 ? 2 : 1); shift++) {
            struct sum s = {.block = *block, .f = f, .x = x + shift, .how = adds[i]};
            device_check_close("a sum that is added", sum, &s, (size_t)(n_own * f), TOLERANCE_SUM);
            s.how = begins[i];
            if (block->rows == NULL) {
                device_check_close("a sum that begins", sum, &s, (size_t)(n_own * f), TOLERANCE_SUM);
            }
        }
    }
    free(x);
    free(self);
    free(col_scale);
    free(scale);
}

Test(sums, a_library_makes_them_for_every_width_and_all_that_surrounds_them)
{
    struct device_block block = device_graph(300, 200, degree_mixed);
    for (size_t i = 0; i < N_WIDTH; i++) {
        check_sum(&block, widths[i], block.n_row);
    }
    device_graph_free(&block);
}

Test(sums, a_library_multiplies_by_weights)
{
    struct device_block block = device_graph(300, 200, degree_mixed);
    float *weights = device_random((size_t)block.n_edge, 9);
    block.weights = weights;
    check_sum(&block, 16, block.n_row);
    check_sum(&block, 33, block.n_row);
    device_graph_free(&block);
    free(weights);
}

/* Rows 1, 3, 5, … of twice as many, and arrays that begin anywhere, as blocks between parts do. */
Test(sums, a_library_adds_to_rows_that_a_block_lists)
{
    struct device_block made = device_graph(150, 200, degree_mixed), block = made;
    uint32_t *rows = device_scratch((size_t)made.n_row * sizeof *rows),
             *cols = device_scratch((size_t)(made.n_edge + 1) * sizeof *cols);
    float *weights = device_random((size_t)made.n_edge + 1, 9);
    for (int64_t r = 0; r < made.n_row; r++) {
        rows[r] = (uint32_t)(2 * r + 1);
    }
    memcpy(cols + 1, made.cols, (size_t)made.n_edge * sizeof *cols);
    block.rows = rows;
    block.cols = cols + 1;
    check_sum(&block, 3, 2 * made.n_row);
    check_sum(&block, 16, 2 * made.n_row);
    block.weights = weights + 1;
    check_sum(&block, 16, 2 * made.n_row);
    block.rows = NULL;
    check_sum(&block, 16, made.n_row);
    device_graph_free(&made);
    free(rows);
    free(cols);
    free(weights);
}

Test(sums, a_width_that_was_not_named_goes_by_the_devices_own_kernels)
{
    struct device_block graph = device_graph(300, 200, degree_mixed), block;
    struct sum s = {.block = graph, .how = {.begin = true}, .f = 20, .x = device_random(200 * 20, 1)};
    float *own = device_scratch(300 * 20 * sizeof *own), *got = device_scratch(300 * 20 * sizeof *got);
    struct device *device = NULL;
    cr_assert_eq(device_cuda.open(1, &device), STATUS_OK, "%s", status_reason());
    device_cuda.aggregate_sum(device, &graph, &s.how, s.f, s.x, own);
    open_block(device, &s, &block);
    device_cuda.aggregate_sum(device, &block, &s.how, s.f, s.x, got);
    cr_assert_eq(device_sync(device), STATUS_OK, "%s", status_reason());
    cr_assert_eq(memcmp(own, got, 300 * 20 * sizeof *got), 0);
    device_cuda.block_close(device, &block);
    device_cuda.close(device);
    free((void *)(uintptr_t)s.x);
    free(own);
    free(got);
    device_graph_free(&graph);
}

static int64_t structure_peak(void)
{
    return memory_peak(MEMORY_PLACE_DEVICE, MEMORY_STRUCTURE);
}

Test(sums, their_memory_is_what_is_planned_from_what_the_library_says)
{
    struct device_block graph = device_graph(50, 2000, degree_mixed);
    const struct device_sums sums = sums_of(2000);
    struct device_sum_sizes planned = {
        .n_row = 50, .n_edge = graph.n_edge, .n_col = 70, .n_unweighted = graph.n_edge};
    struct device *device = NULL;
    cr_assert_eq(device_cuda.open(1, &device), STATUS_OK, "%s", status_reason());
    int64_t context = device->capacity.n_context;
    cr_assert_eq(device_cuda.sums_open(device, &sums), STATUS_OK, "%s", status_reason());
    cr_expect_gt(device->capacity.n_context, context, "the library has memory of its own");
    for (size_t i = 0; i < N_WIDTH; i++) {
        int64_t says = (int64_t)device_cuda.sums_buffer(device, 2000, 50, graph.n_edge, widths[i]);
        int64_t most = (int64_t)device_cuda.sums_buffer(NULL, 2000, 50, graph.n_edge, widths[i]);
        cr_expect_leq(says, most, "width %d: %lld of at most %lld", (int)widths[i], (long long)says, (long long)most);
        planned.n_buffer = says > planned.n_buffer ? says : planned.n_buffer;
    }
    int64_t before = structure_peak();
    cr_assert_eq(device_cuda.block_open(device, &graph), STATUS_OK, "%s", status_reason());
    cr_assert_eq(structure_peak(), before, "no row is long, and descriptors are the host's");
    cr_assert_eq(device_cuda.sums_take(device, &planned), STATUS_OK, "%s", status_reason());
    cr_assert_eq(structure_peak() - before, (int64_t)device_cuda.sums_bytes(&sums, &planned));
    device_cuda.block_close(device, &graph);
    device_cuda.close(device);
    device_graph_free(&graph);
}

Test(sums, without_the_library_what_was_looked_for_is_told)
{
    const struct device_sums sums = sums_of(10);
    struct device *device = NULL;
    setenv("EMULATOR_SPARSE", "0", 1);
    cr_assert_eq(device_cuda.open(1, &device), STATUS_OK, "%s", status_reason());
    cr_assert_eq(device_cuda.sums_open(device, &sums), STATUS_PEER);
    cr_assert_str_eq(
        status_reason(),
        "model.kernel is \"cusparse\": cuSPARSE 12 is not on this machine: there is neither libcusparse.so.12 in the "
        "linker's folders (LD_LIBRARY_PATH) nor /usr/local/cuda/lib64/libcusparse.so.12, with all functions that "
        "are called");
    device_cuda.close(device);
}

#endif
