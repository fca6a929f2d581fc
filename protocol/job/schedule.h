/* The learning rate of an epoch, which depends only on the job: every rank computes the same number, and so does a
 * resumed job. Separate from the trainer because metrics.jsonl also reports it. */
#ifndef PROTOCOL_SCHEDULE_H
#define PROTOCOL_SCHEDULE_H

#include "protocol/job/job.h"

#include <stdint.h>

/* Learning rate of `epoch` (from 0).
 *
 *   warm-up   epoch < train.warmup: lr · (epoch + 1) / (warmup + 1), so that epoch `warmup` is the first at the full
 *   rate
 *   constant  lr
 *   cosine    lr · (1 + cos(π e / n)) / 2 with e epochs since the warm-up of n = epochs − warmup: 0 after the last
 *             epoch
 *   step      lr · lr_gamma^⌊e / lr_step⌋
 *   reduce_on_plateau  lr; evaluations add a factor
 *   source    Loshchilov & Hutter, ICLR 2017, eq. 5 (cosine, without restarts)
 */
double schedule_lr(const struct job *job, uint32_t epoch);

#endif
