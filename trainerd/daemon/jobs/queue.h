/* The queue decides which jobs start, and why the others wait: a pure function of records and the machine's capacity.
 *
 * Higher priority goes first, then the lower number. A job starts when it fits beside the running ones. A job behind one that does
 * not fit may start only if it cannot delay it. Running times are not known, so the needs of waiting jobs are reserved for them
 * in order. Knows neither processes nor files.
 */
#ifndef TRAINERD_DAEMON_QUEUE_H
#define TRAINERD_DAEMON_QUEUE_H

#include "trainerd/daemon/jobs/gpus.h"
#include "trainerd/daemon/jobs/job_record.h"

#include <stddef.h>

#define QUEUE_PLANNING_MOST 4

struct queue_capacity {
    int32_t n_slot;
    uint64_t gpus;     /* a set */
    int64_t memory;    /* bytes */
    bool drains;       /* nothing starts */
    bool is_elsewhere; /* jobs run in Slurm, which has a queue of its own: they need nothing of this machine but for planning */
};

enum queue_verdict { QUEUE_VERDICT_WAIT, QUEUE_VERDICT_PLAN, QUEUE_VERDICT_START, QUEUE_VERDICT_NEVER };

struct queue_decision {
    enum queue_verdict verdict;
    enum job_reason reason; /* WAIT, NEVER: why */
    char text[JOB_REASON_BYTES];
    int64_t planning; /* PLAN: bytes that it may take */
};

/* Decide for every QUEUED record; the others count as running, or have ended.
 *
 *   shapes  jobs n · decision n
 *   notes   NEVER: it needs more memory than the whole machine has. A job that asks for more slots or GPUs than there are takes them all; where
 *           there are no GPUs, one on GPUs waits. PLAN: its memory is not known; at most QUEUE_PLANNING_MOST jobs are planned at a time, one of each user,
 *           where there is memory for it: what it is known to need, or else an eighth of what its user may have
 *   units   now in seconds since 1970
 *   cost    n log n, and n times the users who have jobs
 */
void queue_decide(const struct job_record *const *jobs, size_t n, const struct queue_capacity *whole, double now,
                  struct queue_decision *decision);

#endif
