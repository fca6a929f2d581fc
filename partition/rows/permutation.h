/* Random orders of nodes, or of edges, without a table. */
#ifndef PARTITION_PERMUTATION_H
#define PARTITION_PERMUTATION_H

#include "protocol/base/random.h"

#include <stdint.h>

/* A function whose loops become vectors: a copy for each width, of which the loader takes the processor's. */
#if defined(__x86_64__)
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDEST
#endif

/* A random order of 0 … n-1 that needs no table: an alternating Feistel network over the smallest power of two that
 * holds n, walked until it lands below n.
 * source  Black & Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002 */
struct permutation {
    int64_t n;
    uint32_t bits_low, bits_high;
    uint32_t round_key[8];
};

/* n is at most 2^63. The order depends on the key alone. */
struct permutation permutation_make(struct random_key key, int64_t n);
int64_t permutation_at(const struct permutation *permutation, int64_t x);
/* x[i] becomes permutation_at(x[i]), of a few at a time, where n is at most 2^32 */
#define PERMUTATION_EACH 16
void permutation_each(const struct permutation *p, uint32_t x[PERMUTATION_EACH]);
int64_t permutation_inverse(const struct permutation *permutation, int64_t y);

#endif
