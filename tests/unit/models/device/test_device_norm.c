#include "models/device/statistics.h"
#include "tests/support/device/device_case.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void of_rows(const struct device_ops *ops, int64_t n, const float *x, double out[3])
{
    struct device *device = NULL;
    cr_assert_eq(ops->open(2, &device), STATUS_OK);
    void *scratch = device_scratch(DEVICE_BYTES(ops, BATCH_NORM, n, 1));
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
