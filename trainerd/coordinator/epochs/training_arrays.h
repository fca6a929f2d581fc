/* The arrays of a job that checkpoints hold: weights and moments, each with the parts' embeddings behind it, and what parts keep from
 * epoch to epoch; between the workers and the coordinator. A part of training.c.
 */
#ifndef TRAINERD_TRAINING_ARRAYS_H
#define TRAINERD_TRAINING_ARRAYS_H

#include "trainerd/coordinator/epochs/training.h"

/* Does the optimiser have this array? */
bool training_has_array(const struct training *training, enum checkpoint_array array);

/* Give an array to the workers / get it from them. what: enum trainer_state; training_n_weight floats. errors  those of the fleet */
enum status training_array_put(struct training *training, uint32_t what, const float *from);
enum status training_array_get(struct training *training, uint32_t what, float *to);

/* Floats that all parts keep. */
int64_t training_n_kept(const struct training *training);

/* Give what they kept to the parts / get training_n_kept floats from them. errors  STATUS_DATA another number; those of the fleet */
enum status training_kept_put(struct training *training, const struct checkpoint *checkpoint);
enum status training_kept_get(struct training *training, float *to);

#endif
