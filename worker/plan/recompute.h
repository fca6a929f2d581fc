/* What backward does, step by step, and which values it makes again rather than finding them kept.
 *
 * Dense ops can run again, on values that are kept: with the same random keys they give the same bits. Aggregates cannot
 * without traffic. Knows sizes and lives, runs nothing.
 */
#ifndef WORKER_RECOMPUTE_H
#define WORKER_RECOMPUTE_H

#include "worker/plan/memory_plan.h"

/* The plan's steps when these values are not kept, and are made again before they are needed. A value that costs a linear map is
 * made once and then stays as long as it is needed; others are made anew after every aggregate's rounds, where memory is
 * needed most.
 *
 *   dropped  n_value, each made by a dense op that is not static; NULL: everything is kept
 *   owns     fills plan->step (memory_plan_release), replacing what was there
 *   returns  false where a value would be too many ops away from what is kept; the steps are then those that were there
 */
bool recompute_steps(const struct program *program, const bool *dropped, struct memory_plan *plan);

/* Choose what is not kept, and place the plan.
 *
 *   never   nothing is dropped
 *   always  whatever makes the plan smaller
 *   auto    nothing if the arena then fits n_arena_most bytes; else value after value, cheap ones first, until it does
 *   cost    a few hundred milliseconds for the deepest models
 */
void recompute_plan(const struct program *program, enum job_recompute how, int64_t n_arena_most, struct memory_plan *plan);

#endif
