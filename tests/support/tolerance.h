/* How far results may lie from the truth, each with its reason. Relative: ‖x − truth‖ / ‖truth‖ unless stated otherwise. */
#ifndef TESTS_SUPPORT_TOLERANCE_H
#define TESTS_SUPPORT_TOLERANCE_H

/* The contract's, from float64 references: plain float32 reaches 6e-7, so more than this is a mistake, not rounding. */
#define TOLERANCE_LOSS 1e-6
#define TOLERANCE_ARRAY 1e-5

/* Values and gradients, or what products multiply, in BF16, which has 8 bits: the contract's. */
#define TOLERANCE_BF16 2e-2

/* Half-width of central differences in double: rounding leaves 1e-16 / step = 1e-9, far below TOLERANCE_ARRAY; a wider step
 * crosses the kinks of relu and max in graphs of this size (at 1e-5 one in a thousand derivatives was off by percents). */
#define DIFFERENCE_STEP 1e-7

/* A tensor whose own gradient is small is compared relative to the whole gradient's norm: float32 leaves about 1e-7 of the terms
 * that cancel, and layer norm enlarges that on rows that are nearly constant (by up to 1/√1e-5). Most seen: 1.1e-6. */
#define TOLERANCE_CANCELLED 3e-6

/* --- fast devices against the reference: largest difference over the largest expected value --- */

/* One or two roundings to float (2^-24 each) per element, and none at all in the reference. */
#define TOLERANCE_ELEMENT 3e-7

/* Float sums of up to some thousand terms of either sign: the error grows with the root of their number, while the sum
 * itself may nearly cancel. */
#define TOLERANCE_SUM 1e-5

/* Products of numbers of 11 bits: 2^-11 of each term at most, whose errors have either sign. */
#define TOLERANCE_TF32 1e-3

/* Float sums of 10^5 and more terms of one sign, in pieces of 2^16: 2^-24 times the root of 2^16, and some slack. */
#define TOLERANCE_LONG_SUM 3e-5

/* Double sums, rounded to float once: the order of terms changes the last bit at most. */
#define TOLERANCE_DOUBLE_SUM 1.2e-7

/* Losses and counts, kept in double: only the order of additions differs. */
#define TOLERANCE_SCORE 1e-12

/* Scores of some hundreds, in float: α is off by 2^-24 of them. */
#define TOLERANCE_ATTENTION_LARGE 3e-5

/* Ten optimiser steps in float against double: a few roundings per step, divided by √v. */
#define TOLERANCE_STEPS 2e-6

#endif
