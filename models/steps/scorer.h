/* A decoder's program (program.scorer) over pairs of rows: scores, and from their slopes gradients. Its values are
 * rows of some pairs at a time, in memory of the plan, so that no array has a row for each pair.
 *
 * Pairs are distributed to chunks, which run at the same time where the device does so. Each chunk has its own sums
 * of the weights' gradients, and these are added in the chunks' order. Chunks depend on the pairs alone.
 */
#ifndef MODELS_SCORER_H
#define MODELS_SCORER_H

#include "models/program/op.h"

#include <stdbool.h>
#include <stdint.h>

/* The ends of a pair: value 0 of the scorer has the head's row (e.src.x), value 1 the tail's (e.dst.x). */
enum scorer_end { SCORER_HEAD, SCORER_TAIL, SCORER_N_END };

struct scorer {
    struct device *device;
    const struct device_ops *ops;  /* as scorer_bytes had them */
    const struct program *program; /* the model's, which has a scorer */
    const float *weights;          /* arena of its parameters */
    void *memory;                  /* device: scorer_bytes */
    bool by_window;                /* a pair's score has the same bits in any list, for a longer product */
};

/* Bytes of memory; gradients: scorer_gradients is called, too. */
int64_t scorer_bytes(const struct program *program, const struct device_ops *ops, bool gradients);

struct scorer_pairs {
    int64_t n;
    const float *rows[SCORER_N_END];
    const uint32_t *list[SCORER_N_END]; /* n: which rows */
    const uint32_t *relations;          /* n; NULL: the scorer reads none */
    const uint32_t *numbers;            /* n, distinct: where a score or slope stands; NULL: in the order of pairs */
};

/* score[number] += each pair's */
void scorer_scores(const struct scorer *scorer, const struct scorer_pairs *pairs, float *score);

struct scorer_gradients {
    enum scorer_end end; /* of these rows, which are listed in ascending order */
    const float *slope;  /* of each score; NULL: those of … */
    const struct device_pair_losses
        *losses;           /* … pairs that are groups of their own: n_group, score, scratch unused */
    double *loss;          /* added to */
    float *rows, *weights; /* added to: gradients of these rows, arena of those of parameters */
};

void scorer_gradients(const struct scorer *scorer, const struct scorer_pairs *pairs,
                      const struct scorer_gradients *wanted);

#endif
