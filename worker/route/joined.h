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

#include "worker/plan/memory_plan.h"
#include "worker/rows/own_parts.h"

struct joined;

/* Directions that the plan joins, unless some row has more than most_edges edges. The parts are on the device.
 *
 *   owns    borrows own and rows; the caller owns *out: joined_close, also after a failure
 *   errors  STATUS_NOMEM
 *   cost    the edges, twice
 */
enum status joined_open(const struct own_parts *own, const struct memory_rows *rows,
                        const bool joins[PART_DIRECTION_N], int64_t most_edges, struct joined **out);
void joined_close(struct joined *joined);

/* The block of a direction; NULL where blocks come one by one. */
const struct device_block *joined_block(const struct joined *joined, enum part_direction d);

/* Scales of all rows; NULL where no aggregate scales. */
const float *joined_scale(const struct joined *joined);

#endif
