/* Norms and products of rows, and rows times a number each: all devices, and rows that are zero or nearly so. */
#include "tests/support/device/device_case.h"

#include <criterion/criterion.h>
#include <math.h>

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
