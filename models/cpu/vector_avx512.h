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

/* Lanes where value > *best take value and its place. */
INLINE void vector_max_place(vector value, places place, vector *best, places *best_place)
{
    __mmask16 greater = _mm512_cmp_ps_mask(value, *best, _CMP_GT_OQ);
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
