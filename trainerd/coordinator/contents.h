/* What data a job computes with, as hashes that its checkpoints have: a resume finds out that a file has changed, and
 * takes the same data at another path. The graph and its partition have hashes of their own (struct
 * checkpoint_state). */
#ifndef TRAINERD_CONTENTS_H
#define TRAINERD_CONTENTS_H

#include "partition/graph/dataset.h"
#include "protocol/job/job.h"
#include "trainerd/coordinator/folder/checkpoint.h"

#include <stdint.h>

/* cost  reads the dataset's arrays and the file of model.init; a file that cannot be read counts as 0 */
void contents_find(const struct job *job, const struct dataset *dataset, uint64_t out[CHECKPOINT_N_CONTENT]);

/* Are they the checkpoint's, as far as it knows? errors  STATUS_DATA names the file */
enum status contents_match(const struct checkpoint *checkpoint, const struct job *job, const struct dataset *dataset,
                           const uint64_t content[CHECKPOINT_N_CONTENT]);

#endif
