/* train.patience: training ends when evaluations of the validation split no longer get better.
 *
 * As Keras' EarlyStopping(monitor, min_delta, patience): better is by more than train.min_delta than the best so far,
 * of the metric or of the loss (train.patience_monitor). Which weights are the best is another question, which the
 * metric answers (training.c). The count and the best value are part of the checkpoint's state.
 */
#ifndef TRAINERD_PATIENCE_H
#define TRAINERD_PATIENCE_H

#include "trainerd/coordinator/epochs/training.h"

/* Nothing seen yet. */
void patience_begin(struct checkpoint_state *state);

/* What an evaluation found: into the state. */
void patience_note(const struct training *training, const struct checkpoint_score *score,
                   struct checkpoint_state *state);

bool patience_is_over(const struct job *job, const struct checkpoint_state *state);

/* "loss", "accuracy": of what, of the validation split, got no better. */
const char *patience_text(const struct training *training);

#endif
