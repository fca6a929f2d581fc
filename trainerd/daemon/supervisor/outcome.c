#include "trainerd/daemon/supervisor/outcome.h"

#include "trainerd/daemon/commands/submission.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

double outcome_backoff(const struct outcome_rules *rules, int32_t n_restart)
{
    double wait_s = rules->backoff_s;
    for (int32_t i = 1; i < n_restart && wait_s < rules->backoff_most_s; i++) {
        wait_s *= 2.0;
    }
    return wait_s < rules->backoff_most_s ? wait_s : rules->backoff_most_s;
}

static void say(struct job_record *record, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct job_record *record, const char *format, ...)
{
    char text[2 * JOB_REASON_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    submission_cut(text, record->reason_text, sizeof record->reason_text);
}

static void end(struct job_record *record, enum job_state state, enum job_reason reason, int exit_code, double now)
{
    record->state = state;
    record->reason = reason;
    record->exit_code = exit_code;
    record->ended_at = now;
    record->next_attempt_at = 0;
    record->progress.seconds_left = state == JOB_STATE_SUCCEEDED ? 0.0 : (double)NAN;
}

static void queue(struct job_record *record, enum job_reason reason, double next_attempt_at)
{
    record->state = JOB_STATE_QUEUED;
    record->reason = reason;
    record->next_attempt_at = next_attempt_at;
    record->progress.seconds_left = NAN;
}

/* Another attempt may end otherwise, and one is left. A bug of ours is tried once more: the machine may be to blame.
 */
static bool goes_on(const struct ending *ending, enum job_reason reason, const struct job_record *record)
{
    bool may = ending->is_lost || (ending->restartable && job_reason_retries(reason));
    int32_t n_most = reason == JOB_REASON_INTERNAL && record->max_restarts > 1 ? 1 : record->max_restarts;
    return may && record->n_restart < n_most;
}

void outcome_decide(const struct ending *ending, const struct outcome_rules *rules, double now, struct job_record *record)
{
    const char *saved = record->checkpointed ? "; its checkpoint is there to go on from" : "";
    bool has_run = record->attempt_at > 0.0 && now > record->attempt_at && !ending->has_not_begun;
    double ran_s = has_run ? now - record->attempt_at : 0.0;
    record->ran_s += ran_s;
    record->attempt_at = 0.0;
    record->pid = 0;
    record->pid_start = 0;
    if (ending->status == STATUS_OK && !ending->is_lost && !ending->has_not_begun) {
        end(record, JOB_STATE_SUCCEEDED, JOB_REASON_NONE, 0, now);
        say(record, "%s", "");
        return;
    }
    if (record->cancel) {
        end(record, JOB_STATE_CANCELLED, JOB_REASON_USER, status_exit_code(STATUS_INTERRUPTED), now);
        say(record, "it was cancelled%s", saved);
        return;
    }
    if (ending->stopping == JOB_REASON_TIME_LIMIT) {
        end(record, JOB_STATE_FAILED, JOB_REASON_TIME_LIMIT, status_exit_code(STATUS_INTERRUPTED), now);
        say(record, "it ran for %.3g s, its limit is %.3g s%s", record->ran_s, record->time_limit_s, saved);
        return;
    }
    if (ending->stopping == JOB_REASON_RESCALING) {
        queue(record, JOB_REASON_RESCALING, 0.0);
        say(record, "it goes on with %d worker%s", (int)record->n_worker, record->n_worker == 1 ? "" : "s");
        return;
    }
    if (ending->has_not_begun) {
        queue(record, JOB_REASON_WAITING_TURN, 0.0);
        say(record, "%s", ending->text);
        return;
    }
    enum status status = ending->is_lost ? STATUS_PEER : ending->status;
    enum job_reason reason = ending->is_lost ? JOB_REASON_COORDINATOR_LOST : job_reason_of(status);
    if (goes_on(ending, reason, record)) {
        record->n_restart++;
        bool is_gone_for_good = reason == JOB_REASON_WORKER_LOST && record->n_restart > 1 && record->n_worker > 1;
        record->n_worker -= is_gone_for_good;
        double wait_s = outcome_backoff(rules, record->n_restart);
        queue(record, JOB_REASON_BACKING_OFF, now + wait_s);
        say(record, "%s; restart %d of %d follows after %.3g s%s", ending->text, (int)record->n_restart,
            (int)record->max_restarts, wait_s, is_gone_for_good ? " with one worker less" : "");
        return;
    }
    end(record, JOB_STATE_FAILED, reason, status_exit_code(status), now);
    bool is_worn_out = record->n_restart > 0 && record->n_restart >= record->max_restarts;
    say(record, "%s%s", ending->text, is_worn_out ? "; no restarts are left" : "");
}
