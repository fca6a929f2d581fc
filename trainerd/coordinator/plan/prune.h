/* Whether a job's training epochs leave out what its loss does not depend on, and how much of their work that is.
 *
 * One decision for the whole job, from graph, split, model and the number of parts alone: workers do not change it.
 */
#ifndef TRAINERD_PRUNE_H
#define TRAINERD_PRUNE_H

#include "models/program/program.h"
#include "partition/part/part.h"
#include "protocol/job/job.h"

#include <stdint.h>

struct prune {
    int32_t n_hop;                       /* 0: nothing is left out */
    int64_t n_row[PART_N_HOP_MOST + 1];  /* by hop, n_hop of them and then all: nodes, … */
    int64_t n_edge[PART_N_HOP_MOST + 1]; /* … and stored edges into them */
    double left_out;                     /* share of a training epoch's work, program_work's */
};

/* Decide as train.prune says (auto: from a tenth of the work on, if memory grows by a smaller
 * share) and order the partition's nodes by hop.
 *
 *   errors  STATUS_NOMEM
 *   cost    n_edge reads at most, n_node × 9 bytes while it runs
 */
enum status prune_build(const struct job *job, const struct dataset *dataset, const struct program *program,
                        struct partition *partition, struct prune *out);

#endif
