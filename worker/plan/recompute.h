/* Rematerialisation: a rewrite of the training list that drops values after forward and makes them again for
 * backward.
 *
 * Dense ops can run again, on values that are saved: with the same random keys they give the same bits. Aggregates
 * cannot without traffic. Knows sizes and lives, runs nothing.
 */
#ifndef WORKER_RECOMPUTE_H
#define WORKER_RECOMPUTE_H

#include "worker/plan/memory_plan.h"

/* The training list when these values are not saved, and are made again before they are read. A value that costs a
 * linear map is made once and then stays as long as it is needed; others are made anew after every aggregate's
 * passes, where memory is needed most.
 *
 *   lowered  step_lists_lower's training list
 *   dropped  n_value, each made by a dense op that is not static; NULL: everything is saved
 *   owns     fills plan->steps' training list (memory_plan_release), replacing what was there
 *   returns  false where a value would be too many ops away from what is saved; the list is then the one that was
 *            there
 */
bool recompute_steps(const struct program *program, const struct step_list *lowered, const bool *dropped,
                     struct memory_plan *plan);

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
