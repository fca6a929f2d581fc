/* Which jobs run next, and why the others wait: a pure function of records and of what the machine offers.
 *
 * Higher priority first, then first come first served. A job starts when it fits beside those that run. Jobs behind
 * one that does not fit may start only when they cannot delay it: none does without knowing how long jobs run, so
 * each resource the first waiting job lacks is kept for it. Knows neither processes nor files.
 */
#ifndef TRAINERD_DAEMON_QUEUE_H
#define TRAINERD_DAEMON_QUEUE_H

#include "trainerd/daemon/jobs/job_record.h"

#include <stddef.h>

struct queue_capacity {
    int32_t n_slot, n_gpu;
    int64_t memory; /* bytes */
};

enum queue_verdict { QUEUE_VERDICT_WAIT, QUEUE_VERDICT_PLAN, QUEUE_VERDICT_START, QUEUE_VERDICT_NEVER };

struct queue_decision {
    enum queue_verdict verdict;
    enum job_reason reason; /* WAIT, NEVER: why */
    char text[JOB_REASON_BYTES];
};

/* Decide for every QUEUED record (the others count as running or are passed over).
 *
 *   shapes  jobs n · decision n: NEVER it needs more GPUs or memory than the whole machine has (who wants more slots than
 *           there are takes them all); PLAN its memory is not known, and at most one job at a time is planned
 *   units   now in seconds since 1970
 *   cost    n log n
 */
void queue_decide(const struct job_record *const *jobs, size_t n, const struct queue_capacity *whole, double now,
                  struct queue_decision *decision);

#endif
