/* Where every value, gradient and kept array of a program lies in one arena: lives that meet never share memory.
 *
 * Time runs over one training epoch: static ops, forward ops, the loss, the ops again backwards. An evaluation walks the
 * same forward times, so the places serve it too. Knows sizes only.
 */
#ifndef WORKER_LIVENESS_H
#define WORKER_LIVENESS_H

#include "models/program.h"
#include "worker/memory_plan.h"

/* Fill value_at, grad_at, kept_at, temp_at and n_arena_bytes from n_row and n_sparse_value.
 *
 *   owns  the four arrays are allocated here, released by memory_plan_release
 *   cost  quadratic in the number of arrays (a few hundred at most)
 */
void liveness_place(const struct program *program, struct memory_plan *plan);

#endif
