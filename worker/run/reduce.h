/* Sums over parts along one tree over part numbers: the same additions for any number of workers.
 *
 * Node k of level s (k a multiple of 2s) adds node k+s to itself, s = 1, 2, 4, … below K: each part's gradients and
 * sums are reduced to part 0, whose owner is rank 0, and the result is broadcast down a binomial tree over ranks.
 */
#ifndef WORKER_REDUCE_H
#define WORKER_REDUCE_H

#include "worker/state/trainer_state.h"

/* What is reduced: everything, or only the doubles behind the gradients. */
enum reduce_what { REDUCE_GRADIENTS, REDUCE_SUMS, REDUCE_N };

/* Combine all parts' gradients and sums; with `broadcasts` every rank has the result in its first own part, otherwise
 * rank 0.
 * errors  STATUS_PEER of the exchange */
enum status reduce_run(struct trainer *trainer, enum reduce_what what, bool broadcasts);

/* Combine all parts' sums of a global op, forward or backward, by its own merge: every rank has the result in
 * trainer_global(trainer, 0). errors  STATUS_PEER of the exchange */
enum status reduce_global(struct trainer *trainer, int op, bool backward);

#endif
