/* The reference device's operations: the truth that other devices are tested against.
 *
 * One thread, one loop nest per formula, sums in double, rounded to float once. Nothing here is fast; it takes any
 * shape, uses no scratch, and calls nothing but the C library.
 */
#ifndef MODELS_REFERENCE_REFERENCE_H
#define MODELS_REFERENCE_REFERENCE_H

#include "models/device/device_list.h"

#define X(op) DEVICE_OP_PROTOTYPE(reference, op);
DEVICE_OP_LIST(X)
#undef X

/* ⟨x, y⟩, column after column. */
static inline double reference_product(int64_t n, const float *x, const float *y)
{
    double sum = 0.0;
    for (int64_t c = 0; c < n; c++) {
        sum += (double)x[c] * y[c];
    }
    return sum;
}

/* Element (row, c) of rows of BF16 (codec.h). */
float reference_bf16(int64_t f, const void *x, int64_t row, int64_t c);

#endif
