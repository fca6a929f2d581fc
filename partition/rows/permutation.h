/* Random orders of nodes, or of edges, without a table. */
#ifndef PARTITION_PERMUTATION_H
#define PARTITION_PERMUTATION_H

#include "protocol/base/random.h"

#include <stdint.h>

#define PERMUTATION_ROUNDS 8
#define PERMUTATION_EACH 16 /* numbers of permutation_each */

/* A random order of 0 … n-1 that needs no table: an alternating Feistel network over the smallest power of two that
 * holds n, walked until it lands below n.
 * source  Black & Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002 */
struct permutation {
    int64_t n;
    uint32_t bits_low, bits_high;
    uint32_t round_key[PERMUTATION_ROUNDS];
};

/* n is at most 2^63. The order depends on the key alone. */
struct permutation permutation_make(struct random_key key, int64_t n);
int64_t permutation_at(const struct permutation *permutation, int64_t x);
int64_t permutation_inverse(const struct permutation *permutation, int64_t y);

/* The round function; any function will do, a good mixer needs few rounds. */
static inline uint32_t permutation_mix(uint32_t x, uint32_t key)
{
    x = (x ^ key) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* x[i] becomes permutation_at(x[i]), of a few at a time in the caller's vectors, where n is at most 2^32 */
__attribute__((always_inline)) static inline void permutation_each(const struct permutation *p, uint32_t *x)
{
    const uint32_t bits = p->bits_low, mask_low = (1U << bits) - 1, mask_high = (1U << p->bits_high) - 1;
    for (int i = 0; i < PERMUTATION_EACH; i++) {
        uint32_t low = x[i] & mask_low, high = x[i] >> bits;
        for (int round = 0; round < PERMUTATION_ROUNDS; round += 2) {
            low ^= permutation_mix(high, p->round_key[round]) & mask_low;
            high ^= permutation_mix(low, p->round_key[round + 1]) & mask_high;
        }
        x[i] = high << bits | low;
    }
    for (int i = 0; i < PERMUTATION_EACH; i++) {
        x[i] = x[i] < p->n ? x[i] : (uint32_t)permutation_at(p, x[i]);
    }
}

#endif
