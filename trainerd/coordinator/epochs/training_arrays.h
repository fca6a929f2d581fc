/* The arrays of a job that checkpoints hold, between the workers and the coordinator: the rows of
 * protocol/wire/worker_state.def that have a section. A part of training.c.
 */
#ifndef TRAINERD_TRAINING_ARRAYS_H
#define TRAINERD_TRAINING_ARRAYS_H

#include "trainerd/coordinator/epochs/training.h"

/* Floats of an array; WEIGHTS: the shared weights, then each part's embeddings. 0: the job does not use it. */
int64_t training_array_floats(const struct training *training, enum checkpoint_array array);

/* Set an array on the workers / read it from them: training_array_floats of it. errors  those of the fleet */
enum status training_array_put(struct training *training, enum checkpoint_array array, const float *from);
enum status training_array_get(struct training *training, enum checkpoint_array array, float *to);

#endif
