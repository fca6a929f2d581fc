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

/* Lanes where value > *best take value and its place. */
INLINE void vector_max_place(vector value, places place, vector *best, places *best_place)
{
    __m256 greater = _mm256_cmp_ps(value, *best, _CMP_GT_OQ);
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
