#include "trainerd/daemon/supervisor/outcome.h"

#include "trainerd/daemon/jobs/submission.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static void set_text(struct job_record *record, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void set_text(struct job_record *record, const char *format, ...)
{
    char text[2 * JOB_REASON_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    submission_cut(text, record->reason_text, sizeof record->reason_text);
}

static void end(struct job_record *record, enum job_state state, enum job_reason reason, int exit_code)
{
    record->state = state;
    record->reason = reason;
    record->exit_code = exit_code;
    record->run.next_attempt_at = 0;
    record->progress.seconds_left = state == JOB_STATE_SUCCEEDED ? 0.0 : (double)NAN;
}

static void queue(struct job_record *record, enum job_reason reason, double next_attempt_at)
{
    record->state = JOB_STATE_QUEUED;
    record->reason = reason;
    record->run.next_attempt_at = next_attempt_at;
    record->progress.seconds_left = NAN;
}

/* The restart policy's decision. A coordinator's report can rule a restart out, not demand one. */
static struct restart_decision restart_of(const struct ending *ending, const struct restart_backoff *backoff,
                                          const struct job_record *record)
{
    if (!ending->is_lost && !ending->was_refused && !ending->restartable) {
        return (struct restart_decision){0};
    }
    const struct restart_failure failure = {.status = ending->is_lost || ending->was_refused ? STATUS_INTERRUPTED
                                                                                             : ending->status,
                                            .n_restart = record->run.n_restart,
                                            .n_restart_most = record->max_restarts,
                                            .n_worker = record->n_worker,
                                            .n_worker_least = record->plan.n_worker_least,
                                            .is_local = ending->is_local};
    return restart_decide(RESTART_RUNNER_DAEMON, backoff, &failure);
}

/* An attempt that the daemon stopped. false: it was not stopped for a reason that decides. */
static bool decide_stopped(const struct ending *ending, const char *saved, struct job_record *record)
{
    switch (ending->stopping) {
    case JOB_REASON_TIME_LIMIT:
        end(record, JOB_STATE_FAILED, JOB_REASON_TIME_LIMIT, status_exit_code(STATUS_INTERRUPTED));
        set_text(record, "it ran for %.3g s, its limit is %.3g s%s", record->run.ran_s, record->time_limit_s, saved);
        return true;
    case JOB_REASON_BAD_DATA:
    case JOB_REASON_LOG_LIMIT:
        end(record, JOB_STATE_FAILED, ending->stopping,
            status_exit_code(ending->stopping == JOB_REASON_BAD_DATA ? STATUS_DATA : STATUS_IO));
        set_text(record, "%s%s", ending->text, saved);
        return true;
    case JOB_REASON_RESCALING:
        queue(record, JOB_REASON_RESCALING, 0.0);
        set_text(record, "it continues with %d worker%s", (int)record->n_worker, record->n_worker == 1 ? "" : "s");
        return true;
    default:
        return false;
    }
}

void outcome_decide(const struct ending *ending, const struct restart_backoff *backoff, double now,
                    struct job_record *record)
{
    const char *saved = record->run.checkpointed ? "; a resume continues from its checkpoint" : "";
    bool has_run = record->run.attempt_at > 0.0 && now > record->run.attempt_at && !ending->has_not_begun;
    double ran_s = has_run ? now - record->run.attempt_at : 0.0;
    record->run.ran_s += ran_s;
    record->run.attempt_at = 0.0;
    record->gpus = 0;
    record->run.pid = 0;
    record->run.pid_start = 0;
    record->run.slurm = 0;
    bool has_ended = !ending->is_lost && !ending->has_not_begun && !ending->was_refused;
    if (ending->status == STATUS_OK && has_ended) {
        end(record, JOB_STATE_SUCCEEDED, JOB_REASON_NONE, 0);
        set_text(record, "%s", "");
        return;
    }
    if (record->run.cancel) {
        end(record, JOB_STATE_CANCELLED, JOB_REASON_USER, status_exit_code(STATUS_INTERRUPTED));
        set_text(record, "it was cancelled%s", saved);
        return;
    }
    if (decide_stopped(ending, saved, record)) {
        return;
    }
    if (ending->has_not_begun) {
        queue(record, JOB_REASON_WAITING_TURN, 0.0);
        set_text(record, "%s", ending->text);
        return;
    }
    if (ending->was_preempted && (ending->is_lost || ending->restartable)) {
        queue(record, JOB_REASON_WAITING_TURN, now + backoff->first_s);
        set_text(record, "%s; another attempt follows", ending->text);
        return;
    }
    enum status status = ending->is_lost || ending->was_refused ? STATUS_PEER : ending->status;
    enum job_reason reason = ending->is_lost       ? JOB_REASON_COORDINATOR_LOST
                             : ending->was_refused ? JOB_REASON_SLURM_REFUSED
                                                   : job_reason_of(status);
    const struct restart_decision next = restart_of(ending, backoff, record);
    if (next.restarts) {
        bool has_fewer = next.n_worker < record->n_worker;
        record->run.n_restart++;
        record->n_worker = next.n_worker;
        queue(record, JOB_REASON_BACKING_OFF, now + next.wait_s);
        set_text(record, "%s; restart %d of %d follows after %.3g s%s", ending->text, (int)record->run.n_restart,
                 (int)record->max_restarts, next.wait_s, has_fewer ? " with one worker less" : "");
        return;
    }
    end(record, JOB_STATE_FAILED, reason, status_exit_code(status));
    bool is_worn_out = record->run.n_restart > 0 && record->run.n_restart >= record->max_restarts;
    set_text(record, "%s%s", ending->text, is_worn_out ? "; no restarts are left" : "");
}
