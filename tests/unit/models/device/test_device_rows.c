/* Norms and products of rows, and rows times a number each: all devices, and rows that are zero or nearly so. */
#include "tests/support/device/device_case.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

struct rows {
    int64_t n, f;
    const float *x, *y, *number;
    bool add;
};

/* out: 1 / norms · their gradient · multiplied rows · products */
static void run_rows(struct device *device, const void *context, float *out)
{
    const struct rows *a = context;
    int64_t size = a->n * a->f;
    device->ops->inverse_norm(device, a->n, a->f, a->x, out);
    device->ops->inverse_norm_backward(device, a->n, a->f, a->x, out, a->number, a->add, out + a->n);
    device->ops->rows_multiply(device, a->n, a->f, a->number, a->x, a->add, out + a->n + size);
    device->ops->rows_dot(device, a->n, a->f, a->x, a->y, a->add, out + a->n + 2 * size);
}

Test(rows, norms_products_and_multiples_agree_with_the_reference_for_every_width)
{
    static const int64_t heights[] = {0, 1, 700}, widths[] = {1, 3, 16, 33, 300};
    for (size_t i = 0; i < sizeof heights / sizeof *heights; i++) {
        for (size_t j = 0; j < sizeof widths / sizeof *widths; j++) {
            int64_t n = heights[i], f = widths[j];
            size_t size = (size_t)(n * f);
            float *x = device_random(size, 1), *y = device_random(size, 2), *number = device_random((size_t)n, 3);
            struct rows a = {n, f, x, y, number, false};
            device_check("rows", run_rows, &a, 2 * size + 2 * (size_t)n, TOLERANCE_SUM);
            a.add = true;
            device_check("rows, adding", run_rows, &a, 2 * size + 2 * (size_t)n, TOLERANCE_SUM);
            free(x);
            free(y);
            free(number);
        }
    }
}

Test(rows, a_row_of_zeros_has_a_large_inverse_norm_that_passes_no_gradient)
{
    const float x[] = {0.0f, 0.0f, 3.0f, 4.0f, 1e-13f, 0.0f}, grad[] = {1.0f, 1.0f, 1.0f};
    for (int d = 0; d < DEVICE_TABLE_N; d++) {
        struct device *device = NULL;
        float out[3], grad_x[6];
        cr_assert_eq(device_tables[d]->open(1, &device), STATUS_OK);
        device_tables[d]->inverse_norm(device, 3, 2, x, out);
        device_tables[d]->inverse_norm_backward(device, 3, 2, x, out, grad, false, grad_x);
        device_tables[d]->close(device);
        cr_assert(out[0] == 1e12f && out[1] == 0.2f && out[2] == 1e12f, "%s", device_tables[d]->name);
        cr_assert(fabsf(grad_x[2] + 0.024f) < 1e-8f && fabsf(grad_x[3] + 0.032f) < 1e-8f, "%s",
                  device_tables[d]->name);
        for (int i = 0; i < 6; i++) {
            cr_assert(i / 2 == 1 || grad_x[i] == 0.0f, "%s: element %d is %g", device_tables[d]->name, i,
                      (double)grad_x[i]);
        }
    }
}
