/* The vector alphabet in AVX-512: 16 floats, masks in mask registers. */
#ifndef MODELS_CPU_VECTOR_AVX512_H
#define MODELS_CPU_VECTOR_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")))
#define INLINE static inline __attribute__((always_inline)) TARGET
#define LANES 16
#define VECTORS_MAX 16 /* accumulators that fit the registers */

typedef __m512 vector;
typedef __mmask16 lane_mask;

INLINE lane_mask mask_first(int64_t n)
{
    return (lane_mask)((1u << n) - 1);
}

INLINE vector vector_set(float value)
{
    return _mm512_set1_ps(value);
}

INLINE vector vector_load(const float *from)
{
    return _mm512_loadu_ps(from);
}

INLINE vector vector_load_mask(const float *from, lane_mask mask)
{
    return _mm512_maskz_loadu_ps(mask, from);
}

/* 16 numbers of BF16, the upper halves of floats. */
INLINE vector vector_load_bf16(const uint16_t *from)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

INLINE vector vector_add(vector a, vector b)
{
    return _mm512_add_ps(a, b);
}

INLINE vector vector_multiply(vector a, vector b)
{
    return _mm512_mul_ps(a, b);
}

/* a · b + c, rounded once */
INLINE vector vector_fma(vector a, vector b, vector c)
{
    return _mm512_fmadd_ps(a, b, c);
}

INLINE void vector_store(float *to, vector value)
{
    _mm512_storeu_ps(to, value);
}

INLINE void vector_store_mask(float *to, lane_mask mask, vector value)
{
    _mm512_mask_storeu_ps(to, mask, value);
}

/* a + b in the lanes of a mask, else a; 0 in them, else a */
INLINE vector vector_add_where(lane_mask mask, vector a, vector b)
{
    return _mm512_mask_add_ps(a, mask, a, b);
}

INLINE vector vector_zero_where(lane_mask mask, vector a)
{
    return _mm512_maskz_mov_ps((lane_mask)~mask, a);
}

/* a where x > 0, else b */
INLINE vector vector_select_positive(vector x, vector a, vector b)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ), b, a);
}

/* a where a > b, else b */
INLINE vector vector_greater(vector a, vector b)
{
    return _mm512_max_ps(a, b);
}

/* 2^k where a lane's low bits hold k beside those of 1.5 · 2^23, for -127 < k < 128. */
INLINE vector vector_power(vector whole)
{
    __m512i k = _mm512_add_epi32(_mm512_castps_si512(whole), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(k, 23));
}

/* The greatest of 16 lanes: lanes 8 apart first, then 4, 2, 1. */
#define PARTS 1
INLINE float parts_max(const vector part[PARTS])
{
    __m512 all = _mm512_max_ps(part[0], _mm512_shuffle_f32x4(part[0], part[0], 0x4e));
    all = _mm512_max_ps(all, _mm512_shuffle_f32x4(all, all, 0xb1));
    all = _mm512_max_ps(all, _mm512_permute_ps(all, 0x4e));
    return _mm512_cvtss_f32(_mm512_max_ps(all, _mm512_permute_ps(all, 0xb1)));
}

/* Four sums of 16 lanes, added up in the same order. */
INLINE void parts_sums(float *to, vector part[4][PARTS])
{
    __m512 a = part[0][0], b = part[1][0], c = part[2][0], d = part[3][0];
    __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
    __m512 all = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    all = _mm512_add_ps(all, _mm512_permute_ps(all, 0x4e));
    all = _mm512_add_ps(all, _mm512_permute_ps(all, 0xb1));
    _mm_storeu_ps(to, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, all)));
}

/* Sums of the eights in four vectors of columns: lanes 4 apart first, then 2, 1. */
INLINE void eights_sums(float *to, const vector x[4])
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 0, 4, 8, 12, 2, 6, 10, 14);
    __m512 front = _mm512_add_ps(_mm512_shuffle_f32x4(x[0], x[1], 0x88), _mm512_shuffle_f32x4(x[0], x[1], 0xdd));
    __m512 back = _mm512_add_ps(_mm512_shuffle_f32x4(x[2], x[3], 0x88), _mm512_shuffle_f32x4(x[2], x[3], 0xdd));
    __m512 all = _mm512_add_ps(_mm512_shuffle_ps(front, back, 0x44), _mm512_shuffle_ps(front, back, 0xee));
    all = _mm512_add_ps(all, _mm512_permute_ps(all, 0xb1));
    _mm256_storeu_ps(to, _mm512_castps512_ps256(_mm512_permutexvar_ps(order, all)));
}

/* Vector k of a row of eight columns for each of eight numbers. */
INLINE vector vector_eights(const float *number, int k)
{
    const __m512i place = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    __m512 numbers = _mm512_castps256_ps512(_mm256_loadu_ps(number));
    return _mm512_permutexvar_ps(_mm512_add_epi32(place, _mm512_set1_epi32(2 * k)), numbers);
}

/* The first and the second of each pair. */
INLINE void vector_pairs(const float *pairs, vector *first, vector *second)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512 low = _mm512_loadu_ps(pairs), high = _mm512_loadu_ps(pairs + 16);
    *first = _mm512_permutex2var_ps(low, even, high);
    *second = _mm512_permutex2var_ps(low, _mm512_add_epi32(even, _mm512_set1_epi32(1)), high);
}

INLINE __m512 four_rows(const float *const *row, int64_t column, __mmask8 mask)
{
    __m512 rows = _mm512_castps128_ps512(_mm_maskz_loadu_ps(mask, row[0] + column));
    rows = _mm512_insertf32x4(rows, _mm_maskz_loadu_ps(mask, row[1] + column), 1);
    rows = _mm512_insertf32x4(rows, _mm_maskz_loadu_ps(mask, row[2] + column), 2);
    return _mm512_insertf32x4(rows, _mm_maskz_loadu_ps(mask, row[3] + column), 3);
}

/* to[k · stride + i] = row[i][column + k] for 16 rows i and n ≤ 4 columns k; 0 for the other k of four. */
INLINE void parts_columns(const float *const *row, int64_t column, int64_t n, float *to, int64_t stride)
{
    const __m512i first = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(2));
    __mmask8 mask = (__mmask8)((1 << n) - 1);
    __m512 r0 = four_rows(row, column, mask), r1 = four_rows(row + 4, column, mask);
    __m512 r2 = four_rows(row + 8, column, mask), r3 = four_rows(row + 12, column, mask);
    __m512 low = _mm512_permutex2var_ps(r0, first, r1), high = _mm512_permutex2var_ps(r2, first, r3);
    _mm512_storeu_ps(to, _mm512_shuffle_f32x4(low, high, 0x44));
    _mm512_storeu_ps(to + stride, _mm512_shuffle_f32x4(low, high, 0xee));
    low = _mm512_permutex2var_ps(r0, second, r1);
    high = _mm512_permutex2var_ps(r2, second, r3);
    _mm512_storeu_ps(to + 2 * stride, _mm512_shuffle_f32x4(low, high, 0x44));
    _mm512_storeu_ps(to + 3 * stride, _mm512_shuffle_f32x4(low, high, 0xee));
}

/* Past the caches; `to` on a 64-byte border. */
INLINE void vector_stream(float *to, vector value)
{
    _mm512_stream_ps(to, value);
}

INLINE void stream_fence(void)
{
    _mm_sfence();
}

/* 16 places (payload rows of the greatest values). */
typedef __m512i places;

INLINE places places_set(uint32_t place)
{
    return _mm512_set1_epi32((int)place);
}

INLINE places places_load_mask(const uint32_t *from, lane_mask mask)
{
    return _mm512_maskz_loadu_epi32(mask, from);
}

INLINE void places_store_mask(uint32_t *to, lane_mask mask, places value)
{
    _mm512_mask_storeu_epi32(to, mask, value);
}

/* Lanes where value > *best, or is not a number, take value and its place. */
INLINE void vector_max_place(vector value, places place, vector *best, places *best_place)
{
    __mmask16 greater = _mm512_cmp_ps_mask(value, *best, _CMP_GT_OQ) | _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    *best = _mm512_mask_mov_ps(*best, greater, value);
    *best_place = _mm512_mask_mov_epi32(*best_place, greater, place);
}

/* Eight 64-bit lanes for Philox, whose products are 32 × 32 → 64. */
#define WORD_LANES 8
typedef __m512i words;

INLINE words words_set(uint64_t value)
{
    return _mm512_set1_epi64((long long)value);
}

INLINE words words_count(uint32_t first)
{
    return _mm512_add_epi64(_mm512_set1_epi64(first), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
}

INLINE words words_load(const uint32_t *from)
{
    return _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)from));
}

/* The low word of each lane. */
INLINE void words_store_low(uint32_t *to, words value)
{
    _mm256_storeu_si256((__m256i *)to, _mm512_cvtepi64_epi32(value));
}

INLINE words words_multiply_low(words a, words b)
{
    return _mm512_mul_epu32(a, b);
}

INLINE words words_xor(words a, words b)
{
    return _mm512_xor_si512(a, b);
}

INLINE words words_high(words a)
{
    return _mm512_srli_epi64(a, 32);
}

/* Numbers 0 … 3 of each lane, in the low words, stored lane after lane: 32 numbers. */
INLINE void words_store(uint32_t *to, words n0, words n1, words n2, words n3)
{
    const __m512i front = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    const __m512i back = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    __m512i a = _mm512_mask_blend_epi32(0xaaaa, n0, _mm512_slli_epi64(n1, 32));
    __m512i b = _mm512_mask_blend_epi32(0xaaaa, n2, _mm512_slli_epi64(n3, 32));
    _mm512_storeu_si512(to, _mm512_permutex2var_epi64(a, front, b));
    _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi64(a, back, b));
}

#endif
