/* Payload rows in low precision: the same bytes on every device, the right number on average, nothing finite made of
 * what is not. */
#include "models/device/codec.h"
#include "tests/support/device/device_case.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_ROW = 300, N_LISTED = 130 };

static const enum device_codec codecs[] = {DEVICE_CODEC_BF16, DEVICE_CODEC_INT8, DEVICE_CODEC_INT4,
                                           DEVICE_CODEC_INT2};
enum { N_CODEC = sizeof codecs / sizeof *codecs };

static uint32_t node[N_ROW], listed[N_LISTED];

static void begin(void)
{
    for (uint32_t r = 0; r < N_ROW; r++) {
        node[r] = 1000003 * r % 99991;
    }
    for (uint32_t i = 0; i < N_LISTED; i++) {
        listed[i] = 2 * i + 1;
    }
}

TestSuite(codec, .init = begin);

static struct device_coding coding(enum device_codec codec, int64_t f, const float *x)
{
    return (struct device_coding){.codec = codec,
                                  .n_row = N_LISTED,
                                  .f = f,
                                  .rows = listed,
                                  .factor = 1.0F,
                                  .x = x,
                                  .key = {.seed = 7, .epoch = 3, .op = 5, .stream = RANDOM_STREAM_CODEC},
                                  .node = node};
}

static void numbers(struct device *device, const void *context, float *out)
{
    const struct device_coding *how = context;
    void *made = device_scratch((size_t)(how->n_row * codec_row_bytes(how->codec, how->f)) + 1);
    device->ops->rows_encode(device, how, made);
    device->ops->rows_decode(device, how->codec, how->n_row, how->f, made, out);
    free(made);
}

static struct device *cpu(void)
{
    struct device *device;
    cr_assert_eq(device_cpu.open(1, &device), STATUS_OK);
    return device;
}

/* The distance between the two values that x may become. */
static double step_of(enum device_codec codec, const void *row, double x)
{
    if (codec == DEVICE_CODEC_BF16) {
        return ldexp(1.0, ilogb(x) - 7);
    }
    uint32_t header;
    memcpy(&header, row, sizeof header);
    return codec_range_read(header, (1 << codec_bits(codec)) - 1).step;
}

/* x lies between two values, `below` above the lower one, and becomes the upper one with chance below / step: over
 * many epochs its mean is x within 4 standard errors, and it is never further from x than a step. */
Test(codec, rounding_is_right_on_average_and_within_a_step)
{
    enum { F = 12, N = N_LISTED * F, N_EPOCH = 4000 };
    struct device *device = cpu();
    float *x = device_random(N_ROW * F, 3), *out = device_scratch(N * sizeof *out);
    double *sum = device_scratch(N * sizeof *sum), *below = device_scratch(N * sizeof *below);
    for (int k = 0; k < N_CODEC; k++) {
        struct device_coding how = coding(codecs[k], F, x);
        int64_t row_bytes = codec_row_bytes(how.codec, F);
        uint8_t *made = device_scratch((size_t)(N_LISTED * row_bytes));
        device_cpu.rows_encode(device, &how, made);
        for (int i = 0; i < N; i++) {
            sum[i] = below[i] = 0.0;
        }
        for (uint32_t epoch = 0; epoch < N_EPOCH; epoch++) {
            how.key.epoch = epoch;
            numbers(device, &how, out);
            for (int i = 0; i < N; i++) {
                double error = (double)out[i] - x[listed[i / F] * F + i % F];
                sum[i] += error;
                below[i] = fmax(below[i], -error);
            }
        }
        int n_far = 0;
        for (int i = 0; i < N; i++) {
            double value = x[listed[i / F] * F + i % F], step = step_of(how.codec, made + i / F * row_bytes, value);
            cr_assert_leq(below[i], step * (1.0 + 1e-5), "codec %d, element %d: %g below, a step is %g", k, i,
                          below[i], step);
            double variance = below[i] * fmax(step - below[i], 0.0);
            n_far += fabs(sum[i] / N_EPOCH) > 4.0 * sqrt(variance / N_EPOCH) + 1e-3 * step;
        }
        cr_expect_leq(n_far, 2, "codec %d: %d of %d elements are off on average", k, n_far, N); /* 0.1 expected */
        free(made);
    }
    free(x);
    free(out);
    free(sum);
    free(below);
    device_cpu.close(device);
}

Test(codec, a_row_with_a_number_that_is_not_finite_stays_one_and_spoils_no_other)
{
    enum { F = 40 };
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct device *device = cpu();
    float *x = device_random(N_ROW * F, 3), *out = device_scratch(N_LISTED * F * sizeof *out);
    for (int b = 0; b < 3; b++) {
        x[listed[7] * F + 33] = bad[b];
        for (int k = 0; k < N_CODEC; k++) {
            struct device_coding how = coding(codecs[k], F, x);
            numbers(device, &how, out);
            for (int i = 0; i < N_LISTED * F; i++) {
                bool spoilt = codecs[k] == DEVICE_CODEC_BF16 ? i == 7 * F + 33 : i / F == 7;
                cr_assert_eq(isfinite(out[i]) == 0, spoilt, "codec %d, element %d is %g", k, i, (double)out[i]);
            }
        }
    }
    free(x);
    free(out);
    device_cpu.close(device);
}

Test(codec, what_a_range_cannot_tell_apart_is_kept_as_it_is)
{
    enum { F = 5 };
    static const float values[] = {0.0F, 1.0F, -3.0F, 0.3F, -1e-30F, 3e38F, -0.0F};
    struct device *device = cpu();
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        float x[N_ROW * F], out[N_LISTED * F];
        for (int i = 0; i < N_ROW * F; i++) {
            x[i] = values[v];
        }
        for (int k = 1; k < N_CODEC; k++) {
            struct device_coding how = coding(codecs[k], F, x);
            numbers(device, &how, out);
            for (int i = 0; i < N_LISTED * F; i++) {
                cr_assert_leq(fabsf(out[i] - values[v]), 0x1p-7F * fabsf(values[v]), "codec %d: %g became %g", k,
                              (double)values[v], (double)out[i]);
            }
        }
    }
    device_cpu.close(device);
}

Test(codec, a_row_takes_its_bits_and_four_bytes_for_its_range)
{
    cr_expect_eq(codec_row_bytes(DEVICE_CODEC_FP32, 256), 1024);
    cr_expect_eq(codec_row_bytes(DEVICE_CODEC_BF16, 256), 512);
    cr_expect_eq(codec_row_bytes(DEVICE_CODEC_INT8, 256), 260);
    cr_expect_eq(codec_row_bytes(DEVICE_CODEC_INT4, 256), 132);
    cr_expect_eq(codec_row_bytes(DEVICE_CODEC_INT2, 256), 68);
    cr_expect_eq(codec_row_bytes(DEVICE_CODEC_INT4, 9), 12);
    cr_expect_eq(codec_row_bytes(DEVICE_CODEC_BF16, 3), 8);
}

/* --- error feedback --- */

/* Row r has its residual at place 3 r + 1 of these. */
enum { N_PLACE = 3 * N_ROW + 2 };
/* The first n epochs' mean of rows that are the same in all of them, with what was lost fed back or without: the root
 * of the mean square of its error. */
static double error_of_mean(struct device *device, enum device_codec codec, const float *x, bool feeds, uint32_t n)
{
    enum { F = 12, N = N_LISTED * F };
    float *residual = device_scratch(N_ROW * F * sizeof *residual), *out = device_scratch(N * sizeof *out);
    double *sum = device_scratch(N * sizeof *sum), square = 0.0;
    struct device_coding how = coding(codec, F, x);
    how.residual = how.residual_out = feeds ? residual : NULL;
    for (how.key.epoch = 0; how.key.epoch < n; how.key.epoch++) {
        numbers(device, &how, out);
        for (int i = 0; i < N; i++) {
            sum[i] += (double)out[i];
        }
    }
    for (int i = 0; i < N; i++) {
        double error = sum[i] / n - (double)x[listed[i / F] * F + i % F];
        square += error * error / N;
    }
    free(sum);
    free(out);
    free(residual);
    return sqrt(square);
}

/* Over n epochs errors add up to the last residual, so that their mean falls as 1 / n; without feedback, as 1 /
 * √n. */
Test(codec, the_error_of_the_mean_falls_as_one_over_n_with_feedback)
{
    struct device *device = cpu();
    float *x = device_random(N_ROW * 12, 3);
    for (int k = 0; k < N_CODEC; k++) {
        double fed[2], alone[2];
        for (int i = 0; i < 2; i++) {
            fed[i] = error_of_mean(device, codecs[k], x, true, i == 0 ? 10 : 1000);
            alone[i] = error_of_mean(device, codecs[k], x, false, i == 0 ? 10 : 1000);
        }
        cr_expect_leq(fabs(fed[0] / fed[1] - 100.0), 10.0, "codec %d: %g after 10 epochs, %g after 1000", k, fed[0],
                      fed[1]);
        cr_expect_leq(fabs(alone[0] / alone[1] - 10.0), 2.0, "codec %d: %g after 10 epochs, %g after 1000 without", k,
                      alone[0], alone[1]);
        cr_expect_leq(10.0 * fed[1], alone[1], "codec %d: %g with, %g without", k, fed[1], alone[1]);
    }
    free(x);
    device_cpu.close(device);
}

/* What is read again and what is lost are together what was to be written down. */
Test(codec, a_residual_is_what_reading_a_row_again_lacks)
{
    enum { F = 40, N = N_LISTED * F };
    struct device *device = cpu();
    float *x = device_random(N_ROW * F, 3), *before = device_random(N_ROW * F, 4),
          *out = device_scratch(N * sizeof *out);
    for (int k = 0; k < N_CODEC; k++) {
        float *after = device_scratch(N_ROW * F * sizeof *after);
        struct device_coding how = coding(codecs[k], F, x);
        how.residual = before;
        how.residual_out = after;
        numbers(device, &how, out);
        for (int i = 0; i < N; i++) {
            size_t at = listed[i / F] * F + (size_t)(i % F);
            cr_assert_eq(after[at], x[at] + before[at] - out[i], "codec %d, element %d", k, i);
        }
        for (int i = 0; i < F; i++) {
            cr_assert_eq(after[i], 0.0F, "row 0 is not listed");
        }
        free(after);
    }
    free(x);
    free(before);
    free(out);
    device_cpu.close(device);
}

Test(codec, what_is_not_finite_leaves_no_residual)
{
    enum { F = 40 };
    static const float bad[] = {NAN, INFINITY, -INFINITY, 3.4e38F};
    struct device *device = cpu();
    float *x = device_random(N_ROW * F, 3), *out = device_scratch(N_LISTED * F * sizeof *out);
    for (int b = 0; b < 4; b++) {
        x[listed[7] * F + 33] = bad[b];
        for (int k = 0; k < N_CODEC; k++) {
            float *residual = device_random(N_ROW * F, 4);
            struct device_coding how = coding(codecs[k], F, x);
            how.residual = how.residual_out = residual;
            numbers(device, &how, out);
            for (int i = 0; i < N_ROW * F; i++) {
                cr_assert(isfinite(residual[i]), "codec %d, element %d is %g", k, i, (double)residual[i]);
            }
            cr_expect(bad[b] == 3.4e38F || residual[listed[7] * F + 33] == 0.0F);
            free(residual);
        }
    }
    free(x);
    free(out);
    device_cpu.close(device);
}
