#include "models/device/statistics.h"
#include "tests/support/device/device_case.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct batch {
    int64_t n, f;
    const float *x, *grad_y, *weight, *bias;
    bool add;
};

/* Large, so that a mistake in either half of the running statistics shows. */
#define MOMENTUM 0.5

/* out: y, grad_x, then per column grad_weight, grad_bias, running mean and variance, and the y of an evaluation's
 * first row */
static void batch_norm(struct device *device, const void *context, float *out)
{
    const struct batch *b = context;
    const struct device_ops *ops = device->ops;
    int64_t n = b->n, f = b->f, size = n * f;
    void *scratch = device_scratch(ops->batch_norm_scratch(n, f));
    double *statistics = device_scratch((size_t)STATISTICS_N(f) * sizeof *statistics);
    double *mean_rstd = device_scratch((size_t)(2 * f) * sizeof *mean_rstd);
    float *grad_x = out + size, *grad_weight = grad_x + size, *running = grad_weight + 2 * f;
    ops->batch_norm_statistics(device, n, f, b->x, scratch, statistics);
    ops->batch_norm_begin(device, f, statistics, MOMENTUM, running, running + f, mean_rstd);
    ops->batch_norm_forward(device, n, f, b->x, mean_rstd, b->weight, b->bias, out);
    const struct device_norm_backward how = {.n = n,
                                             .f = f,
                                             .x = b->x,
                                             .weight = b->weight,
                                             .mean_rstd = mean_rstd,
                                             .grad_y = b->grad_y,
                                             .add = b->add,
                                             .grad_x = grad_x,
                                             .grad_weight = grad_weight,
                                             .grad_bias = grad_weight + f,
                                             .scratch = scratch};
    ops->batch_norm_sums(device, &how, statistics);
    ops->batch_norm_backward(device, &how, statistics);
    ops->batch_norm_begin(device, f, NULL, MOMENTUM, running, running + f, mean_rstd);
    ops->batch_norm_forward(device, 1, f, b->x, mean_rstd, b->weight, b->bias, running + 2 * f);
    free(mean_rstd);
    free(statistics);
    free(scratch);
}

Test(batch_norm, forward_backward_and_running_statistics_agree_with_the_reference)
{
    static const int64_t heights[] = {1, 2, 1025, 5000}, widths[] = {1, 3, 16, 33, 128};
    for (size_t i = 0; i < sizeof heights / sizeof *heights; i++) {
        for (size_t j = 0; j < sizeof widths / sizeof *widths; j++) {
            int64_t n = heights[i], f = widths[j];
            size_t size = (size_t)(n * f);
            float *x = device_random(size, 1), *grad_y = device_random(size, 2),
                  *weight = device_random((size_t)f * 2, 3);
            struct batch b = {n, f, x, grad_y, weight, weight + f, false};
            device_check("batch norm", batch_norm, &b, 2 * size + (size_t)(5 * f), TOLERANCE_SUM);
            b.add = true;
            device_check("batch norm, adding", batch_norm, &b, 2 * size + (size_t)(5 * f), TOLERANCE_SUM);
            free(x);
            free(grad_y);
            free(weight);
        }
    }
}

/* out: the statistics of some rows and the others, merged */
static void merged(struct device *device, const void *context, float *out)
{
    const struct batch *b = context;
    const struct device_ops *ops = device->ops;
    int64_t n = b->n / 3, n_statistics = STATISTICS_N(b->f);
    void *scratch = device_scratch(ops->batch_norm_scratch(b->n, b->f));
    double *left = device_scratch((size_t)n_statistics * sizeof *left),
           *right = device_scratch((size_t)n_statistics * sizeof *left);
    ops->batch_norm_statistics(device, n, b->f, b->x, scratch, left);
    ops->batch_norm_statistics(device, b->n - n, b->f, b->x + n * b->f, scratch, right);
    ops->statistics_merge(device, b->f, left, right);
    for (int64_t i = 0; i < n_statistics; i++) {
        out[i] = (float)left[i];
    }
    free(left);
    free(right);
    free(scratch);
}

Test(batch_norm, statistics_of_two_sets_are_merged_as_the_reference_merges_them)
{
    static const int64_t heights[] = {0, 2, 3000}, widths[] = {1, 33, 600};
    for (size_t i = 0; i < sizeof heights / sizeof *heights; i++) {
        for (size_t j = 0; j < sizeof widths / sizeof *widths; j++) {
            float *x = device_random((size_t)(heights[i] * widths[j]), 1);
            struct batch b = {.n = heights[i], .f = widths[j], .x = x};
            device_check("merged statistics", merged, &b, (size_t)STATISTICS_N(b.f), TOLERANCE_SUM);
            free(x);
        }
    }
}

static void of_rows(const struct device_ops *ops, int64_t n, const float *x, double out[3])
{
    struct device *device = NULL;
    cr_assert_eq(ops->open(2, &device), STATUS_OK);
    void *scratch = device_scratch(ops->batch_norm_scratch(n, 1));
    ops->batch_norm_statistics(device, n, 1, x, scratch, out);
    free(scratch);
    ops->close(device);
}

Test(batch_norm, columns_far_from_zero_keep_all_digits_of_their_spread)
{
    enum { N = 6000 };
    static float x[N];
    for (int i = 0; i < N; i++) { /* 2^20 ± 1: squares of 2^40 hide a variance of 1 from float, and half of double */
        x[i] = 1048576.0f + (i % 2 == 0 ? 1.0f : -1.0f);
    }
    for (int d = 0; d < DEVICE_TABLE_N; d++) {
        const struct device_ops *ops = device_tables[d];
        double whole[3], half[3], merged[3] = {0};
        of_rows(ops, N, x, whole);
        cr_expect(fabs(whole[1] - 1048576.0) < 1e-7 && fabs(whole[2] / N - 1.0) < 1e-12,
                  "%s: mean %.17g, variance %.17g", ops->name, whole[1], whole[2] / N);
        for (int first = 0; first < N; first += N / 4) {
            of_rows(ops, N / 4, x + first, half);
            statistics_merge(1, merged, half);
        }
        cr_expect(merged[0] == N && fabs(merged[2] / N - 1.0) < 1e-12, "%s: %.17g rows, variance %.17g", ops->name,
                  merged[0], merged[2] / N);
    }
}

Test(batch_norm, sets_of_no_rows_change_nothing)
{
    double left[3] = {0}, right[3] = {2.0, 5.0, 3.0}, none[3] = {0};
    statistics_merge(1, left, none);
    cr_assert(left[0] == 0.0 && left[1] == 0.0 && left[2] == 0.0);
    statistics_merge(1, left, right);
    cr_assert(memcmp(left, right, sizeof left) == 0);
    statistics_merge(1, left, none);
    cr_assert(memcmp(left, right, sizeof left) == 0);
}

Test(batch_norm, running_statistics_move_by_momentum_towards_mean_and_unbiased_variance)
{
    const double statistics[] = {5.0, 3.0, 8.0};
    for (int d = 0; d < DEVICE_TABLE_N; d++) {
        const struct device_ops *ops = device_tables[d];
        struct device *device = NULL;
        float mean = 1.0f, variance = 1.0f;
        double mean_rstd[2];
        cr_assert_eq(ops->open(1, &device), STATUS_OK);
        ops->batch_norm_begin(device, 1, statistics, 0.1, &mean, &variance, mean_rstd);
        cr_expect(mean == 1.2f && variance == 1.1f, "%s: %.9g, %.9g", ops->name, (double)mean, (double)variance);
        cr_expect(mean_rstd[0] == 3.0 && fabs(mean_rstd[1] - 1.0 / sqrt(8.0 / 5.0 + 1e-5)) < 1e-15);
        ops->batch_norm_begin(device, 1, NULL, 0.1, &mean, &variance, mean_rstd);
        cr_expect(mean == 1.2f && variance == 1.1f, "an evaluation changes nothing");
        cr_expect(mean_rstd[0] == mean && fabs(mean_rstd[1] - 1.0 / sqrt(variance + 1e-5)) < 1e-15);
        ops->batch_norm_begin(device, 1, statistics, 0.1, NULL, NULL, mean_rstd);
        cr_expect(mean_rstd[0] == 3.0 && fabs(mean_rstd[1] - 1.0 / sqrt(8.0 / 5.0 + 1e-5)) < 1e-15, "none that move");
        ops->close(device);
    }
}
