/* The record of an epoch: a line of metrics.jsonl. */
#ifndef TRAINERD_METRICS_H
#define TRAINERD_METRICS_H

#include "protocol/base/status.h"
#include "trainerd/coordinator/fleet/fleet.h"
#include "trainerd/coordinator/folder/checkpoint.h"
#include "trainerd/coordinator/folder/output.h"

#include <stdint.h>

struct metrics_epoch {
    int64_t epoch;
    struct checkpoint_score score; /* NaN where not evaluated */
    double lr;
    const struct checkpoint_state *state; /* before it: rollbacks; what the guard has found, up to it */
    const struct job *job;
    const struct job_choices *metrics; /* the job's, as score_metrics gives them */
    const struct fleet_report *report; /* times and traffic */
    const struct fleet *fleet;         /* each worker's times */
};

/* errors  STATUS_IO */
enum status metrics_write(struct output *output, const struct metrics_epoch *epoch);

#endif
