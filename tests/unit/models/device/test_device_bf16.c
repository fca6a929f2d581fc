/* Rows of BF16: rounded to the nearest, and read by sums and codecs as the floats that they decode to, bit for bit. */
#include "models/device/codec.h"
#include "protocol/base/random.h"
#include "tests/support/device/device_case.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_DRAWN = 4000 };

static float from_half(uint32_t half)
{
    float x;
    uint32_t bits = half << 16;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Of all numbers of BF16 the one that is nearest, by search: of two the one with an even last bit. */
static uint32_t nearest(float x)
{
    uint32_t low = 0, high = 0x7f80; /* of |x|: ends at infinity, which stands for 2^128 */
    double magnitude = fabs((double)x);
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        *((double)from_half(middle) <= magnitude ? &low : &high) = middle;
    }
    double above = high == 0x7f80 ? 0x1p128 : (double)from_half(high), below = (double)from_half(low);
    bool up = above - magnitude < magnitude - below || (above - magnitude == magnitude - below && low % 2 == 1);
    return (up ? high : low) | (signbit(x) ? 0x8000U : 0U);
}

static const float hard[] = {0.0F,      -0.0F,      1.0F,        1.00390625F, 1.01171875F,   -1.00390625F,
                             0x1p-149F, -0x1p-133F, 0x1.8p-134F, 3.4e38F,     -3.4028234e38F};

/* A number of any exponent, now and then between two of BF16. */
static float any_number(uint32_t *state)
{
    *state = *state * 1664525U + 1013904223U;
    uint32_t bits = *state ^ *state >> 13;
    bits = bits % 5 == 0 ? (bits & 0xffff0000U) | 0x8000U : bits;
    float x;
    memcpy(&x, &bits, sizeof x);
    return isfinite(x) ? x : 1.5F;
}

Test(bf16, rows_become_the_nearest_numbers)
{
    static const int64_t widths[] = {1, 2, 7, 16, 33, 100};
    uint32_t state = 3;
    for (int d = 0; d < DEVICE_TABLE_N; d++) {
        struct device *device;
        cr_assert_eq(device_tables[d]->open(1, &device), STATUS_OK);
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            int64_t f = widths[w], n = N_DRAWN / f, row_bytes = codec_row_bytes(DEVICE_CODEC_BF16, f);
            float *x = device_scratch((size_t)(n * f) * sizeof *x),
                  *before = device_scratch((size_t)(n * f) * sizeof *x);
            float *decoded = device_scratch((size_t)(n * f) * sizeof *x);
            char *out = device_scratch((size_t)(n * row_bytes));
            for (int64_t i = 0; i < n * f; i++) {
                before[i] = x[i] = i < (int64_t)(sizeof hard / sizeof *hard) ? hard[i] : any_number(&state);
            }
            memset(out, 0x55, (size_t)(n * row_bytes));
            device->ops->rows_round(device, n, f, x, out);
            device->ops->rows_decode(device, DEVICE_CODEC_BF16, n, f, out, decoded);
            for (int64_t i = 0; i < n * f; i++) {
                float want = from_half(nearest(before[i]));
                uint16_t half;
                memcpy(&half, out + i / f * row_bytes + i % f * 2, sizeof half);
                cr_assert(memcmp(&x[i], &want, sizeof want) == 0, "%s: %a becomes %a, expected %a", device->ops->name,
                          (double)before[i], (double)x[i], (double)want);
                cr_assert_eq(half, nearest(before[i]), "%s: %a", device->ops->name, (double)before[i]);
            }
            cr_assert_arr_eq(decoded, x, (size_t)(n * f) * sizeof *x, "%s", device->ops->name);
            for (int64_t r = 0; r < n && f % 2 == 1; r++) {
                cr_assert(out[(r + 1) * row_bytes - 1] == 0 && out[(r + 1) * row_bytes - 2] == 0, "padding");
            }
            memcpy(decoded, before, (size_t)(n * f) * sizeof *x);
            device->ops->rows_round(device, n, f, decoded, NULL);
            cr_assert_arr_eq(decoded, x, (size_t)(n * f) * sizeof *x, "%s, no rows", device->ops->name);
            free(out);
            free(decoded);
            free(before);
            free(x);
        }
        device->ops->close(device);
    }
}

Test(bf16, what_is_no_number_stays_so)
{
    for (int d = 0; d < DEVICE_TABLE_N; d++) {
        struct device *device;
        float x[4] = {NAN, INFINITY, -INFINITY, 3.4028235e38F};
        cr_assert_eq(device_tables[d]->open(1, &device), STATUS_OK);
        device->ops->rows_round(device, 2, 2, x, NULL);
        cr_expect(isnan(x[0]) && isinf(x[1]) && x[1] > 0.0F && isinf(x[2]) && x[2] < 0.0F && isinf(x[3]), "%s",
                  device->ops->name);
        device->ops->close(device);
    }
}

/* --- sums --- */

static int64_t degree_hub(int64_t row, int64_t n_row)
{
    return row == 2 ? 2 * DEVICE_HUB_EDGES + 7 : row == n_row - 1 ? 7000 : row % 5;
}

/* The sum over rows of BF16, where `panel` in panels, and over the floats that they decode to. */
static void sums_agree(struct device *device, const struct device_block *graph, int64_t f, int turn, void *panel)
{
    size_t n_row = (size_t)graph->n_row, n_col = (size_t)graph->n_col, n_out = n_row * (size_t)f;
    size_t n_x = (n_col > n_row ? n_col : n_row) * (size_t)f; /* own rows, and payload rows */
    float *x = device_random(n_x, (uint32_t)turn + 1), *out = device_random(n_out, 5),
          *want = device_random(n_out, 5);
    float *scale = device_random(n_x / (size_t)f, 2), *weights = device_random((size_t)graph->n_edge + 1, 3);
    void *rows = device_scratch(n_x / (size_t)f * (size_t)codec_row_bytes(DEVICE_CODEC_BF16, f));
    struct device_block block = *graph;
    struct device_aggregate how = {.col_scale = turn & 1 ? scale : NULL,
                                   .self = turn & 2 ? x : NULL,
                                   .self_scale = turn & 4 ? scale : NULL,
                                   .row_scale = turn & 8 ? scale : NULL,
                                   .begin = turn % 3 != 0,
                                   .apart = turn % 3 == 0 && turn & 1,
                                   .finish = turn & 8};
    block.weights = turn & 16 ? weights : NULL;
    cr_assert_eq(device->ops->block_open(device, &block), STATUS_OK);
    device->ops->rows_round(device, (int64_t)(n_x / (size_t)f), f, x, rows);
    device->ops->aggregate_sum(device, &block, &how, f, x, want);
    how.is_bf16 = true;
    how.self = how.self != NULL ? rows : NULL;
    how.panel = panel;
    device->ops->aggregate_sum(device, &block, &how, f, rows, out);
    cr_assert_arr_eq(out, want, n_out * sizeof *out, "%s: f = %d, turn %d", device->ops->name, (int)f, turn);
    device->ops->block_close(device, &block);
    free(rows);
    free(weights);
    free(scale);
    free(want);
    free(out);
    free(x);
}

Test(bf16, sums_are_those_of_the_decoded_rows, .timeout = 300)
{
    static const int64_t widths[] = {1, 3, 8, 16, 17, 31, 64, 100, 129, 256, 300};
    struct device_block graph = device_graph(900, 700, degree_mixed), hubs = device_graph(20, 300000, degree_hub);
    for (int d = 0; d < DEVICE_TABLE_N; d++) {
        struct device *device;
        cr_assert_eq(device_tables[d]->open(2, &device), STATUS_OK);
        for (int turn = 0; turn < 32; turn++) {
            sums_agree(device, &graph, widths[(size_t)turn % (sizeof widths / sizeof *widths)], turn, NULL);
        }
        for (int turn = 1; turn < 32; turn += 10) {
            sums_agree(device, &hubs, turn, turn, NULL);
        }
        device->ops->close(device);
    }
    device_graph_free(&hubs);
    device_graph_free(&graph);
}

/* --- epilogues --- */

/* What steps behind a sum make of element (row, c), one after another. */
static float followed(const struct device_epilogue *e, int64_t row, int64_t c, float x)
{
    const struct device_activate *a = &e->activate;
    const bool drops = a->p > 0.0 && random_u32(&a->key, a->node[row], (uint32_t)c) < a->p * 0x1p32;
    x = e->rounds_sum ? from_half(nearest(x)) : x;
    x = e->bias != NULL ? x + e->bias[c] : x;
    x = e->rounds_biased ? from_half(nearest(x)) : x;
    if (a->activation != DEVICE_ACTIVATION_NONE && x <= 0.0F) {
        x = a->activation == DEVICE_ACTIVATION_RELU ? 0.0F : 0.01F * x;
    }
    x = drops ? 0.0F : x * (float)(1.0 / (1.0 - a->p));
    return e->is_bf16 ? from_half(nearest(x)) : x;
}

/* turn: its bits say what there is. The block's columns are ids of nodes, too, and x is the bias. */
static void epilogue_agrees(struct device *device, const struct device_block *graph, int64_t f, int turn)
{
    const int64_t n = graph->n_row, row_bytes = codec_stored_bytes(turn & 8, f), each = turn & 8 ? 2 : 4;
    float *x = device_random((size_t)(graph->n_col * f), 1), *sum = device_scratch((size_t)(n * f) * sizeof *sum);
    char *out = device_scratch((size_t)(n * row_bytes));
    struct device_block block = *graph;
    struct device_aggregate how = {.begin = true, .finish = true};
    cr_assert_eq(device->ops->block_open(device, &block), STATUS_OK);
    device->ops->aggregate_sum(device, &block, &how, f, x, sum);
    how.epilogue = (struct device_epilogue){true, turn & 1, turn & 2, turn & 8, .bias = turn & 4 ? x : NULL};
    how.epilogue.activate = (struct device_activate){.activation = turn % 3 < 2 ? (enum device_activation)(turn % 3)
                                                                                : DEVICE_ACTIVATION_LEAKY_RELU,
                                                     .p = turn & 16 ? 0.3 : 0.0,
                                                     .key = {.seed = 9, .op = 5},
                                                     .node = block.cols};
    device->ops->aggregate_sum(device, &block, &how, f, x, (float *)(void *)out);
    for (int64_t i = 0; i < n * f; i++) {
        const float want = followed(&how.epilogue, i / f, i % f, sum[i]);
        const uint32_t half = nearest(want); /* and 0 behind a row of an odd number of them */
        const size_t n_same = each == 4 || (f % 2 == 1 && i % f == f - 1) ? 4 : 2;
        const void *expected = each == 2 ? (const void *)&half : &want;
        cr_assert(memcmp(out + i / f * row_bytes + i % f * each, expected, n_same) == 0, "f = %d, turn %d, number %d",
                  (int)f, turn, (int)i);
    }
    device->ops->block_close(device, &block);
    free(out);
    free(sum);
    free(x);
}

Test(bf16, epilogues_make_of_sums_what_steps_behind_them_would, .timeout = 300)
{
    static const int64_t widths[] = {1, 47, 64, 3, 256, 129, 100};
    struct device_block graph = device_graph(300, 700, degree_mixed), hubs = device_graph(20, 300000, degree_hub);
    struct device *device;
    cr_assert_eq(device_tables[DEVICE_TABLE_N - 1]->open(2, &device), STATUS_OK);
    for (int turn = 0; turn < 64 && device->ops->takes_epilogue; turn++) {
        epilogue_agrees(device, turn % 16 == 5 ? &hubs : &graph, widths[turn % 7], turn);
    }
    device->ops->close(device);
    device_graph_free(&hubs);
    device_graph_free(&graph);
}

static int64_t degree_seven(int64_t row, int64_t n_row)
{
    (void)row;
    (void)n_row;
    return 7;
}

Test(bf16, sums_in_panels_are_those_of_the_decoded_rows)
{
    enum { N = 40000 };
    struct device_block graph = device_graph(N, N, degree_seven);
    struct device *device;
    cr_assert_eq(device_cpu.open(2, &device), STATUS_OK);
    for (int turn = 0; turn < 6; turn++) {
        int64_t f = turn % 2 == 0 ? 96 : 75;
        size_t n_panel = DEVICE_BYTES(device->ops, PANEL, N, f);
        float *panel = device_scratch(n_panel);
        sums_agree(device, &graph, f, turn, panel);
        cr_expect_neq(panel[0], 0.0F, "no panel was made");
        free(panel);
    }
    device->ops->close(device);
    device_graph_free(&graph);
}

/* --- codecs --- */

/* Encoded rows of BF16 against those of the floats that they decode to, with what was lost. */
static void codes_agree(struct device *device, enum device_codec codec, int64_t f, bool loses)
{
    enum { N = 90 };
    size_t n = (size_t)(N * f), n_bytes = (size_t)(N * codec_row_bytes(codec, f));
    float *x = device_random(n, 1), *residual = device_random(n, 2);
    float *lost[2] = {device_scratch(n * sizeof *x), device_scratch(n * sizeof *x)};
    void *rows = device_scratch((size_t)(N * codec_row_bytes(DEVICE_CODEC_BF16, f)));
    char *coded[2] = {device_scratch(n_bytes), device_scratch(n_bytes)};
    uint32_t node[N];
    for (uint32_t r = 0; r < N; r++) {
        node[r] = 31 * r;
    }
    device->ops->rows_round(device, N, f, x, rows);
    for (int k = 0; k < 2; k++) {
        const struct device_coding how = {.codec = codec,
                                          .n_row = N,
                                          .f = f,
                                          .factor = loses ? 1.0F : 2.5F,
                                          .x = k == 0 ? (const void *)x : rows,
                                          .is_bf16 = k == 1,
                                          .key = {.seed = 7, .stream = RANDOM_STREAM_CODEC},
                                          .node = node,
                                          .residual = loses ? residual : NULL,
                                          .residual_out = loses ? lost[k] : NULL};
        device->ops->rows_encode(device, &how, coded[k]);
    }
    cr_expect_arr_eq(coded[0], coded[1], n_bytes, "%s, codec %d, f = %d", device->ops->name, (int)codec, (int)f);
    cr_expect_arr_eq(lost[0], lost[1], n * sizeof *x, "%s, codec %d, f = %d", device->ops->name, (int)codec, (int)f);
    for (int k = 0; k < 2; k++) {
        free(coded[k]);
        free(lost[k]);
    }
    free(rows);
    free(residual);
    free(x);
}

Test(bf16, codes_are_those_of_the_decoded_rows)
{
    static const int64_t widths[] = {2, 9, 64, 255, 300};
    for (int d = 0; d < DEVICE_TABLE_N; d++) {
        struct device *device;
        cr_assert_eq(device_tables[d]->open(1, &device), STATUS_OK);
        for (int i = 0; i < 40; i++) {
            enum device_codec codec = (enum device_codec)(DEVICE_CODEC_BF16 + i % 4);
            codes_agree(device, codec, widths[i / 8], i / 4 % 2 == 1);
        }
        device->ops->close(device);
    }
}
