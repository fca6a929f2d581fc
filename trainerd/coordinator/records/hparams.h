/* A job's settings as TensorBoard's hyperparameters. */
#ifndef TRAINERD_HPARAMS_H
#define TRAINERD_HPARAMS_H

#include "protocol/job/job.h"
#include "trainerd/coordinator/records/tensorboard.h"

/* Write the keys that may change results. tensorboard NULL: nothing. errors  STATUS_IO */
enum status hparams_write(const struct job *job, struct tensorboard *tensorboard);

#endif
