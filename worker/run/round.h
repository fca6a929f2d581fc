/* One aggregate over all own parts, forward or backward: block after block, payloads fetched ahead and given away.
 *
 * Own part i takes the blocks j = i, i+1, … (mod K): its own rows in place, rows of parts of this rank where they lie, others as
 * payloads, of which at most the credit is in flight. Meanwhile other ranks are served.
 */
#ifndef WORKER_ROUND_H
#define WORKER_ROUND_H

#include "worker/run/trainer_state.h"

/* Slots and lists, once. Released with round_state_close. */
struct round_state *round_state_open(const struct trainer *trainer);
void round_state_close(struct round_state *state);

/* Run the aggregate `op` in `phase`. errors  STATUS_PEER of the exchange */
enum status round_forward(struct trainer *trainer, int op, enum exchange_phase phase);

/* Its adjoint: first what own rows alone say (where the aggregate has a backward_begin), then the rounds: from the gradient
 * of op.out to those of its inputs and parameters. */
enum status round_backward_begin(struct trainer *trainer, int op);
enum status round_backward(struct trainer *trainer, int op);

#endif
