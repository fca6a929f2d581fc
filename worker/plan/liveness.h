/* When every value, gradient, kept array and room of a program is alive, and where it lies in one arena: lives that meet never
 * share memory.
 *
 * Time runs over one training epoch: static ops, forward ops, the loss, the plan's steps backwards. An evaluation walks the
 * same forward times, so the places serve it too. Knows sizes only.
 */
#ifndef WORKER_LIVENESS_H
#define WORKER_LIVENESS_H

#include "models/program.h"
#include "worker/plan/memory_plan.h"

/* Fill value_at, grad_at, kept_at, temp_at, the rooms' places and n_arena_bytes, from n_row, n_sparse_value, the rooms' sizes and
 * the steps; and what ends when. May be called again after the steps changed.
 *
 *   owns  the four arrays are allocated here, released by memory_plan_release
 *   cost  quadratic in the number of arrays
 */
void liveness_place(const struct program *program, struct memory_plan *plan);

/* The times of an epoch: an op's forward run, and backward's steps. */
int liveness_time_forward(const struct program *program, int op);
int liveness_time_step(const struct program *program, int step);

/* Bytes alive at each time of an epoch under the plan's steps: what no placement can go below.
 *
 *   out      liveness_n_time(program, plan) entries
 *   returns  the most
 */
int64_t liveness_load(const struct program *program, const struct memory_plan *plan, int64_t *out);
int liveness_n_time(const struct program *program, const struct memory_plan *plan);

#endif
