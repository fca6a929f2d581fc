/* What makes a pair's score of its nodes' rows x and y (task.decoder), with the weights of a model:
 *
 *     dot        Σ_c x_c · y_c
 *     distmult   Σ_c x_c · r_c · y_c, r the row of the pair's relation        Yang et al., ICLR 2015
 *     mlp        linear layers of x ∘ y with relu between them, the last one to a number
 *
 * Sums are in double, in the order of the columns, a score is float32: the same bits from either end, in any batch,
 * for any number of threads. Knows rows and weights, neither graphs nor workers.
 */
#ifndef TRAINERD_DECODER_H
#define TRAINERD_DECODER_H

#include "models/program/program.h"
#include "protocol/job/job.h"

#include <stdint.h>

#define DECODER_LAYERS_MOST 8

struct decoder_layer {
    int64_t f_in, f_out;
    const float *weight, *bias; /* f_out × f_in, f_out */
};

struct decoder {
    int64_t width;          /* columns of the nodes' rows */
    const float *relations; /* a row of width for each; NULL: scores know no relations */
    int n_layer;            /* 0: the score is the sum of the products */
    struct decoder_layer layer[DECODER_LAYERS_MOST];
};

/* The decoder of a job of links, with its weights in the parameter arena of the program, which is borrowed. The dot
 * product has no weights: the arena may be NULL. */
struct decoder decoder_of(const struct job *job, const struct program *program, const float *arena);

/* Scores are made of LANES pairs side by side: the memory for it, of one thread. */
#define DECODER_LANES 16
struct decoder_lanes {
    const struct decoder *decoder;
    double *asked; /* width × LANES: what the other end's row is multiplied with */
    double *spare; /* for the layers */
    int64_t n_spare;
};
void decoder_lanes_open(const struct decoder *decoder, struct decoder_lanes *out);
void decoder_lanes_close(struct decoder_lanes *lanes);

/* Ask for the scores of a node's row, in this relation (-1: none). Lanes that were not asked for have any score. */
void decoder_ask(const struct decoder_lanes *lanes, int lane, const float *row, int relation);

/* The scores of each lane's node with one other.  cost  LANES · width products, and for each its layers */
void decoder_answer(const struct decoder_lanes *lanes, const float *row, float out[DECODER_LANES]);

/* Pairs of nodes: the ends of pair k are end[2k] and end[2k + 1]; with n_tail, each pair's head with n_tail other
 * tails in place of its own. */
struct decoder_pairs {
    int64_t n;
    const uint32_t *end;      /* n × 2 */
    const uint16_t *relation; /* n; NULL: relations do not count */
    int64_t n_tail;           /* 0: the pairs themselves */
    const uint32_t *tail;     /* n × n_tail */
};

/* Their scores, on several threads.  shapes  rows n_node × width · score n, or n × n_tail */
void decoder_score(const struct decoder *decoder, const float *rows, const struct decoder_pairs *pairs, float *score);

#endif
