#include "protocol/base/half.h"

#include <criterion/criterion.h>
#include <math.h>

Test(half, halves_read_as_the_floats_they_are)
{
    cr_assert_eq(half_to_float(0x3c00), 1.0f);
    cr_assert_eq(half_to_float(0xc500), -5.0f);
    cr_assert_eq(half_to_float(0x7bff), 65504.0f);
    cr_assert_eq(half_to_float(0x0001), 0x1p-24f);
    cr_assert_eq(half_to_float(0x03ff), 1023 * 0x1p-24f);
    cr_assert_eq(half_to_float(0x0400), 0x1p-14f);
    cr_assert(signbit(half_to_float(0x8000)) && half_to_float(0x8000) == 0);
    cr_assert(isinf(half_to_float(0x7c00)) && isnan(half_to_float(0x7e00)));
}
