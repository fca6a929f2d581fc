/* What the jobs of a daemon are made of; for the files of jobs.h alone.
 *
 * A record in memory changes after the store has saved it, and listeners hear of it then.
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

/* Jobs that are kept no longer, of which the first `done` are removed. */
struct expired {
    int64_t *ids;
    size_t n, done;
    double found_at;
};

struct jobs {
    struct store *store;
    const struct gpus *gpus;
    bool in_slurm;
    char folder[PATH_MAX - 64]; /* STATE/jobs or SHARED/jobs, absolute; shorter than PATH_MAX for the names in it */
    struct job_index index;     /* of all records */
    struct listener *listeners;
    struct reserve reserve;
    struct quota quota;
    struct need whole; /* the machine */
    struct shares shares;
    struct expired expired;
    bool drains;
};

/* Take a record into memory. */
void jobs_add(struct jobs *jobs, const struct job_record *record);
/* The record, to be changed; NULL: none. */
struct job_record *jobs_record(const struct jobs *jobs, int64_t id);

void jobs_notify(const struct jobs *jobs, const struct job_record *record);

/* Could a change not be saved since the disk was full, and is there space now? */
bool jobs_has_space_now(struct jobs *jobs, enum status status);

#endif
