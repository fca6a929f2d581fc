/* The part of a submission that makes it several jobs: settings, group and submission id. */
#ifndef TRAINERD_CTL_SUBMIT_SWEEP_H
#define TRAINERD_CTL_SUBMIT_SWEEP_H

#include "trainerd/ctl/base/arguments.h"

#include <jansson.h>

/* Where --sweep, --split or --seeds is given: add the jobs to a request that has all else, with these keys changing
 * in this order, the last first, so that the jobs of one setting follow each other; and group and submission id,
 * unless they are given.
 *
 *   config  the job file's text
 *   errors  those of job_load_text and sweep_add; STATUS_DATA the splits of the data folder cannot be counted
 */
enum status submit_sweep(const struct ctl_arguments *arguments, const char *config, json_t *request);

#endif
