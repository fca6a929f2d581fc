/* Steps of an epoch, part after part, each with what it uses in memory: where a trainer meets its spill.
 *
 * Without a spill this is a plain walk over the own parts.
 */
#ifndef WORKER_HOLD_H
#define WORKER_HOLD_H

#include "worker/plan/uses.h"
#include "worker/run/trainer_state.h"
#include "worker/spill/spill.h"

#define HOLD_RANGES_MOST (USES_MOST + 16) /* blocks and sparse features are several arrays each */

/* A walk over own parts:
 *
 *     struct hold hold = hold_open(t);
 *     uses_forward(…, &hold.uses);
 *     while (hold_next(&hold)) {
 *         … own part hold.part …
 *     }
 *     … hold.status …
 *
 * What the body sets hold.status to ends the walk, as does a failure of the spill.
 */
struct hold {
    struct trainer *trainer;
    struct uses uses;
    bool ascends; /* from the first own part to the last; else whichever way finds more in memory */
    enum status status;
    int32_t part; /* own part at work */
    int32_t n_begun;
    int n_range; /* held */
    struct spill_range range[HOLD_RANGES_MOST];
};

struct hold hold_open(struct trainer *trainer);
bool hold_next(struct hold *hold);

/* One part, or what belongs to none, until hold_end. */
enum status hold_begin(struct hold *hold, int32_t part);
void hold_end(struct hold *hold);

/* After an op's forward run or a step of backward: what nobody reads any more. `time` as in liveness.h */
void hold_forget(const struct trainer *trainer, int time);

#endif
