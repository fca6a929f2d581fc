/* What is no longer finite in a training: the loss, a gradient or a weight. train.on_nan decides what follows.
 */
#ifndef TRAINERD_DIVERGENCE_H
#define TRAINERD_DIVERGENCE_H

#include "trainerd/coordinator/epochs/training.h"

/* After an epoch.
 * errors  STATUS_TRAINING with the loss, or the parameter and its line in the user's text; STATUS_PEER a worker
 *         names a parameter that the model does not have */
enum status divergence_find(const struct training *training, const struct fleet_report *report, int64_t epoch,
                            bool evaluate);

/* A checkpoint's weights (program->n_weight), to which a rollback returns; here are also running statistics, which no
 * step looks at. errors  STATUS_TRAINING */
enum status divergence_weights(const struct program *program, const float *weights, int64_t epoch);

#endif
