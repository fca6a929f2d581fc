/* What follows from the end of an attempt, or of planning one: success, another attempt after a while, or the job's
 * end.
 *
 * A pure function of the record, of how it ended and of the time, so that every rule can be tested without a process.
 */
#ifndef TRAINERD_DAEMON_OUTCOME_H
#define TRAINERD_DAEMON_OUTCOME_H

#include "trainerd/daemon/jobs/job_record.h"

struct outcome_rules {
    double backoff_s, backoff_most_s;
};

struct ending {
    enum status status;
    bool is_lost;             /* the coordinator died and did not say of what: status does not count */
    bool has_not_begun;       /* the daemon died before it let the attempt go: nothing was tried */
    bool restartable;         /* it said that another attempt may help */
    enum job_reason stopping; /* it was asked to end: CANCELLING, RESCALING, TIME_LIMIT; NONE: it was not */
    const char *text;         /* the sentence for people */
};

/* Change the record to what it is from now on. Planning that went well is no ending. A worker that is lost a second
 * time may be gone for good, and what it ran on with it: record->n_worker becomes one less from then on, and what it
 * asks for is the caller's to find. */
void outcome_decide(const struct ending *ending, const struct outcome_rules *rules, double now, struct job_record *record);

/* The wait before restart number n_restart, from 1: doubled each time, up to the most. */
double outcome_backoff(const struct outcome_rules *rules, int32_t n_restart);

#endif
