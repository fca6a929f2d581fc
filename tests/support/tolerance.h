/* How far results may lie from the truth, each with its reason. Relative: ‖x − truth‖ / ‖truth‖ unless said otherwise. */
#ifndef TESTS_SUPPORT_TOLERANCE_H
#define TESTS_SUPPORT_TOLERANCE_H

/* The contract's, from float64 references: plain float32 reaches 6e-7, so more than this is a mistake, not rounding. */
#define TOLERANCE_LOSS 1e-6
#define TOLERANCE_ARRAY 1e-5

/* Half-width of central differences in double: rounding leaves 1e-16 / step = 1e-9, far below TOLERANCE_ARRAY; a wider step
 * crosses the kinks of relu and max in graphs of this size (at 1e-5 one in a thousand derivatives was off by percents). */
#define DIFFERENCE_STEP 1e-7

/* A tensor whose own gradient nearly cancels is held against the whole gradient's norm: float32 sums leave about 1e-7 of
 * the terms' size there. */
#define TOLERANCE_CANCELLED 1e-6

#endif
