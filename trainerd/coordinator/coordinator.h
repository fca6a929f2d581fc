/* One job from its file to its results: the order of its steps; each step is a module of its own.
 */
#ifndef TRAINERD_COORDINATOR_H
#define TRAINERD_COORDINATOR_H

#include "protocol/base/status.h"

#include "protocol/files/job_files.h"
#include "trainerd/base/restart.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coordinator_options {
    const char *config;     /* the job file; "-": standard input, a file */
    const char *const *set; /* n_set settings "section.key=value" */
    size_t n_set;
    bool resume;               /* continue from the newest checkpoint of the job's runs */
    bool plan;                 /* print the plan, do not train */
    bool json;                 /* the plan as JSON on stdout rather than as text on stderr */
    int64_t plan_most;         /* bytes that planning may take; where it needs more, it says how much; 0: no limit */
    bool steps;                /* the plan with every step and what it needs */
    bool roofline;             /* the plan with every step's least time on a device, … */
    const char *device;        /* … whose file this is; NULL: a cpu */
    bool program;              /* the plan with what each pass of the compiler makes of a vertex program */
    const char *folder;        /* the job's folder: see events.h; NULL: no supervisor */
    struct job_files *files;   /* of that folder; NULL: they are opened by name, and have no limit */
    uint32_t attempt;          /* at this job, counted by the supervisor; 0: none */
    bool waits;                /* until another attempt of the job has ended */
    struct restart_memo *memo; /* from earlier coordinators of the job to later ones; NULL: not needed */
};

/* Run the job to its end. Progress goes to stderr; the caller prints the reason of a failure, status_reason.
 *
 *   owns    borrows the options; no process, file or folder is left behind that a success would not leave
 *   errors  any: the exit code is status_exit_code's
 */
enum status coordinator_run(const struct coordinator_options *options);

#endif
