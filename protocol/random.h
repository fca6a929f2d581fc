/* Counter-based random numbers: Philox4x32-10, keyed by what is drawn and never by who draws it.
 *
 * A draw depends on (seed, stream, epoch, op, row, column) alone: nothing is stored, nothing is sent, and
 * neither parts, workers, threads nor vector width change it. Pure arithmetic; knows no memory.
 * source  Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011
 */
#ifndef PROTOCOL_RANDOM_H
#define PROTOCOL_RANDOM_H

#include <stdint.h>

/* What a draw is for; the number goes into the key, so it is never reused. */
enum random_stream { RANDOM_STREAM_DROPOUT = 1, RANDOM_STREAM_INIT = 2, RANDOM_STREAM_GENERATOR = 3, RANDOM_STREAM_PARTITION = 4 };

/* Everything a draw is keyed by, but for row and column. */
struct random_key {
    uint64_t seed;
    uint32_t epoch;
    uint16_t op;      /* the op's number in its program, or the tensor's number */
    uint16_t stream;  /* enum random_stream */
};

#define RANDOM_PHILOX_M0 0xD2511F53u
#define RANDOM_PHILOX_M1 0xCD9E8D57u
#define RANDOM_PHILOX_W0 0x9E3779B9u
#define RANDOM_PHILOX_W1 0xBB67AE85u
#define RANDOM_PHILOX_ROUNDS 10

/* Four 32-bit numbers of counter c[4] and key k[2]; the generic function, checked against the paper's vectors. */
static inline void random_philox(const uint32_t c[4], const uint32_t k[2], uint32_t out[4])
{
    uint32_t c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3], k0 = k[0], k1 = k[1];
    for (int round = 0; round < RANDOM_PHILOX_ROUNDS; round++) {
        uint64_t p0 = (uint64_t)RANDOM_PHILOX_M0 * c0;
        uint64_t p1 = (uint64_t)RANDOM_PHILOX_M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += RANDOM_PHILOX_W0;
        k1 += RANDOM_PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* The counter and key of one draw: columns 4·quad … 4·quad+3 of row `row` (a dataset node id < 2^40).
 *   counter = (quad, row's low word, epoch, op | row's high byte << 16 | stream << 24) · key = seed */
static inline void random_counter(const struct random_key *key, uint64_t row, uint32_t quad, uint32_t c[4],
                                  uint32_t k[2])
{
    c[0] = quad;
    c[1] = (uint32_t)row;
    c[2] = key->epoch;
    c[3] = (uint32_t)key->op | ((uint32_t)(row >> 32) & 0xffu) << 16 | (uint32_t)key->stream << 24;
    k[0] = (uint32_t)key->seed;
    k[1] = (uint32_t)(key->seed >> 32);
}

/* One 32-bit draw for (row, column). */
static inline uint32_t random_u32(const struct random_key *key, uint64_t row, uint32_t column)
{
    uint32_t c[4], k[2], out[4];
    random_counter(key, row, column / 4, c, k);
    random_philox(c, k, out);
    return out[column % 4];
}

/* Uniform in [0, 1) with 24 bits. */
static inline float random_unit(const struct random_key *key, uint64_t row, uint32_t column)
{
    return (float)(random_u32(key, row, column) >> 8) * 0x1p-24f;
}

/* An element is dropped when its draw is below this: p in [0, 1) as 32-bit fixed point. */
static inline uint32_t random_drop_threshold(double p)
{
    return (uint32_t)(p * 4294967296.0);
}

#endif
