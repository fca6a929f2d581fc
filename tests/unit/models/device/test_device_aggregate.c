#include "models/device/device.h"
#include "protocol/base/random.h"
#include "tests/support/device/device_case.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

static const int64_t widths[] = {1, 3, 7, 16, 17, 33, 64, 100, 128, 200, 256, 300};

static void sum(const struct device_ops *ops, struct device_block block, int64_t f, const float *x, float *out)
{
    struct device *device;
    cr_assert_eq(ops->open(2, &device), STATUS_OK);
    cr_assert_eq(ops->block_open(device, &block), STATUS_OK);
    ops->aggregate_sum(device, &block, &(struct device_aggregate){.begin = true}, f, x, out);
    ops->block_close(device, &block);
    ops->close(device);
}

static int64_t degree_hub(int64_t row, int64_t n_row)
{
    return row == 2 ? 200000 : row == n_row - 1 ? 70000 : row % 5;
}

Test(aggregate, a_large_output_that_goes_past_the_caches_has_the_same_values)
{
    int64_t n = 270000, f = 64; /* 69 MB: stores are streamed from 64 MiB on */
    struct device_block block = device_graph(n, n, degree_mixed);
    float *x = device_random((size_t)(n * f), 1), *streamed = NULL,
          *expected = device_scratch((size_t)(n * f) * sizeof *x);
    cr_assert_eq(memory_acquire(MEMORY_OTHER, (size_t)(n * f), sizeof *streamed, &streamed), STATUS_OK);
    sum(&device_cpu, block, f, x, streamed);
    sum(&device_reference, block, f, x, expected);
    for (int64_t i = 0; i < n * f; i++) {
        cr_assert(fabs((double)streamed[i] - expected[i]) <= 1e-5);
    }
    memory_release(MEMORY_OTHER, streamed, (size_t)(n * f), sizeof *streamed);
    free(x);
    free(expected);
    device_graph_free(&block);
}

/* --- merged blocks --- */

enum { N_MERGED = 5, N_ROW = 40, N_COL = 5000 };
static struct random_key degrees_of = {.stream = RANDOM_STREAM_INIT}; /* seed: the block */

/* None, few, as many as a piece has or nearly, several pieces. */
static int64_t degree_pieces(int64_t row, int64_t n_row)
{
    static const int64_t degrees[] = {0, 0, 1, 7, 200, 255, 256, 257, 511, 512, 513, 2000};
    (void)n_row;
    return degrees[(int)(random_unit(&degrees_of, (uint64_t)row, 0) * 12.0F)];
}

/* A block's sums as D95 has them; apart: made from 0, and then added. */
static void oracle(const struct device_block *b, int64_t f, const float *x, const float *scale, bool apart,
                   float *out)
{
    for (int64_t i = 0; i < N_ROW * f; i++) {
        const int64_t begin = b->indptr[i / f], n = b->indptr[i / f + 1] - begin;
        float sum = apart ? 0.0F : out[i], piece = 0.0F;
        for (int64_t e = 0; e < n; e++) {
            const uint32_t col = b->cols[begin + e];
            float *to = n > 256 ? &piece : &sum;
            *to = fmaf(scale[col], x[col * f + i % f], *to);
            if (n > 256 && (e % 256 == 255 || e == n - 1)) {
                sum += piece;
                piece = 0.0F;
            }
        }
        out[i] = apart ? out[i] + sum : sum;
    }
}

static void merged_agrees(struct device *device, int64_t f, bool apart)
{
    struct device_block block[N_MERGED + 1];
    const size_t n = (size_t)(N_ROW * f);
    float *x = device_random((size_t)(N_COL * f), 1), *scale = device_random(N_COL, 2), *out[3];
    for (int b = 0; b < N_MERGED; b++) {
        degrees_of.seed = (uint32_t)(f * N_MERGED + b);
        block[b] = device_graph(N_ROW, N_COL, degree_pieces);
    }
    block[N_MERGED] = device_merge(N_MERGED, block, apart);
    out[0] = device_random(n, 3);
    out[1] = device_random(n, 3);
    out[2] = device_random(n, 3);
    for (int b = 0; b <= N_MERGED; b++) {
        cr_assert_eq(device->ops->block_open(device, &block[b]), STATUS_OK);
        const struct device_aggregate how = {.col_scale = scale, .apart = apart && b > 0 && b < N_MERGED};
        device->ops->aggregate_sum(device, &block[b], &how, f, x, out[b == N_MERGED]);
        if (b < N_MERGED) {
            oracle(&block[b], f, x, scale, how.apart, out[2]);
        }
        device->ops->block_close(device, &block[b]);
        device_graph_free(&block[b]);
    }
    for (int k = 0; k < 3; k++) {
        cr_expect_arr_eq(out[k], out[2], n * sizeof *x, "%s: f = %d, apart %d, %s", device->ops->name, (int)f, apart,
                         k == 0 ? "one by one" : "merged");
        free(out[k]);
    }
    free(x);
    free(scale);
}

Test(aggregate, merged_blocks_and_blocks_one_by_one_have_the_bits_of_sums_in_pieces)
{
    for (int d = 0; d < DEVICE_TABLE_N; d++) {
        struct device *device;
        cr_assert_eq(device_tables[d]->open(2, &device), STATUS_OK);
        for (size_t i = 0; i < 2 * sizeof widths / sizeof *widths && device->ops->merged_edges > 0; i++) {
            merged_agrees(device, widths[i / 2], i % 2 == 1);
        }
        device_tables[d]->close(device);
    }
}

/* --- panels of columns --- */

static int64_t degree_seven(int64_t row, int64_t n_row)
{
    (void)row;
    (void)n_row;
    return 7;
}

static int64_t degree_seven_and_hub(int64_t row, int64_t n_row)
{
    return row == n_row / 2 ? DEVICE_HUB_EDGES + 5 : 7;
}

/* The same bits with the scratch for panels as without. */
static void panels_agree(struct device *device, struct device_block *block, int64_t f)
{
    const size_t n = (size_t)(block->n_row * f), n_panel = DEVICE_BYTES(device->ops, PANEL, block->n_col, f);
    float *x = device_random((size_t)(block->n_col * f), 1), *scale = device_random((size_t)block->n_col, 2);
    float *out = device_scratch(n * sizeof *out), *expected = device_scratch(n * sizeof *expected);
    float *panel = device_scratch(n_panel);
    cr_assert_gt(n_panel, 0);
    for (int k = 0; k < 4; k++) {
        struct device_aggregate how = {.col_scale = k & 1 ? scale : NULL,
                                       .self = k < 2 ? x : NULL,
                                       .self_scale = scale,
                                       .row_scale = scale,
                                       .begin = true,
                                       .finish = k > 0};
        device->ops->aggregate_sum(device, block, &how, f, x, expected);
        how.panel = panel;
        device->ops->aggregate_sum(device, block, &how, f, x, out);
        cr_expect_arr_eq(out, expected, n * sizeof *out, "f = %d, %d", (int)f, k);
        cr_assert_neq(panel[0], 0.0F, "no panel was made");
        if (block->bordered) {
            continue;
        }
        how.begin = false;
        how.apart = k > 1;
        device->ops->aggregate_sum(device, block, &how, f, x, out);
        how.panel = NULL;
        device->ops->aggregate_sum(device, block, &how, f, x, expected);
        cr_expect_arr_eq(out, expected, n * sizeof *out, "added, f = %d, %d", (int)f, k);
    }
    free(panel);
    free(expected);
    free(out);
    free(scale);
    free(x);
}

Test(aggregate, sums_in_panels_of_columns_have_the_bits_of_sums_over_whole_rows)
{
    static const int64_t shapes[][2] = {{70000, 33}, {40000, 64}, {12000, 200}, {9000, 256}};
    struct device *device;
    cr_assert_eq(device_cpu.open(2, &device), STATUS_OK);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct device_block block = device_graph(shapes[i][0], shapes[i][0],
                                                 i == 0 ? degree_seven_and_hub : degree_seven);
        block.bordered = i % 2 == 1;
        for (int64_t e = 2; block.bordered && e < block.n_edge; e += 3) { /* where a block begins */
            ((uint32_t *)(uintptr_t)block.cols)[e] |= DEVICE_BORDER;
        }
        cr_assert_eq(device_cpu.block_open(device, &block), STATUS_OK);
        panels_agree(device, &block, shapes[i][1]);
        device_cpu.block_close(device, &block);
        device_graph_free(&block);
    }
    device_cpu.close(device);
}

Test(aggregate, a_panel_of_more_rows_takes_no_less)
{
    for (int64_t f = 1; f < 600; f += 31) {
        for (int64_t n = 1000; n < 4000000; n = n * 5 / 4) {
            cr_assert_geq(DEVICE_BYTES(&device_cpu, PANEL, n + n / 4, f), DEVICE_BYTES(&device_cpu, PANEL, n, f));
        }
    }
}

/* As a sum that another part makes and sends: from 0, and then added. */
Test(aggregate, a_hub_rows_sum_apart_has_the_bits_of_a_sum_of_its_own_that_is_added)
{
    struct device_block hub = device_graph(20, 250000, degree_hub);
    struct device *device;
    const size_t f = 17, n = 20 * f;
    float *x = device_random(250000 * f, 1), *scale = device_random(250000, 2);
    float *out = device_random(n, 3), *expected = device_random(n, 3), *alone = device_scratch(n * sizeof *alone);
    const struct device_aggregate apart = {.col_scale = scale, .apart = true},
                                  begin = {.col_scale = scale, .begin = true};
    cr_assert_eq(device_cpu.open(2, &device), STATUS_OK);
    cr_assert_eq(device_cpu.block_open(device, &hub), STATUS_OK);
    device_cpu.aggregate_sum(device, &hub, &begin, f, x, alone);
    device_cpu.aggregate_sum(device, &hub, &apart, f, x, out);
    for (size_t k = 0; k < n; k++) {
        expected[k] += alone[k];
    }
    cr_expect_arr_eq(out, expected, n * sizeof *out);
    device_cpu.block_close(device, &hub);
    device_cpu.close(device);
    device_graph_free(&hub);
    free(alone);
    free(expected);
    free(out);
    free(scale);
    free(x);
}
