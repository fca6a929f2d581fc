/* All blocks of all parts merged into one, for sums over neighbours, and attentions, where all parts are this rank's.
 *
 *     Y = Σ_j A_·j X_j = A X      X, Y: all parts' rows, as they lie in the arena
 *
 * Columns are rows of the arena, and a row's edges come in the order of its part's blocks: one sum does what a halo
 * pass does block by block, with the same bits (device_ops.merged_edges), however many parts there are.
 *
 * Where training leaves out rows (D29), all parts' rows of one hop come before those of the next, so that those that
 * count come first, and a list says where in the arena each of them lies. In-edges at a hop are the first rows of all
 * in-edges. Transposed, edges to destinations that count are picked out, for each hop, with the loops of these
 * (part_hop.h).
 */
#ifndef WORKER_MERGED_H
#define WORKER_MERGED_H

#include "worker/plan/memory_plan.h"
#include "worker/rows/own_parts.h"

struct merged;

/* The blocks that the plan merges (memory_plan.merged), unless some row has more than most_edges edges. The parts are
 * on the device.
 *
 *   owns    borrows own and plan; the caller owns *out: merged_close, also after a failure
 *   errors  STATUS_NOMEM
 *   cost    the edges, twice, of each block
 */
enum status merged_open(const struct own_parts *own, const struct memory_plan *plan, int64_t most_edges,
                        struct merged **out);
void merged_close(struct merged *merged);

/* What a sum with an output of hop `of` adds up, from columns in arrays of the rows of hop `from` (memory_plan_rows)
 * to rows in one of hop `to`; false where blocks come one by one. A hop that there is not: all. */
struct merged_hops {
    int32_t of, from, to;
};

bool merged_block(const struct merged *merged, enum part_direction d, const struct merged_hops *hops,
                  struct device_block *out);

/* Scales of all rows, in an array of the rows of a hop; NULL where no aggregate scales. */
const float *merged_scale(const struct merged *merged, int32_t hop);

/* Dataset ids of all rows; NULL where nothing is drawn by them. */
const uint32_t *merged_node(const struct merged *merged);

#endif
