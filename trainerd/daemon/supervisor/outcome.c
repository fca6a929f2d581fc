#include "trainerd/daemon/supervisor/outcome.h"

#include "trainerd/base/figure.h"

#include <math.h>

static void end(struct job_record *record, enum job_state state, enum status status)
{
    record->state = state;
    record->exit_code = status_exit_code(status);
    record->run.next_attempt_at = 0;
    record->progress.seconds_left = state == JOB_STATE_SUCCEEDED ? 0.0 : (double)NAN;
}

static void queue(struct job_record *record, double next_attempt_at)
{
    record->state = JOB_STATE_QUEUED;
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
        end(record, JOB_STATE_FAILED, STATUS_INTERRUPTED);
        job_reason_set(record, JOB_REASON_TIME_LIMIT, "it ran for %.3g s, its limit is %.3g s%s", record->run.ran_s,
                       record->time_limit_s, saved);
        return true;
    case JOB_REASON_BAD_DATA:
    case JOB_REASON_LOG_LIMIT:
        end(record, JOB_STATE_FAILED, ending->stopping == JOB_REASON_BAD_DATA ? STATUS_DATA : STATUS_IO);
        job_reason_set(record, ending->stopping, "%s%s", ending->text, saved);
        return true;
    case JOB_REASON_RESCALING:
        queue(record, 0.0);
        job_reason_set(record, JOB_REASON_RESCALING, "it continues with %s",
                       figure_count(record->n_worker, "worker").text);
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
        end(record, JOB_STATE_SUCCEEDED, STATUS_OK);
        job_reason_set(record, JOB_REASON_NONE, "%s", "");
        return;
    }
    if (record->run.cancel) {
        end(record, JOB_STATE_CANCELLED, STATUS_INTERRUPTED);
        job_reason_set(record, JOB_REASON_USER, "it was cancelled%s", saved);
        return;
    }
    if (decide_stopped(ending, saved, record)) {
        return;
    }
    if (ending->has_not_begun) {
        queue(record, 0.0);
        job_reason_set(record, JOB_REASON_WAITING_TURN, "%s", ending->text);
        return;
    }
    if (ending->was_preempted && (ending->is_lost || ending->restartable)) {
        queue(record, now + backoff->first_s);
        job_reason_set(record, JOB_REASON_WAITING_TURN, "%s; another attempt follows", ending->text);
        return;
    }
    enum status status = ending->is_lost || ending->was_refused ? STATUS_PEER : ending->status;
    enum job_reason reason = ending->is_lost       ? JOB_REASON_COORDINATOR_LOST
                             : ending->was_refused ? JOB_REASON_SLURM_REFUSED
                                                   : job_reason_from(status);
    const struct restart_decision next = restart_of(ending, backoff, record);
    if (next.restarts) {
        bool has_fewer = next.n_worker < record->n_worker;
        record->run.n_restart++;
        record->n_worker = next.n_worker;
        queue(record, now + next.wait_s);
        job_reason_set(record, JOB_REASON_BACKING_OFF, "%s; restart %d of %d follows after %.3g s%s", ending->text,
                       (int)record->run.n_restart, (int)record->max_restarts, next.wait_s,
                       has_fewer ? " with one worker less" : "");
        return;
    }
    end(record, JOB_STATE_FAILED, status);
    bool is_worn_out = record->run.n_restart > 0 && record->run.n_restart >= record->max_restarts;
    job_reason_set(record, reason, "%s%s", ending->text, is_worn_out ? "; no restarts are left" : "");
}
