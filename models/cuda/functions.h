/* Exponentials, logarithms and the error function from multiplications and additions alone: the same bits on a GPU
 * and emulated.
 *
 * Double, with relative errors of some 1e-15 (erfc: 1e-10), but for the last ones; NaN stays NaN.
 */
#ifndef MODELS_CUDA_FUNCTIONS_H
#define MODELS_CUDA_FUNCTIONS_H

#include "models/cuda/kernel.h"

#include <string.h>

static __device__ __forceinline__ uint64_t double_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static __device__ __forceinline__ double of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#define LN2_HIGH 0x1.62e42feep-1 /* 32 bits: times a whole number below 2^21 it is exact */
#define LN2_LOW 0x1.a39ef35793c76p-33

/* e^x for x ≤ 0; 0 where that is below 1e-307.
 * x = k ln 2 + r, |r| ≤ ln 2 / 2; e^r by its series, times 2^k */
static __device__ __forceinline__ double exp_of_negative(double x)
{
    const double to_whole = 0x1.8p52; /* adding it leaves the nearest whole number in the low bits */
    const double bounded = x > -708.0 ? x : -708.0;
    const double whole = fma(bounded, 0x1.71547652b82fep+0, to_whole), k = whole - to_whole;
    const double r = fma(k, -LN2_LOW, fma(k, -LN2_HIGH, bounded));
    double sum = 1.0 / 6227020800.0; /* 1 / 13! */
    sum = fma(sum, r, 1.0 / 479001600.0);
    sum = fma(sum, r, 1.0 / 39916800.0);
    sum = fma(sum, r, 1.0 / 3628800.0);
    sum = fma(sum, r, 1.0 / 362880.0);
    sum = fma(sum, r, 1.0 / 40320.0);
    sum = fma(sum, r, 1.0 / 5040.0);
    sum = fma(sum, r, 1.0 / 720.0);
    sum = fma(sum, r, 1.0 / 120.0);
    sum = fma(sum, r, 1.0 / 24.0);
    sum = fma(sum, r, 1.0 / 6.0);
    sum = fma(sum, r, 0.5);
    sum = fma(sum, r, 1.0);
    sum = fma(sum, r, 1.0);
    const double power = of_bits((double_bits(whole) + 1023) << 52);
    return x > -708.0 ? sum * power : x <= -708.0 ? 0.0 : x;
}

/* 2 artanh(s) = 2 (s + s³/3 + s⁵/5 + …), n + 1 terms */
static __device__ __forceinline__ double twice_artanh(double s, int n)
{
    const double square = s * s;
    double sum = 0.0;
    for (int k = n; k > 0; k--) {
        sum = fma(sum, square, 1.0 / (2.0 * k + 1.0));
    }
    return fma(2.0 * s * square, sum, 2.0 * s);
}

/* ln x for finite x ≥ 1; infinity and NaN stay.
 * x = 2^k m, m from 1/√2 to √2; ln m = 2 artanh((m - 1) / (m + 1)) */
static __device__ __forceinline__ double log_above_one(double x)
{
    const uint64_t bits = double_bits(x);
    double k = (double)((int)(bits >> 52) - 1023), m = of_bits((bits & 0xfffffffffffffULL) | 0x3ff0000000000000ULL);
    if (m > 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        k += 1.0;
    }
    const double log_m = twice_artanh((m - 1.0) / (m + 1.0), 11);
    return x <= 0x1.fffffffffffffp+1023 ? fma(k, LN2_HIGH, fma(k, LN2_LOW, log_m)) : x;
}

/* ln x */
static __device__ __forceinline__ double fixed_log(double x)
{
    return x < 0.0 ? (double)NAN : x < 1.0 ? -log_above_one(1.0 / x) : log_above_one(x);
}

/* ln(1 + x) for x from 0 to 1 */
static __device__ __forceinline__ double log_of_one_and(double x)
{
    return twice_artanh(x / (2.0 + x), 17);
}

/* erfc z: for a = |z|, (1 + 2a) e^(a²) erfc a is a polynomial of t = (a - 3.75) / (a + 3.75), fitted at Chebyshev's
 * points.
 * source  Shepherd & Laframboise, Mathematics of Computation 36, 1981 */
static __device__ __forceinline__ double fixed_erfc(double z)
{
    const double a = fabs(z), t = (a - 3.75) / (a + 3.75);
    double sum = -0x1.aa4da37ae147bp-18;
    sum = fma(sum, t, 0x1.36bf277c28f5cp-16);
    sum = fma(sum, t, 0x1.7372efd0f5c2ap-15);
    sum = fma(sum, t, -0x1.2a1fb582eb852p-12);
    sum = fma(sum, t, 0x1.3a26502647ae2p-12);
    sum = fma(sum, t, 0x1.cb0e32dfc8520p-10);
    sum = fma(sum, t, -0x1.3f76949e1d948p-7);
    sum = fma(sum, t, 0x1.d0b7adf8752f6p-6);
    sum = fma(sum, t, -0x1.e0cf969ee7381p-5);
    sum = fma(sum, t, 0x1.7a13b1902adebp-4);
    sum = fma(sum, t, -0x1.bda9467be465bp-4);
    sum = fma(sum, t, 0x1.510173582583dp-4);
    sum = fma(sum, t, 0x1.d5f2b573650bfp-9);
    sum = fma(sum, t, -0x1.1f3676a4a0329p-3);
    sum = fma(sum, t, 0x1.3ccda0b5b537dp+0);
    const double share = exp_of_negative(-a * a);
    const double value = share > 0.0 ? share * sum / (1.0 + 2.0 * a) : share; /* not infinity times 0 */
    return z < 0.0 ? 2.0 - value : value;
}

/* x Φ(x) */
static __device__ __forceinline__ float fixed_gelu(float x)
{
    return (float)(0.5 * (double)x * fixed_erfc(-(double)x * M_SQRT1_2));
}

/* Φ(x) + x φ(x) */
static __device__ __forceinline__ float fixed_gelu_slope(float x)
{
    const double d = (double)x;
    return (float)(0.5 * fixed_erfc(-d * M_SQRT1_2) +
                   d * exp_of_negative(-0.5 * d * d) * (0.5 * M_2_SQRTPI * M_SQRT1_2));
}

/* --- in float --- */

/* e^x for x ≤ 88, from fma alone: within 2 units in the last place; 0 below -87; NaN stays NaN.
 * x = k ln 2 + r, |r| ≤ ln 2 / 2; e^r − 1 by its series, times 2^k. */
static __device__ __forceinline__ float fixed_exp(float x)
{
    float bounded = x < -87.0F ? -87.0F : x;
    bounded = bounded > 88.0F ? 88.0F : bounded;
    const float whole = fmaf(bounded, 0x1.715476p0F, 0x1.8p23F), k = whole - 0x1.8p23F; /* k in the low bits */
    const float r = fmaf(k, -0x1.0bfbe8p-15F, fmaf(k, -0x1.62ep-1F, bounded));
    float tail = fmaf(0x1.a01a02p-13F, r, 0x1.6c16c2p-10F);
    tail = fmaf(tail, r, 0x1.111112p-7F);
    tail = fmaf(tail, r, 0x1.555556p-5F);
    tail = fmaf(tail, r, 0x1.555556p-3F);
    tail = fmaf(tail, r, 0.5F);
    const float series = fmaf(tail * r, r, r), power = __uint_as_float((__float_as_uint(whole) + 127U) << 23);
    return x < -87.0F ? 0.0F : fmaf(power, series, power);
}

/* e^x − 1 for x ≤ 0 (0 above): models/cpu/kernels/kernels_pointwise.inc.h's, step by step. */
static __device__ __forceinline__ float expm1_negative(float x)
{
    const float to_whole = 0x1.8p23F;
    float bounded = x > -30.0F ? x : -30.0F;
    bounded = bounded < 0.0F ? bounded : 0.0F;
    const float k = (bounded * 0x1.715476p0F + to_whole) - to_whole;
    const float r = (bounded - k * 0x1.62ep-1F) - k * 0x1.0bfbe8p-15F;
    float tail = 0x1.a01a02p-13F;
    tail = tail * r + 0x1.6c16c2p-10F;
    tail = tail * r + 0x1.111112p-7F;
    tail = tail * r + 0x1.555556p-5F;
    tail = tail * r + 0x1.555556p-3F;
    tail = tail * r + 0.5F;
    const float series = tail * r * r + r;
    const float power = __uint_as_float((unsigned)((int)k + 127) << 23);
    return power * series + (power - 1.0F);
}

#endif
