/* The queue decides which jobs start and why others wait: a pure function of records, capacity, quotas and shares.
 *
 * Higher priority goes first, then the user who has used less of the machine lately, then the lower number. A job
 * starts when it fits beside the running ones. A job behind one that does not fit may start only if it cannot delay
 * it. Running times are not known, so the needs of waiting jobs are reserved for them in order. Knows neither
 * processes nor files.
 *
 * A job that its user's quota holds back delays only that user's: of the machine nothing is reserved for it, of what
 * its user may have, what it needs.
 *
 * No job starves: the first of a user's waiting jobs keeps, as long as it is that, the place that the user's use gave
 * it when it came to be the first (queue_keep_first), whatever the user's other jobs use meanwhile. Each job that
 * starts before it adds to another user's use, so that after finitely many of them it is before all jobs of its
 * priority, and what it needs is reserved.
 */
#ifndef TRAINERD_DAEMON_QUEUE_H
#define TRAINERD_DAEMON_QUEUE_H

#include "trainerd/daemon/jobs/jobs.h"
#include "trainerd/daemon/jobs/quota.h"
#include "trainerd/daemon/jobs/shares.h"
#include "trainerd/daemon/store/gpus.h"
#include "trainerd/daemon/store/job_record.h"

#include <stddef.h>

#define QUEUE_PLANNING_MOST 4

struct queue_capacity {
    int32_t n_slot;
    uint64_t gpus;               /* a set */
    int64_t memory;              /* bytes */
    bool drains;                 /* nothing starts */
    bool is_elsewhere;           /* jobs run in Slurm, which has its own queue; only planning needs this machine */
    const struct quota *quota;   /* NULL: none. Of jobs in Slurm only their number is held to it */
    const struct shares *shares; /* NULL: all users are equal */
};

enum queue_verdict { QUEUE_VERDICT_WAIT, QUEUE_VERDICT_PLAN, QUEUE_VERDICT_START, QUEUE_VERDICT_NEVER };

struct queue_decision {
    enum queue_verdict verdict;
    enum job_reason reason; /* WAIT, NEVER: why */
    char text[JOB_REASON_BYTES];
    int64_t planning; /* PLAN: bytes that it may take */
    int64_t place;    /* of a QUEUED job, among those that wait further, in the order of the queue: 1, 2, … */
    bool is_in_line;  /* START, or resources are reserved for it: it keeps its place while it is QUEUED */
    double used;      /* what its user has used of the machine lately */
};

/* The whole machine as jobs need it. */
struct need queue_whole(const struct queue_capacity *capacity);

/* Choose the records that one pass over the queue looks at: of each user's jobs that wait the first ones in their
 * order, QUEUE_FRONT_MOST of all users together or QUEUE_FRONT_LEAST of each, and all that do not wait or are
 * planned. So a pass takes no longer when a user adds to very many jobs.
 *
 *   shapes  is_front_out as many as jobs_live
 *   Returns how many are chosen.
 */
#define QUEUE_FRONT_MOST 8192
#define QUEUE_FRONT_LEAST 256
size_t queue_front(struct jobs *jobs, bool *is_front_out);

/* Decide for every QUEUED record; the others count as running, or have ended.
 *
 *   shapes  jobs n · decision n
 *   notes   NEVER: it needs more memory than the whole machine has, or more than its user's quota. A job that asks
 *           for more slots or GPUs than there are takes them all; where there are no GPUs, one on GPUs waits. PLAN:
 *           its memory is not known; at most QUEUE_PLANNING_MOST jobs are planned at a time, one of each user, where
 *           there is memory for it: what it is known to need, or else an eighth of what its user may have
 *   units   now in seconds of job_clock.h
 *   cost    n log n
 */
void queue_decide(const struct job_record *const *jobs, size_t n, const struct queue_capacity *whole, double now,
                  struct queue_decision *decision);

/* After applied decisions: note each user's first job that waits, for the next pass. Of a job that has ended since,
 * is_in_line is false. cost  n log n */
void queue_keep_first(const struct job_record *const *jobs, size_t n, const struct queue_decision *decision,
                      double now, struct shares *shares);

#endif
