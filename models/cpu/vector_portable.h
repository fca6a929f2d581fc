/* The vector alphabet in plain C: four floats side by side, for processors without the others and as their check. */
#ifndef MODELS_CPU_VECTOR_PORTABLE_H
#define MODELS_CPU_VECTOR_PORTABLE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define TARGET
#define INLINE static inline __attribute__((always_inline))
#define LANES 4
#define VECTORS_MAX 4

typedef struct {
    float lane[LANES];
} vector;
typedef int64_t lane_mask; /* how many lanes from the first */

#define EACH_LANE(i) for (int64_t i = 0; i < LANES; i++)

INLINE lane_mask mask_first(int64_t n)
{
    return n;
}

INLINE vector vector_set(float value)
{
    vector out;
    EACH_LANE(i) {
        out.lane[i] = value;
    }
    return out;
}

INLINE vector vector_load_mask(const float *from, lane_mask mask)
{
    vector out;
    EACH_LANE(i) {
        out.lane[i] = i < mask ? from[i] : 0.0f;
    }
    return out;
}

INLINE vector vector_load(const float *from)
{
    return vector_load_mask(from, LANES);
}

INLINE vector vector_add(vector a, vector b)
{
    EACH_LANE(i) {
        a.lane[i] += b.lane[i];
    }
    return a;
}

INLINE vector vector_multiply(vector a, vector b)
{
    EACH_LANE(i) {
        a.lane[i] *= b.lane[i];
    }
    return a;
}

/* a · b + c, rounded once */
INLINE vector vector_fma(vector a, vector b, vector c)
{
    EACH_LANE(i) {
        a.lane[i] = fmaf(a.lane[i], b.lane[i], c.lane[i]);
    }
    return a;
}

INLINE void vector_store_mask(float *to, lane_mask mask, vector value)
{
    EACH_LANE(i) {
        if (i < mask) {
            to[i] = value.lane[i];
        }
    }
}

INLINE void vector_store(float *to, vector value)
{
    vector_store_mask(to, LANES, value);
}

/* There is no way past the caches in plain C. */
INLINE void vector_stream(float *to, vector value)
{
    vector_store(to, value);
}

INLINE void stream_fence(void)
{
}

/* Four places (payload rows of the greatest values). */
typedef struct {
    uint32_t lane[LANES];
} places;

INLINE places places_set(uint32_t place)
{
    places out;
    EACH_LANE(i) {
        out.lane[i] = place;
    }
    return out;
}

INLINE places places_load_mask(const uint32_t *from, lane_mask mask)
{
    places out;
    EACH_LANE(i) {
        out.lane[i] = i < mask ? from[i] : 0;
    }
    return out;
}

INLINE void places_store_mask(uint32_t *to, lane_mask mask, places value)
{
    EACH_LANE(i) {
        if (i < mask) {
            to[i] = value.lane[i];
        }
    }
}

/* Lanes where value > *best take value and its place. */
INLINE void vector_max_place(vector value, places place, vector *best, places *best_place)
{
    EACH_LANE(i) {
        bool greater = value.lane[i] > best->lane[i];
        best->lane[i] = greater ? value.lane[i] : best->lane[i];
        best_place->lane[i] = greater ? place.lane[i] : best_place->lane[i];
    }
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
