/* What a step has to do at least on a worker's parts: arithmetic, and bytes that memory reads and writes. A fold over
 * its operands, from sizes alone; knows no device and no time. */
#ifndef TRAINERD_STEP_WORK_H
#define TRAINERD_STEP_WORK_H

#include "worker/plan/memory_plan.h"

struct step_work {
    double n_flop;     /* of linear maps and sums over neighbours; a multiply-add is two */
    double n_byte;     /* of what it reads and writes, each array once */
    double n_gathered; /* the same, but rows at edges' other ends are read once for each edge */
};

/* Rows of all own parts that a step is over: of its op's output, in a halo pass over transposed blocks those of its
 * sources; 0: it is over no rows. all: of every hop, as before epoch 0 and in evaluations */
int64_t step_work_rows(const struct memory_plan_input *input, const struct step *step, bool all);

/* Bytes of payloads that other workers send, in the codec in which rows are longest. */
int64_t step_work_received(const struct memory_plan_input *input, const struct memory_plan *plan,
                           const struct step *step, bool all);

/* first: the first step of its fused chain, in the same list; alone: itself. What the chain has touched before is at
 * hand, and what lies in its windows never leaves them. Sampled edges count as all edges. Features of edges,
 * embeddings, moments and scratch do not count. */
struct step_work step_work_count(const struct memory_plan_input *input, const struct memory_plan *plan,
                                 const struct step *first, const struct step *step, bool all);

#endif
