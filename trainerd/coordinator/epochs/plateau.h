/* train.lr_schedule = "reduce_on_plateau": lower the learning rate when the validation score stops improving.
 *
 * As torch.optim.lr_scheduler.ReduceLROnPlateau: better is more than train.lr_threshold of the best so far; after
 * train.lr_patience evaluations that are not, the rate is multiplied by train.lr_gamma, down to train.lr_min, and
 * counting begins anew. Evaluations before the end of the warm-up do not count. The rate is part of the checkpoint's
 * state; workers are told what the job's rate is multiplied by.
 */
#ifndef TRAINERD_PLATEAU_H
#define TRAINERD_PLATEAU_H

#include "trainerd/coordinator/epochs/training.h"

/* Nothing seen yet. */
void plateau_begin(const struct job *job, struct checkpoint_state *state);

/* The learning rate's present factor: 1 at first and with other schedules, halved by each rollback. */
double plateau_factor(const struct job *job, const struct checkpoint_state *state);

/* What the evaluation after this epoch found: into the state. true: the rate is another from the next epoch on. */
bool plateau_note(const struct training *training, int64_t epoch, const struct checkpoint_score *score,
                  struct checkpoint_state *state);

#endif
