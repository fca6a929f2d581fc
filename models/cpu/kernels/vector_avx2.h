/* The vector alphabet in AVX2 with FMA: 8 floats, masks as vectors of all-ones lanes. */
#ifndef MODELS_CPU_VECTOR_AVX2_H
#define MODELS_CPU_VECTOR_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#define TARGET __attribute__((target("avx2,fma")))
#define INLINE static inline __attribute__((always_inline)) TARGET
#define LANES 8
#define VECTORS_MAX 8

typedef __m256 vector;
typedef __m256i lane_mask;

INLINE lane_mask mask_first(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

INLINE vector vector_set(float value)
{
    return _mm256_set1_ps(value);
}

INLINE vector vector_load(const float *from)
{
    return _mm256_loadu_ps(from);
}

INLINE vector vector_load_mask(const float *from, lane_mask mask)
{
    return _mm256_maskload_ps(from, mask);
}

/* 8 numbers of BF16, the upper halves of floats. */
INLINE vector vector_load_bf16(const uint16_t *from)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

INLINE vector vector_add(vector a, vector b)
{
    return _mm256_add_ps(a, b);
}

INLINE vector vector_multiply(vector a, vector b)
{
    return _mm256_mul_ps(a, b);
}

/* a · b + c, rounded once */
INLINE vector vector_fma(vector a, vector b, vector c)
{
    return _mm256_fmadd_ps(a, b, c);
}

INLINE void vector_store(float *to, vector value)
{
    _mm256_storeu_ps(to, value);
}

INLINE void vector_store_mask(float *to, lane_mask mask, vector value)
{
    _mm256_maskstore_ps(to, mask, value);
}

/* a + b in the lanes of a mask, else a; 0 in them, else a */
INLINE vector vector_add_where(lane_mask mask, vector a, vector b)
{
    return _mm256_blendv_ps(a, _mm256_add_ps(a, b), _mm256_castsi256_ps(mask));
}

INLINE vector vector_zero_where(lane_mask mask, vector a)
{
    return _mm256_andnot_ps(_mm256_castsi256_ps(mask), a);
}

/* a where x > 0, else b */
INLINE vector vector_select_positive(vector x, vector a, vector b)
{
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ));
}

/* a where a > b, else b */
INLINE vector vector_greater(vector a, vector b)
{
    return _mm256_max_ps(a, b);
}

/* 2^k where a lane's low bits hold k beside those of 1.5 · 2^23, for -127 < k < 128. */
INLINE vector vector_power(vector whole)
{
    __m256i k = _mm256_add_epi32(_mm256_castps_si256(whole), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(k, 23));
}

/* The greatest of 16 lanes: lanes 8 apart first, then 4, 2, 1. */
#define PARTS 2
INLINE float parts_max(const vector part[PARTS])
{
    __m256 all = _mm256_max_ps(part[0], part[1]);
    all = _mm256_max_ps(all, _mm256_permute2f128_ps(all, all, 1));
    all = _mm256_max_ps(all, _mm256_permute_ps(all, 0x4e));
    return _mm256_cvtss_f32(_mm256_max_ps(all, _mm256_permute_ps(all, 0xb1)));
}

/* Sums of the eights in four vectors of columns: lanes 4 apart first, then 2, 1. */
INLINE void eights_sums(float *to, const vector x[4])
{
    __m256 ac = _mm256_add_ps(_mm256_permute2f128_ps(x[0], x[2], 0x20), _mm256_permute2f128_ps(x[0], x[2], 0x31));
    __m256 bd = _mm256_add_ps(_mm256_permute2f128_ps(x[1], x[3], 0x20), _mm256_permute2f128_ps(x[1], x[3], 0x31));
    __m256 all = _mm256_add_ps(_mm256_shuffle_ps(ac, bd, 0x44),
                               _mm256_shuffle_ps(ac, bd, 0xee)); /* a a b b, c c d d */
    all = _mm256_add_ps(all, _mm256_permute_ps(all, 0xb1));
    _mm_storeu_ps(to, _mm_shuffle_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1), 0x88));
}

/* Four sums of 16 lanes, added up in the same order. */
INLINE void parts_sums(float *to, vector part[4][PARTS])
{
    const vector x[4] = {_mm256_add_ps(part[0][0], part[0][1]), _mm256_add_ps(part[1][0], part[1][1]),
                         _mm256_add_ps(part[2][0], part[2][1]), _mm256_add_ps(part[3][0], part[3][1])};
    eights_sums(to, x);
}

/* Vector k of a row of eight columns for each of eight numbers. */
INLINE vector vector_eights(const float *number, int k)
{
    return _mm256_broadcast_ss(number + k);
}

/* The first and the second of each pair. */
INLINE void vector_pairs(const float *pairs, vector *first, vector *second)
{
    __m256 low = _mm256_loadu_ps(pairs), high = _mm256_loadu_ps(pairs + 8);
    __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0x88));
    __m256d odd = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0xdd));
    *first = _mm256_castpd_ps(_mm256_permute4x64_pd(even, 0xd8));
    *second = _mm256_castpd_ps(_mm256_permute4x64_pd(odd, 0xd8));
}

INLINE __m256 two_rows(const float *const *row, int64_t column, __m128i mask)
{
    __m256 low = _mm256_castps128_ps256(_mm_maskload_ps(row[0] + column, mask));
    return _mm256_insertf128_ps(low, _mm_maskload_ps(row[4] + column, mask), 1);
}

/* to[k · stride + i] = row[i][column + k] for 16 rows i and n ≤ 4 columns k; 0 for the other k of four. */
INLINE void parts_columns(const float *const *row, int64_t column, int64_t n, float *to, int64_t stride)
{
    __m128i mask = _mm_cmpgt_epi32(_mm_set1_epi32((int)n), _mm_setr_epi32(0, 1, 2, 3));
    for (int64_t i = 0; i < 16; i += 8) {
        __m256 r0 = two_rows(row + i, column, mask), r1 = two_rows(row + i + 1, column, mask);
        __m256 r2 = two_rows(row + i + 2, column, mask), r3 = two_rows(row + i + 3, column, mask);
        __m256 low01 = _mm256_unpacklo_ps(r0, r1), low23 = _mm256_unpacklo_ps(r2, r3); /* columns 0 and 1 */
        __m256 high01 = _mm256_unpackhi_ps(r0, r1), high23 = _mm256_unpackhi_ps(r2, r3);
        _mm256_storeu_ps(to + i, _mm256_shuffle_ps(low01, low23, 0x44));
        _mm256_storeu_ps(to + i + stride, _mm256_shuffle_ps(low01, low23, 0xee));
        _mm256_storeu_ps(to + i + 2 * stride, _mm256_shuffle_ps(high01, high23, 0x44));
        _mm256_storeu_ps(to + i + 3 * stride, _mm256_shuffle_ps(high01, high23, 0xee));
    }
}

/* Past the caches; `to` on a 32-byte border. */
INLINE void vector_stream(float *to, vector value)
{
    _mm256_stream_ps(to, value);
}

INLINE void stream_fence(void)
{
    _mm_sfence();
}

/* 8 places (payload rows of the greatest values). */
typedef __m256i places;

INLINE places places_set(uint32_t place)
{
    return _mm256_set1_epi32((int)place);
}

INLINE places places_load_mask(const uint32_t *from, lane_mask mask)
{
    return _mm256_maskload_epi32((const int *)from, mask);
}

INLINE void places_store_mask(uint32_t *to, lane_mask mask, places value)
{
    _mm256_maskstore_epi32((int *)to, mask, value);
}

/* Lanes where value > *best, or is not a number, take value and its place. */
INLINE void vector_max_place(vector value, places place, vector *best, places *best_place)
{
    __m256 greater = _mm256_or_ps(_mm256_cmp_ps(value, *best, _CMP_GT_OQ), _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    *best = _mm256_blendv_ps(*best, value, greater);
    *best_place = _mm256_blendv_epi8(*best_place, place, _mm256_castps_si256(greater));
}

/* Four 64-bit lanes for Philox, whose products are 32 × 32 → 64. */
#define WORD_LANES 4
typedef __m256i words;

INLINE words words_set(uint64_t value)
{
    return _mm256_set1_epi64x((long long)value);
}

INLINE words words_count(uint32_t first)
{
    return _mm256_add_epi64(_mm256_set1_epi64x(first), _mm256_setr_epi64x(0, 1, 2, 3));
}

INLINE words words_load(const uint32_t *from)
{
    return _mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)from));
}

/* The low word of each lane. */
INLINE void words_store_low(uint32_t *to, words value)
{
    __m256i low = _mm256_permutevar8x32_epi32(value, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
    _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(low));
}

INLINE words words_multiply_low(words a, words b)
{
    return _mm256_mul_epu32(a, b);
}

INLINE words words_xor(words a, words b)
{
    return _mm256_xor_si256(a, b);
}

INLINE words words_high(words a)
{
    return _mm256_srli_epi64(a, 32);
}

/* Numbers 0 … 3 of each lane, in the low words, stored lane after lane: 16 numbers. */
INLINE void words_store(uint32_t *to, words n0, words n1, words n2, words n3)
{
    __m256i a = _mm256_blend_epi32(n0, _mm256_slli_epi64(n1, 32), 0xaa);
    __m256i b = _mm256_blend_epi32(n2, _mm256_slli_epi64(n3, 32), 0xaa);
    __m256i even = _mm256_unpacklo_epi64(a, b), odd = _mm256_unpackhi_epi64(a, b);
    _mm256_storeu_si256((__m256i *)to, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256((__m256i *)(to + 8), _mm256_permute2x128_si256(even, odd, 0x31));
}

#endif
