/* Bytes of payloads that a worker receives, by layer (an aggregate that is not static), by purpose, and by the worker
 * that sends them: the layout of such a table, planned or counted. Counted ones are sent to the coordinator as they
 * are in memory, after a struct traffic_head. Independent of programs and parts.
 */
#ifndef PROTOCOL_TRAFFIC_H
#define PROTOCOL_TRAFFIC_H

#include <stdint.h>

#define TRAFFIC_LAYERS_MOST 1280

enum traffic_what {
    TRAFFIC_FORWARD,  /* rows, in training */
    TRAFFIC_BACKWARD, /* gradients, and rows that they are made of */
    TRAFFIC_EVALUATE, /* rows, in evaluations */
    TRAFFIC_N_WHAT
};

/* Training epochs and evaluations in which the bytes were counted. */
struct traffic_head {
    uint64_t n_train, n_evaluate;
};

/* A table has traffic_n_row rows of one number for each worker: by layer and what, then sums over parts in training,
 * then those in evaluations. */
static inline int traffic_n_row(int n_layer)
{
    return n_layer * TRAFFIC_N_WHAT + 2;
}

static inline int traffic_row(int layer, enum traffic_what what)
{
    return layer * TRAFFIC_N_WHAT + (int)what;
}

static inline int traffic_row_sums(int n_layer, int evaluates)
{
    return n_layer * TRAFFIC_N_WHAT + (evaluates != 0);
}

/* Does this row belong to evaluations, rather than to training? */
static inline int traffic_row_evaluates(int n_layer, int row)
{
    return row < n_layer * TRAFFIC_N_WHAT ? row % TRAFFIC_N_WHAT == TRAFFIC_EVALUATE
                                          : row == traffic_row_sums(n_layer, 1);
}

_Static_assert(sizeof(struct traffic_head) == 16, "no gaps: it travels as it lies");

#endif
