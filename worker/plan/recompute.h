/* Rematerialisation: a rewrite of the training list that drops values after forward and makes them again for
 * backward.
 *
 * Dense ops can run again, on values that are saved: with the same random keys they give the same bits. Aggregates
 * cannot without traffic. Knows sizes and lives, runs nothing.
 */
#ifndef WORKER_RECOMPUTE_H
#define WORKER_RECOMPUTE_H

#include "worker/plan/memory_plan.h"

/* Lower the program, choose what is not saved, and place the plan.
 *
 *   never   nothing is dropped
 *   always  whatever makes the plan smaller
 *   auto    nothing if the arena then fits n_arena_most bytes; else value after value, cheap ones first, until it
 *           does
 *   cost    a few hundred milliseconds for the deepest models
 */
void recompute_plan(const struct program *program, enum job_recompute how, int64_t n_arena_most,
                    struct memory_plan *plan);

#endif
