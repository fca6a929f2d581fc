/* The vector alphabet in the compiler's own vectors of four floats, for processors without the others and as their
 * check. */
#ifndef MODELS_CPU_VECTOR_PORTABLE_H
#define MODELS_CPU_VECTOR_PORTABLE_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define TARGET
#define INLINE static inline __attribute__((always_inline))
#define LANES 4
#define VECTORS_MAX 4

typedef float vector __attribute__((vector_size(4 * LANES)));
typedef uint32_t places __attribute__((vector_size(4 * LANES))); /* payload rows of the greatest values, or bits */
typedef int64_t lane_mask;                                       /* how many lanes from the first */

#define EACH_LANE(i) for (int64_t i = 0; i < LANES; i++)

INLINE lane_mask mask_first(int64_t n)
{
    return n;
}

INLINE vector vector_set(float value)
{
    return (vector){value, value, value, value};
}

INLINE vector vector_load(const float *from)
{
    vector out;
    memcpy(&out, from, sizeof out);
    return out;
}

INLINE vector vector_load_mask(const float *from, lane_mask mask)
{
    float lane[LANES] = {0.0f};
    EACH_LANE(i)
    {
        if (i < mask) {
            lane[i] = from[i];
        }
    }
    return vector_load(lane);
}

/* 4 numbers of BF16, the upper halves of floats. */
INLINE vector vector_load_bf16(const uint16_t *from)
{
    uint32_t lane[LANES];
    EACH_LANE(i)
    {
        lane[i] = (uint32_t)from[i] << 16;
    }
    vector out;
    memcpy(&out, lane, sizeof out);
    return out;
}

INLINE vector vector_add(vector a, vector b)
{
    return a + b;
}

INLINE vector vector_multiply(vector a, vector b)
{
    return a * b;
}

/* a · b + c, rounded once */
INLINE vector vector_fma(vector a, vector b, vector c)
{
    return (vector){fmaf(a[0], b[0], c[0]), fmaf(a[1], b[1], c[1]), fmaf(a[2], b[2], c[2]), fmaf(a[3], b[3], c[3])};
}

/* Likewise with 0 in place of denormals, which the other alphabets leave to a mode of the processor, and of sums that
 * a denormal's few bits would round up to the least normal number. */
INLINE vector vector_fma_flushed(vector a, vector b, vector c)
{
    EACH_LANE(i)
    {
        const float x = fabsf(a[i]) < FLT_MIN ? 0.0f * a[i] : a[i], y = fabsf(b[i]) < FLT_MIN ? 0.0f * b[i] : b[i];
        const float z = fabsf(c[i]) < FLT_MIN ? 0.0f * c[i] : c[i], sum = fmaf(x, y, z);
        const bool is_less = fabsf(sum) <= FLT_MIN && fabsf(fmaf(0x1p40f * x, y, 0x1p40f * z)) < 0x1p40f * FLT_MIN;
        c[i] = is_less ? copysignf(0.0f, sum) : sum;
    }
    return c;
}

INLINE void vector_store(float *to, vector value)
{
    memcpy(to, &value, sizeof value);
}

INLINE void vector_store_mask(float *to, lane_mask mask, vector value)
{
    EACH_LANE(i)
    {
        if (i < mask) {
            to[i] = value[i];
        }
    }
}

/* a where a lane's bits are set, else b */
INLINE vector select_bits(places bits, vector a, vector b)
{
    return (vector)(((places)a & bits) | ((places)b & ~bits));
}

/* a + b in the lanes of a mask, else a; 0 in them, else a */
INLINE vector vector_add_where(lane_mask mask, vector a, vector b)
{
    EACH_LANE(i)
    {
        a[i] = i < mask ? a[i] + b[i] : a[i];
    }
    return a;
}

INLINE vector vector_zero_where(lane_mask mask, vector a)
{
    EACH_LANE(i)
    {
        a[i] = i < mask ? 0.0f : a[i];
    }
    return a;
}

/* a where x > 0, else b */
INLINE vector vector_select_positive(vector x, vector a, vector b)
{
    return select_bits((places)(x > 0.0f), a, b);
}

/* a where a > b, else b */
INLINE vector vector_greater(vector a, vector b)
{
    return select_bits((places)(a > b), a, b);
}

/* 2^k where a lane's low bits hold k beside those of 1.5 · 2^23, for -127 < k < 128. */
INLINE vector vector_power(vector whole)
{
    return (vector)(((places)whole + 127) << 23);
}

/* The greatest of 16 lanes: lanes 8 apart first, then 4, 2, 1. */
#define PARTS 4
INLINE float parts_max(const vector part[PARTS])
{
    vector all = vector_greater(vector_greater(part[0], part[2]), vector_greater(part[1], part[3]));
    float even = all[0] > all[2] ? all[0] : all[2];
    float odd = all[1] > all[3] ? all[1] : all[3];
    return even > odd ? even : odd;
}

/* Four sums of 16 lanes, added up in the same order. */
INLINE void parts_sums(float *to, vector part[4][PARTS])
{
    for (int64_t k = 0; k < 4; k++) {
        vector all = vector_add(vector_add(part[k][0], part[k][2]), vector_add(part[k][1], part[k][3]));
        to[k] = (all[0] + all[2]) + (all[1] + all[3]);
    }
}

/* Sums of the eights in four vectors of columns: lanes 4 apart first, then 2, 1. */
INLINE void eights_sums(float *to, const vector x[4])
{
    for (int64_t k = 0; k < 2; k++) {
        vector all = vector_add(x[2 * k], x[2 * k + 1]);
        to[k] = (all[0] + all[2]) + (all[1] + all[3]);
    }
}

/* Vector k of a row of eight columns for each of eight numbers. */
INLINE vector vector_eights(const float *number, int k)
{
    return vector_set(number[k / 2]);
}

/* The first and the second of each pair. */
INLINE void vector_pairs(const float *pairs, vector *first, vector *second)
{
    *first = (vector){pairs[0], pairs[2], pairs[4], pairs[6]};
    *second = (vector){pairs[1], pairs[3], pairs[5], pairs[7]};
}

/* to[k · stride + i] = row[i][column + k] for 16 rows i and n ≤ 4 columns k; 0 for the other k of four. */
INLINE void parts_columns(const float *const *row, int64_t column, int64_t n, float *to, int64_t stride)
{
    for (int64_t k = 0; k < 4; k++) {
        for (int64_t i = 0; i < 16; i++) {
            to[k * stride + i] = k < n ? row[i][column + k] : 0.0f;
        }
    }
}

/* Without a special instruction, stores cannot bypass the caches. */
INLINE void vector_stream(float *to, vector value)
{
    vector_store(to, value);
}

INLINE void stream_fence(void)
{
}

INLINE places places_set(uint32_t place)
{
    return (places){place, place, place, place};
}

INLINE places places_load_mask(const uint32_t *from, lane_mask mask)
{
    places out = places_set(0);
    EACH_LANE(i)
    {
        if (i < mask) {
            out[i] = from[i];
        }
    }
    return out;
}

INLINE void places_store_mask(uint32_t *to, lane_mask mask, places value)
{
    EACH_LANE(i)
    {
        if (i < mask) {
            to[i] = value[i];
        }
    }
}

/* Lanes where value > *best, or is not a number, take value and its place. */
INLINE void vector_max_place(vector value, places place, vector *best, places *best_place)
{
    places greater = (places)(value > *best) | (places)(value != value);
    *best = select_bits(greater, value, *best);
    *best_place = (place & greater) | (*best_place & ~greater);
}

/* One 64-bit lane for Philox, whose products are 32 × 32 → 64. */
#define WORD_LANES 1
typedef uint64_t words;

INLINE words words_set(uint64_t value)
{
    return value;
}

INLINE words words_count(uint32_t first)
{
    return first;
}

INLINE words words_load(const uint32_t *from)
{
    return from[0];
}

INLINE void words_store_low(uint32_t *to, words value)
{
    to[0] = (uint32_t)value;
}

INLINE words words_multiply_low(words a, words b)
{
    return (uint64_t)(uint32_t)a * (uint32_t)b;
}

INLINE words words_xor(words a, words b)
{
    return a ^ b;
}

INLINE words words_high(words a)
{
    return a >> 32;
}

INLINE void words_store(uint32_t *to, words n0, words n1, words n2, words n3)
{
    to[0] = (uint32_t)n0;
    to[1] = (uint32_t)n1;
    to[2] = (uint32_t)n2;
    to[3] = (uint32_t)n3;
}

#endif
