#include "partition/rows/permutation.h"

struct permutation permutation_make(struct random_key key, int64_t n)
{
    struct permutation permutation = {.n = n};
    uint32_t bits = 0;
    while (((int64_t)1 << bits) < n) {
        bits++;
    }
    permutation.bits_low = bits / 2;
    permutation.bits_high = bits - bits / 2;
    for (uint32_t round = 0; round < PERMUTATION_ROUNDS; round++) {
        permutation.round_key[round] = random_u32(&key, 0, round);
    }
    return permutation;
}

/* Even rounds change the low half by the high one, odd rounds the other way round: each round is its own inverse. */
static int64_t round_apply(const struct permutation *permutation, int64_t x, int round)
{
    uint32_t mask_low = (uint32_t)(((uint64_t)1 << permutation->bits_low) - 1);
    uint32_t mask_high = (uint32_t)(((uint64_t)1 << permutation->bits_high) - 1);
    uint32_t low = (uint32_t)x & mask_low, high = (uint32_t)((uint64_t)x >> permutation->bits_low);
    if (round % 2 == 0) {
        low ^= permutation_mix(high, permutation->round_key[round]) & mask_low;
    } else {
        high ^= permutation_mix(low, permutation->round_key[round]) & mask_high;
    }
    return (int64_t)((uint64_t)high << permutation->bits_low | low);
}

int64_t permutation_at(const struct permutation *permutation, int64_t x)
{
    do {
        for (int round = 0; round < PERMUTATION_ROUNDS; round++) {
            x = round_apply(permutation, x, round);
        }
    } while (x >= permutation->n);
    return x;
}

int64_t permutation_inverse(const struct permutation *permutation, int64_t y)
{
    do {
        for (int round = PERMUTATION_ROUNDS - 1; round >= 0; round--) {
            y = round_apply(permutation, y, round);
        }
    } while (y >= permutation->n);
    return y;
}
