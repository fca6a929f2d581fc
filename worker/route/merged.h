/* All blocks of all parts merged into one, for sums over neighbours where all parts are this rank's.
 *
 *     Y = Σ_j A_·j X_j = A X      X, Y: all parts' rows, as they lie in the arena
 *
 * Rows and columns are rows of the arena, and a row's edges come in the order of its part's blocks: one sum does what
 * a halo pass does block by block, with the same bits (device_ops.merged_edges), however many parts there are. The
 * rows between the parts' are empty.
 */
#ifndef WORKER_MERGED_H
#define WORKER_MERGED_H

#include "worker/plan/memory_plan.h"
#include "worker/rows/own_parts.h"

struct merged;

/* Directions that the plan merges (memory_plan.merged), unless some row has more than most_edges edges. The parts are
 * on the device.
 *
 *   owns    borrows own and rows; the caller owns *out: merged_close, also after a failure
 *   errors  STATUS_NOMEM
 *   cost    the edges, twice
 */
enum status merged_open(const struct own_parts *own, const struct memory_rows *rows,
                        const int64_t merges[PART_DIRECTION_N], int64_t most_edges, struct merged **out);
void merged_close(struct merged *merged);

/* The block of a direction; NULL where blocks come one by one. */
const struct device_block *merged_block(const struct merged *merged, enum part_direction d);

/* Scales of all rows; NULL where no aggregate scales. */
const float *merged_scale(const struct merged *merged);

#endif
