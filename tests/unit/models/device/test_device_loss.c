#include "models/device/device.h"
#include "tests/support/device/device_case.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

struct norms {
    int64_t n;
    double most;
    const float *x;
};

/* out: norm and factor, with 0.75 already in the sum of squares */
static void norm(struct device *device, const void *context, float *out)
{
    const struct norms *how = context;
    struct device_now now = {.lr = 1.0};
    double squares = 0.75;
    device->ops->squares_add(device, how->n, how->x, &squares);
    device->ops->clip_factor(device, how->most, &squares, &now);
    out[0] = (float)now.grad_norm;
    out[1] = (float)now.clip;
}

Test(optimizer, gradients_longer_than_the_norm_are_scaled_to_it_and_shorter_ones_left)
{
    enum { MOST = 100000 };
    float *x = device_random(MOST, 3);
    const int64_t lengths[] = {0, 1, 255, 256, 257, 5000, MOST};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const struct norms tight = {lengths[i], 0.01, x}, wide = {lengths[i], 1e6, x};
        device_check("norm", norm, &tight, 2, TOLERANCE_DOUBLE_SUM);
        device_check("norm", norm, &wide, 2, TOLERANCE_DOUBLE_SUM);
    }
    /* 3² + 4² */
    const float two[] = {3.0F, 4.0F};
    for (int d = 0; d < 2; d++) {
        struct device *device = NULL;
        struct device_now now = {.lr = 1.0};
        double squares = 0.0;
        cr_assert_eq(device_tables[d]->open(1, &device), STATUS_OK);
        device->ops->squares_add(device, 2, two, &squares);
        device->ops->clip_factor(device, 2.0, &squares, &now);
        cr_expect_eq(now.grad_norm, 5.0);
        cr_expect_eq(now.clip, 2.0 / (5.0 + 1e-6));
        device->ops->clip_factor(device, 7.0, &squares, &now);
        cr_expect_eq(now.clip, 1.0);
        squares = NAN;
        device->ops->clip_factor(device, 7.0, &squares, &now);
        cr_expect(isnan(now.clip), "what is no number must not look like a short gradient");
        device->ops->close(device);
    }
    free(x);
}
