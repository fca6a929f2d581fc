#include "partition/rows/permutation.h"

#define N_ROUND 8

struct permutation permutation_make(struct random_key key, int64_t n)
{
    struct permutation permutation = {.n = n};
    uint32_t bits = 0;
    while (((int64_t)1 << bits) < n) {
        bits++;
    }
    permutation.bits_low = bits / 2;
    permutation.bits_high = bits - bits / 2;
    for (uint32_t round = 0; round < N_ROUND; round++) {
        permutation.round_key[round] = random_u32(&key, 0, round);
    }
    return permutation;
}

/* The round function; any function will do, a good mixer needs few rounds. */
static inline uint32_t mix(uint32_t x, uint32_t key)
{
    x = (x ^ key) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* Even rounds change the low half by the high one, odd rounds the other way round: each round is its own inverse. */
static int64_t round_apply(const struct permutation *permutation, int64_t x, int round)
{
    uint32_t mask_low = (uint32_t)(((uint64_t)1 << permutation->bits_low) - 1);
    uint32_t mask_high = (uint32_t)(((uint64_t)1 << permutation->bits_high) - 1);
    uint32_t low = (uint32_t)x & mask_low, high = (uint32_t)((uint64_t)x >> permutation->bits_low);
    if (round % 2 == 0) {
        low ^= mix(high, permutation->round_key[round]) & mask_low;
    } else {
        high ^= mix(low, permutation->round_key[round]) & mask_high;
    }
    return (int64_t)((uint64_t)high << permutation->bits_low | low);
}

int64_t permutation_at(const struct permutation *permutation, int64_t x)
{
    do {
        for (int round = 0; round < N_ROUND; round++) {
            x = round_apply(permutation, x, round);
        }
    } while (x >= permutation->n);
    return x;
}

WIDEST void permutation_each(const struct permutation *p, uint32_t x[PERMUTATION_EACH])
{
    const uint32_t bits = p->bits_low, mask_low = (1U << bits) - 1, mask_high = (1U << p->bits_high) - 1;
    for (int i = 0; i < PERMUTATION_EACH; i++) {
        uint32_t low = x[i] & mask_low, high = x[i] >> bits;
        for (int round = 0; round < N_ROUND; round += 2) {
            low ^= mix(high, p->round_key[round]) & mask_low;
            high ^= mix(low, p->round_key[round + 1]) & mask_high;
        }
        x[i] = high << bits | low;
    }
    for (int i = 0; i < PERMUTATION_EACH; i++) {
        x[i] = x[i] < p->n ? x[i] : (uint32_t)permutation_at(p, x[i]);
    }
}

int64_t permutation_inverse(const struct permutation *permutation, int64_t y)
{
    do {
        for (int round = N_ROUND - 1; round >= 0; round--) {
            y = round_apply(permutation, y, round);
        }
    } while (y >= permutation->n);
    return y;
}
