/* Offload: a rewrite of the training list that sends arrays to pinned host memory between forward and backward, and
 * fetches them ahead.
 *
 * A value, or what an op saves, that forward reads for the last time long before backward reads it first is stored
 * behind that step, beside the next halo pass, and fetched beside the last halo pass before backward reads it; in
 * between its memory is others'. The bits are what they were. Knows sizes and lives, runs nothing.
 */
#ifndef WORKER_OFFLOAD_H
#define WORKER_OFFLOAD_H

#include "worker/plan/memory_plan.h"

/* Choose arrays, rewrite the training list of a plan that recompute_plan made, and place it anew.
 *
 *   never   nothing
 *   always  whatever makes the plan smaller
 *   auto    nothing if the arena fits n_arena_most bytes; else array after array until it does. Where copies beside
 *           halo passes keep too much memory, arrays leave and come at once, and nothing runs beside them
 *   owns    fills plan->homes.home, n_home and n_home_bytes (memory_plan_release)
 *   cost    as recompute_plan
 */
void offload_plan(const struct program *program, enum job_offload how, int64_t n_arena_most,
                  struct memory_plan *plan);

#endif
