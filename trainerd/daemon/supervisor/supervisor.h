/* The supervisor starts coordinators for the jobs that the queue selects, follows, stops and restarts them.
 *
 * A coordinator outlives the daemon: it has its own session, writes events to its job's events.jsonl, and holds a
 * lock on the job's folder. A new daemon finds it by pid and start time, watches it through a pidfd, and reads the
 * events it missed.
 */
#ifndef TRAINERD_DAEMON_SUPERVISOR_H
#define TRAINERD_DAEMON_SUPERVISOR_H

#include "trainerd/base/restart.h"
#include "trainerd/daemon/jobs/jobs.h"
#include "trainerd/daemon/jobs/queue.h"
#include "trainerd/daemon/supervisor/job_cgroups.h"

#include <uv.h>

struct supervisor;

struct supervisor_options {
    struct queue_capacity capacity; /* what the machine offers */
    double kill_s;                  /* from TERM to KILL (default 30) */
    int64_t n_log_most;             /* bytes of each file in a job's folder: one that writes more is ended */
    struct retention retention;     /* of ended jobs */
    double plan_s;                  /* that planning a job may take */
    struct restart_backoff backoff;
    double slurm_poll_s, slurm_s; /* between two looks at Slurm's queue; that a command of Slurm may take */
    const char *slurm_options;    /* of sbatch, also for attempts that an earlier daemon began in Slurm; borrowed */
    struct job_cgroups groups;    /* control groups of jobs; all zero: none */
    const char *pass_environment; /* names of the daemon's environment variables that all jobs get; borrowed */
};

/* Adopt running coordinators, then start jobs.
 *
 *   owns    borrows loop and jobs; supervisor_close leaves coordinators running
 *   errors  STATUS_CONFIG jobs run in Slurm, and its commands are not in PATH, or its options are wrong
 */
enum status supervisor_open(uv_loop_t *loop, struct jobs *jobs, const struct supervisor_options *options,
                            struct supervisor **out);
void supervisor_close(struct supervisor *supervisor);

/* Requests of owners. STATUS_OK means that the request is saved and under way, not that it is done. */
/* errors  STATUS_USAGE it has ended */
enum status supervisor_cancel(struct supervisor *supervisor, int64_t id);
/* It waits again; by_admin: with the priority that it has, else with 0 at most, as who is no administrator may ask
 * for. errors  STATUS_USAGE it is neither FAILED nor CANCELLED; STATUS_PEER no more jobs of its owner may wait */
enum status supervisor_resume(struct supervisor *supervisor, int64_t id);
enum status supervisor_resume_by_admin(struct supervisor *supervisor, int64_t id);

/* An order for many jobs; skips jobs that cannot take it, and does not check how many may wait. Does the first *n_out
 * that fit into the slice, all or none. cost  one wait for the disk */
enum supervisor_order { SUPERVISOR_ORDER_CANCEL, SUPERVISOR_ORDER_RESUME, SUPERVISOR_ORDER_RESUME_BY_ADMIN };
enum status supervisor_order(struct supervisor *supervisor, enum supervisor_order order, const int64_t *ids, size_t n,
                             const struct slice *slice, size_t *n_out);

/* errors  STATUS_USAGE it does not run */
enum status supervisor_checkpoint(struct supervisor *supervisor, int64_t id);
/* errors  STATUS_USAGE it has ended, is about to end, or has fewer parts than workers asked for; STATUS_CONFIG it
 * needs GPUs, and the daemon has no GPUs, or more than its owner may have */
enum status supervisor_scale(struct supervisor *supervisor, int64_t id, int32_t n_worker);

/* Run the queue again soon: a job was added or has ended. */
void supervisor_schedule(struct supervisor *supervisor);

#endif
