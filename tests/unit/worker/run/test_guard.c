/* What the guard makes of the sums over two gradients. */
#include "worker/run/guard.h"

#include <criterion/criterion.h>
#include <math.h>

static void sums_of(const struct device_ops *ops, int64_t n, const float *a, const float *b, double sums[3])
{
    struct device *device = NULL;
    cr_assert_eq(ops->open(1, &device), STATUS_OK);
    sums[0] = sums[1] = sums[2] = 0.0;
    ops->floats_compare(device, n, a, b, sums);
    ops->close(device);
}

Test(guard, error_and_cosine_are_those_of_the_two_gradients)
{
    static const float exact[] = {3.0F, 4.0F, 0.0F}, turned[] = {-4.0F, 3.0F, 0.0F}, longer[] = {6.0F, 8.0F, 0.0F},
                       against[] = {-3.0F, -4.0F, 0.0F};
    static const struct device_ops *const devices[] = {&device_reference, &device_cpu};
    for (int d = 0; d < 2; d++) {
        double sums[3];
        sums_of(devices[d], 3, exact, turned, sums);
        cr_expect(sums[0] == 25.0 && sums[1] == 25.0 && sums[2] == 50.0);
        cr_expect_leq(fabs(guard_error(sums) - sqrt(2.0)), 1e-15);
        cr_expect_eq(guard_cosine(sums), 0.0);
        sums_of(devices[d], 3, exact, longer, sums);
        cr_expect(guard_error(sums) == 1.0 && guard_cosine(sums) == 1.0);
        sums_of(devices[d], 3, exact, against, sums);
        cr_expect(guard_error(sums) == 2.0 && guard_cosine(sums) == -1.0);
        sums_of(devices[d], 3, exact, exact, sums);
        cr_expect(guard_error(sums) == 0.0 && guard_cosine(sums) == 1.0);
    }
}

Test(guard, sums_go_on_from_what_is_there_and_in_double)
{
    static float ones[100000], tens[100000];
    double sums[3] = {1.0, 2.0, 3.0};
    struct device *device = NULL;
    for (int i = 0; i < 100000; i++) {
        ones[i] = 1.0F;
        tens[i] = 10000.0F;
    }
    cr_assert_eq(device_cpu.open(1, &device), STATUS_OK);
    device_cpu.floats_compare(device, 100000, ones, tens, sums);
    device_cpu.close(device);
    cr_expect(sums[0] == 1.0 + 1e5 && sums[1] == 2.0 + 1e13 && sums[2] == 3.0 + 1e5 * 9999.0 * 9999.0);
}

/* Two that are nothing agree; one that is nothing is as far off as can be; no number is past every limit. */
Test(guard, gradients_that_vanish_or_are_not_finite_have_an_error_all_the_same)
{
    static const float none[] = {0.0F, 0.0F}, some[] = {1.0F, 0.0F}, spoilt[] = {NAN, 0.0F},
                       endless[] = {INFINITY, 0.0F};
    double sums[3];
    sums_of(&device_cpu, 2, none, none, sums);
    cr_expect(guard_error(sums) == 0.0 && guard_cosine(sums) == 1.0);
    sums_of(&device_cpu, 2, none, some, sums);
    cr_expect(isinf(guard_error(sums)));
    sums_of(&device_cpu, 2, some, spoilt, sums);
    cr_expect_not(guard_error(sums) <= 1e6);
    sums_of(&device_cpu, 2, some, endless, sums);
    cr_expect_not(guard_error(sums) <= 1e6);
}
