#include "models/device/device.h"
#include "tests/support/device/device_case.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

struct aggregate {
    struct device_block block;
    struct device_aggregate how;
    int64_t f;
    const float *x;
};

static const int64_t widths[] = {1, 3, 7, 16, 17, 33, 64, 100, 128, 200, 256, 300};

static void open_block(struct device *device, const struct aggregate *a, struct device_block *block)
{
    *block = a->block;
    cr_assert_eq(device->ops->block_open(device, block), STATUS_OK);
}

static void sum(struct device *device, const void *context, float *out)
{
    const struct aggregate *a = context;
    struct device_block block;
    open_block(device, a, &block);
    device->ops->aggregate_sum(device, &block, &a->how, a->f, a->x, out);
    device->ops->block_close(device, &block);
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
    struct aggregate a = {.block = block, .how = {.begin = true}, .f = f, .x = x};
    struct device *device = NULL;
    cr_assert_eq(device_cpu.open(2, &device), STATUS_OK);
    sum(device, &a, streamed);
    device_cpu.close(device);
    cr_assert_eq(device_reference.open(1, &device), STATUS_OK);
    sum(device, &a, expected);
    device_reference.close(device);
    for (int64_t i = 0; i < n * f; i++) {
        cr_assert(fabs((double)streamed[i] - expected[i]) <= 1e-5);
    }
    memory_release(MEMORY_OTHER, streamed, (size_t)(n * f), sizeof *streamed);
    free(x);
    free(expected);
    device_graph_free(&block);
}

/* --- merged blocks --- */

enum { N_MERGED = 4, N_ROW = 12, N_COL = 5000 };

/* How many edges row r has in block b: few, as many as a piece has, or one more, or many; where sums of blocks are apart no row of a block has
 * more than a piece. */
static int64_t edges_of(int64_t r, int b, bool apart)
{
    static const int64_t few[] = {0, 1, 255, 256, 7, 200}, many[] = {257, 1000, 512, 0, 30000, 256};
    return !apart && (r + b) % 3 == 0 ? many[(r * 5 + b) % 6] : few[(r + b * (r + 1)) % 6];
}

/* Blocks over the same rows and columns, and behind them all in one, marked as device_block says. */
static void merged_blocks(bool apart, struct device_block out[N_MERGED + 1])
{
    static int64_t indptr[N_MERGED + 1][N_ROW + 1];
    for (int b = 0; b <= N_MERGED; b++) {
        out[b] = (struct device_block){.n_row = N_ROW, .n_col = N_COL, .indptr = indptr[b]};
        out[b].cols = calloc(N_ROW * N_MERGED * 30000, sizeof *out[b].cols);
    }
    for (int64_t r = 0; r < N_ROW; r++) {
        bool has_pieces = false;
        for (int b = 0; b < N_MERGED; b++) {
            const int64_t n = edges_of(r, b, apart);
            for (int64_t e = 0; e < n; e++) {
                const uint32_t col = (uint32_t)(((e + b) * 7919 + r) % N_COL);
                const uint32_t mark = n > 256 ? (e % 256 == 0 ? DEVICE_BORDER : 0)
                                      : e > 0 ? 0
                                      : apart ? (b > 0 ? DEVICE_BORDER : 0)
                                              : (has_pieces ? DEVICE_BACK : 0);
                ((uint32_t *)(uintptr_t)out[b].cols)[out[b].n_edge++] = col;
                ((uint32_t *)(uintptr_t)out[N_MERGED].cols)[out[N_MERGED].n_edge++] = col | mark;
            }
            has_pieces = has_pieces || n > 256;
            indptr[b][r + 1] = out[b].n_edge;
        }
        indptr[N_MERGED][r + 1] = out[N_MERGED].n_edge;
    }
    out[N_MERGED].bordered = apart;
    out[N_MERGED].marked = true;
}

static void merged_agrees(const struct device_ops *ops, int64_t f, bool apart)
{
    struct device_block block[N_MERGED + 1];
    struct device *device;
    float *x = device_random((size_t)(N_COL * f), 1), *scale = device_random(N_COL, 2), *out[2];
    merged_blocks(apart, block);
    cr_assert_eq(ops->open(2, &device), STATUS_OK);
    for (int b = 0; b <= N_MERGED; b++) {
        cr_assert_eq(ops->block_open(device, &block[b]), STATUS_OK);
    }
    for (int k = 0; k < 2; k++) {
        struct device_aggregate how = {
            .col_scale = k > 0 ? scale : NULL, .self = x, .self_scale = scale, .begin = true};
        out[0] = device_scratch((size_t)(N_ROW * f) * sizeof *out[0]);
        out[1] = device_scratch((size_t)(N_ROW * f) * sizeof *out[1]);
        ops->aggregate_sum(device, &block[N_MERGED], &how, f, x, out[0]);
        for (int b = 0; b < N_MERGED; b++) {
            how.begin = b == 0;
            how.apart = apart && b > 0;
            ops->aggregate_sum(device, &block[b], &how, f, x, out[1]);
        }
        cr_expect_arr_eq(out[0], out[1], (size_t)(N_ROW * f) * sizeof *out[0], "%s: f = %d, apart %d", ops->name,
                         (int)f, apart);
        free(out[0]);
        free(out[1]);
    }
    for (int b = 0; b <= N_MERGED; b++) {
        ops->block_close(device, &block[b]);
        free((void *)(uintptr_t)block[b].cols);
    }
    ops->close(device);
    free(x);
    free(scale);
}

Test(aggregate, merged_blocks_have_the_bits_of_blocks_one_by_one)
{
    for (int d = 0; d < DEVICE_TABLE_N; d++) {
        for (size_t i = 0; i < sizeof widths / sizeof *widths && device_tables[d]->merged_edges > 0; i += 3) {
            merged_agrees(device_tables[d], widths[i], false);
            merged_agrees(device_tables[d], widths[i], true);
        }
    }
}

/* A row of many ones, and then of ever smaller numbers, is nearly as exact as a sum in double. */
Test(aggregate, rows_of_many_edges_lose_little)
{
    for (int64_t n = 255; n < 80000; n = n * 3 + n % 2) {
        const int64_t indptr[] = {0, n};
        uint32_t *cols = calloc((size_t)n, sizeof *cols);
        float *x = calloc((size_t)n, sizeof *x), out;
        double want = 0.0;
        for (int64_t e = 0; e < n; e++) {
            cols[e] = (uint32_t)(n - 1 - e);
            want += x[cols[e]] = (float)(0.1 + (double)(e % 1000) / 999.0);
        }
        struct aggregate a = {.block = {.n_row = 1, .n_col = n, .n_edge = n, .indptr = indptr, .cols = cols},
                              .how = {.begin = true},
                              .f = 1,
                              .x = x};
        for (int d = 0; d < DEVICE_TABLE_N; d++) {
            struct device *device;
            cr_assert_eq(device_tables[d]->open(1, &device), STATUS_OK);
            sum(device, &a, &out);
            device_tables[d]->close(device);
            cr_expect(fabs(out / want - 1.0) < 3e-6, "%s: %lld edges: %.1e", device_tables[d]->name, (long long)n,
                      out / want - 1.0);
        }
        free(cols);
        free(x);
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
static void apart_agrees(struct device *device, const struct device_block *block, int64_t f)
{
    size_t n = (size_t)(block->n_row * f);
    float *x = device_random((size_t)(block->n_col * f), 1), *scale = device_random((size_t)block->n_col, 2);
    float *out = device_random(n, 3), *expected = device_random(n, 3), *alone = device_scratch(n * sizeof *alone);
    const struct device_aggregate apart = {.col_scale = scale, .apart = true},
                                  begin = {.col_scale = scale, .begin = true};
    device->ops->aggregate_sum(device, block, &begin, f, x, alone);
    device->ops->aggregate_sum(device, block, &apart, f, x, out);
    for (size_t k = 0; k < n; k++) {
        expected[k] += alone[k];
    }
    cr_expect_arr_eq(out, expected, n * sizeof *out, "%d rows, f = %d", (int)block->n_row, (int)f);
    free(alone);
    free(expected);
    free(out);
    free(scale);
    free(x);
}

Test(aggregate, a_sum_apart_has_the_bits_of_a_sum_of_its_own_that_is_added)
{
    struct device_block mixed = device_graph(700, 400, degree_mixed), hub = device_graph(20, 250000, degree_hub);
    struct device *device;
    cr_assert_eq(device_cpu.open(2, &device), STATUS_OK);
    cr_assert_eq(device_cpu.block_open(device, &mixed), STATUS_OK);
    cr_assert_eq(device_cpu.block_open(device, &hub), STATUS_OK);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        apart_agrees(device, &mixed, widths[i]);
    }
    apart_agrees(device, &hub, 17);
    device_cpu.block_close(device, &hub);
    device_cpu.block_close(device, &mixed);
    device_cpu.close(device);
    device_graph_free(&hub);
    device_graph_free(&mixed);
}
