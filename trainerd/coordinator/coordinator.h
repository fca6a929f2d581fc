/* One job from its file to its results: dataset, parts, workers, epochs, files. The order of things stands here; how each is
 * done is somebody else's.
 */
#ifndef TRAINERD_COORDINATOR_H
#define TRAINERD_COORDINATOR_H

#include "protocol/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coordinator_options {
    const char *config;     /* the job file */
    const char *const *set; /* n_set settings "section.key=value" */
    size_t n_set;
    bool resume;        /* go on from the newest checkpoint in the output folder */
    bool plan;          /* print what the job will take, and train nothing */
    bool json;          /* the plan as JSON on stdout rather than as text on stderr */
    const char *folder; /* the job's folder: see events.h; NULL: nobody follows */
    uint32_t attempt;   /* at this job; 0: nobody counts them */
};

/* Run the job to its end. Progress goes to stderr; the reason of a failure is left in status_reason for the caller to print.
 *
 *   owns    borrows the options; no process, file or folder is left behind that a success would not leave
 *   errors  any: the exit code is status_exit_code's
 */
enum status coordinator_run(const struct coordinator_options *options);

#endif
