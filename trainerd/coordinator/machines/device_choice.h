/* What a job computes on: workers.device, where it is "auto" a choice by what this machine has.
 *
 * GPUs are counted by a worker (trainer-worker --gpus): CUDA is loaded into workers alone.
 */
#ifndef TRAINERD_DEVICE_CHOICE_H
#define TRAINERD_DEVICE_CHOICE_H

#include "protocol/job/job.h"
#include "trainerd/coordinator/folder/checkpoint.h"

#include <stdbool.h>

/* Replace "auto" in the job: by what the checkpoint's job computed on (NULL: without a checkpoint); else by cuda
 * where the workers run on this machine, it has a usable GPU and memory.spill is not used; else by cpu.
 *
 *   starts  false: the job is only planned; a GPU that it asks for need not be here
 *   errors  STATUS_PEER "no usable GPU: <reason>", where it asks for one and the workers run here; STATUS_CONFIG
 *           memory.spill, where the checkpoint's job ran on one; model.kernel, where auto is no GPU or the model has
 *           no sums
 */
enum status device_choose(const struct checkpoint *checkpoint, bool starts, struct job *job_io);

#endif
