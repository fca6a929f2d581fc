/* The outcome of an attempt or of failed planning: success, another attempt after a wait, or the job's end.
 *
 * A pure function of the record, the ending and the time, so that every rule is tested without a process.
 */
#ifndef TRAINERD_DAEMON_OUTCOME_H
#define TRAINERD_DAEMON_OUTCOME_H

#include "trainerd/base/restart.h"
#include "trainerd/daemon/store/job_record.h"

struct ending {
    enum status status;
    bool is_lost;       /* the coordinator died without a report: status does not count */
    bool has_not_begun; /* the daemon died before it opened the attempt's gate: nothing was tried */
    bool was_refused;   /* Slurm took no job for it: status does not count */
    bool was_preempted; /* Slurm ended it for another job, or at the end of a partition's time: no failure */
    bool is_local;      /* its workers are on this machine */
    bool restartable;   /* the coordinator reported that another attempt may help */
    /* Why the daemon told it to stop: CANCELLING, RESCALING, TIME_LIMIT, BAD_DATA, LOG_LIMIT; NONE: it did not. */
    enum job_reason stopping;
    const char *text; /* the sentence for people */
};

/* Update the record after an attempt has ended, or planning has failed; now: job_clock_s. Restarts follow
 * trainerd/base/restart.h; when they reduce record->n_worker, the caller finds what that many workers need. */
void outcome_decide(const struct ending *ending, const struct restart_backoff *backoff, double now,
                    struct job_record *record);

#endif
