/* What the jobs of a daemon are made of; for the files of jobs.h alone.
 *
 * A job is a row of the store. In memory is also the record of each job that lives, with what rows do not have: its
 * place in the queue, its reason to wait, its progress, its planning (D97). It changes after the store has saved the
 * change, and listeners are called then.
 */
#ifndef TRAINERD_DAEMON_JOBS_STATE_H
#define TRAINERD_DAEMON_JOBS_STATE_H

#include "trainerd/daemon/jobs/jobs.h"
#include "trainerd/daemon/jobs/reserve.h"

#include <limits.h>

struct listener {
    jobs_listener *call;
    void *context;
    struct listener *next;
};

/* So many more jobs of a user are about to wait. */
struct promise {
    uid_t uid;
    int64_t n;
    struct promise *next;
};

struct jobs {
    struct store *store;
    const struct gpus *gpus;
    bool in_slurm;
    char folder[PATH_MAX - 64]; /* STATE/jobs or SHARED/jobs, absolute; shorter than PATH_MAX for the names in it */
    struct job_record **live;   /* n_live, ids ascending: those that have not ended, or whose planning has not */
    size_t n_live;
    struct job_record *row; /* of the job without a live record that was read last */
    struct promise *promises;
    struct listener *listeners;
    struct reserve reserve;
    struct quota quota;
    struct need whole; /* the machine */
    struct shares shares;
    bool drains;
};

/* Take the record of a job that has not ended into memory. */
void jobs_add(struct jobs *jobs, const struct job_record *record);
/* Its live record, to be changed; NULL: none. */
struct job_record *jobs_record(const struct jobs *jobs, int64_t id);

void jobs_notify(const struct jobs *jobs, const struct job_record *record);

/* Could a change not be saved since the disk was full, and is there space now? */
bool jobs_has_space_now(struct jobs *jobs, enum status status);

#endif
