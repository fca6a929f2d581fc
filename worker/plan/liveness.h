/* When every array in the arena is alive, and where it lies: a fold over the operands of the step list. Arrays whose
 * lives meet never share memory.
 *
 * Time is a step's position in the static phase and the training epoch behind it. An evaluation's forward steps have
 * the times of training's, so the places serve it too. Knows sizes only.
 */
#ifndef WORKER_LIVENESS_H
#define WORKER_LIVENESS_H

#include "models/steps/step.h"
#include "worker/plan/memory_plan.h"

/* Fill plan->arena.at and n_arena_bytes from n_row, n_sparse_value, the workspaces' sizes and the steps; and
 * plan->arena.ending. May be called again after the steps changed.
 *
 *   owns    plan->arena.at and plan->arena.ending, released by memory_plan_release
 *   cost    quadratic in the number of arrays
 */
void liveness_place(const struct program *program, struct memory_plan *plan);

/* Bytes alive at each time under the plan's steps: what no placement can go below.
 *
 *   out      plan->steps.n_time entries
 *   returns  the most
 */
int64_t liveness_load(const struct program *program, const struct memory_plan *plan, int64_t *out);

/* Bytes of an array that may lie in the arena; 0: of others. */
int64_t liveness_bytes(const struct program *program, const struct memory_plan *plan, enum step_array array,
                       int index, int k);

/* The number of an array that lies in the arena, for plan->arena.at; -1: it lies elsewhere. */
int liveness_slot(const struct program *program, enum step_array array, int index, int k);

#endif
