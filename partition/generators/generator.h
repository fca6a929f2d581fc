/* Built-in graphs. Private to generator*.c: other files use generator_build (dataset_build.h).
 *
 * Every draw is Philox, keyed by dataset.seed, the purpose, and the node or edge. Generators have no state, so edges
 * are never stored, only drawn again, and the graph is the same for any number of threads.
 */
#ifndef PARTITION_GENERATOR_H
#define PARTITION_GENERATOR_H

#include "partition/graph/dataset_build.h"
#include "protocol/base/random.h"

#include <stdint.h>

#define GENERATOR_EDGE_MOST ((int64_t)1 << 37)

/* The purpose of a draw: the key's `op`. */
enum generator_draw {
    GENERATOR_DRAW_SPLIT,
    GENERATOR_DRAW_EDGE,
    GENERATOR_DRAW_CENTRE,
    GENERATOR_DRAW_NOISE,
    GENERATOR_DRAW_PROJECTION,
    GENERATOR_DRAW_PERMUTATION /* + layer, so the last */
};

struct random_key generator_key(const struct job *job, int draw);

enum status generator_karate(const struct job *job, struct dataset *out);
enum status generator_sbm(const struct job *job, struct dataset *out);
enum status generator_rmat(const struct job *job, struct dataset *out);

/* A whole number in [0, n) from one 32-bit draw, n ≤ 2^32. */
static inline int64_t generator_below(uint32_t draw, int64_t n)
{
    return (int64_t)((uint64_t)draw * (uint64_t)n >> 32);
}

/* Nearly normal, mean 0, variance 1: the four bytes of a draw, summed (Irwin-Hall). Whole numbers until the last
 * step, so that every machine gets the same bits. */
static inline float generator_normal(uint32_t draw)
{
    int sum = (int)(draw & 0xff) + (int)(draw >> 8 & 0xff) + (int)(draw >> 16 & 0xff) + (int)(draw >> 24);
    return (float)(sum - 510) * 0.0067658780f; /* 1 / sqrt(4 (256² - 1) / 12) */
}

/* round(nodes × degree) edges.
 *
 *   errors  STATUS_CONFIG above GENERATOR_EDGE_MOST · STATUS_NOMEM a graph that fits neither this machine nor the
 *           limit of the job's workers together, with both numbers
 */
enum status generator_n_edge(const struct job *job, int64_t n_node, int64_t *out);

/* features.f32 of n_node rows: the rows' block, still zero; the caller fills it. */
enum status generator_features(const struct job *job, struct dataset *out, float **rows_out);

/* 60 / 20 / 20 by one draw per node; without another training node the first one trains. */
enum status generator_splits(const struct job *job, struct dataset *out);

#endif
