/* All blocks of all parts joined into one, for sums over neighbours where all parts are this rank's.
 *
 *     Y = Σ_j A_·j X_j = A X      X, Y: all parts' rows, as they lie in the arena
 *
 * Rows and columns are rows of the arena, and a row's edges come in the order of its part's blocks: one sum does what
 * a halo pass does block by block, with the same bits (device_ops.joined_edges), however many parts there are. The
 * rows between the parts' are empty.
 */
#ifndef WORKER_JOINED_H
#define WORKER_JOINED_H

#include "worker/state/trainer_state.h"

/* Directions that the plan has joined, unless some row has too many edges. The parts are open.
 *
 *   errors  STATUS_NOMEM; joined_close is safe after a failure
 *   cost    the edges, twice
 */
enum status joined_open(struct trainer *trainer);
void joined_close(struct trainer *trainer);

/* The block of a direction; NULL where blocks come one by one. */
const struct device_block *joined_block(const struct trainer *trainer, enum part_direction d);

/* Scales of all rows; NULL where no aggregate scales. */
const float *joined_scale(const struct trainer *trainer);

#endif
