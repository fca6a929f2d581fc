/* The accuracy guard (exchange.guard_every): an epoch's approximate gradient beside the exact one, made from the same
 * weights and the same random draws. The step takes the exact one; where the two lie too far apart, later epochs
 * approximate less.
 *
 * Every rank has the same sums, so all find the same and decide the same.
 */
#ifndef WORKER_GUARD_H
#define WORKER_GUARD_H

#include "worker/state/trainer_state.h"

/* Is this epoch one that compares? Not where it loses nothing anyway. */
bool guard_is_due(const struct trainer *trainer);

/* The training phase of such an epoch, and what it found: trainer->run.guard, trainer->run.n_back_off.
 * errors  those of trainer_run */
enum status guard_run(struct trainer *trainer);

/* From floats_compare's sums over exact and approximate gradients: ‖g̃ − g‖ / ‖g‖, and the cosine between the two. */
double guard_error(const double sums[3]);
double guard_cosine(const double sums[3]);

#endif
