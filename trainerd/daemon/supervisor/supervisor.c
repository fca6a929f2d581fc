#include "trainerd/daemon/supervisor/supervisor.h"

#include "protocol/clock.h"
#include "protocol/job/job.h"
#include "protocol/log.h"
#include "protocol/memory.h"
#include "trainerd/daemon/commands/submission.h"
#include "trainerd/daemon/supervisor/supervisor_state.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void supervisor_handle_closed(struct supervisor *supervisor)
{
    if (--supervisor->n_handle == 0) {
        free(supervisor);
    }
}

/* --- the queue --- */

static void look(uv_timer_t *timer);

/* Looking takes longer the more jobs wait: it has a tenth of the time at most, however many come in a row. */
static void look_after(struct supervisor *supervisor, double wait_s)
{
    if (!supervisor->is_closing) {
        double rested_s = 1e-9 * (double)(uv_hrtime() - supervisor->looked_at_ns);
        wait_s = fmax(wait_s, 9e-9 * (double)supervisor->look_ns - rested_s);
        uv_update_time(supervisor->loop);
        uv_timer_start(&supervisor->look, look, (uint64_t)ceil(1e3 * fmax(0.0, wait_s)), 0);
    }
}

void supervisor_look(struct supervisor *supervisor)
{
    look_after(supervisor, 0.0);
}

/* It cannot go now: it waits for the disk or for whatever it is, and is tried again; when it can never go, it has
 * failed. */
static void refuse(struct supervisor *supervisor, const struct job_record *record, enum status status)
{
    bool may_go_later = status == STATUS_IO || status == STATUS_CREATE;
    if (may_go_later) {
        jobs_wait(supervisor->jobs, record->id, job_reason_of(status), status_reason());
        return;
    }
    struct job_record next = *record;
    char text[JOB_REASON_BYTES];
    snprintf(text, sizeof text, "%.*s", (int)sizeof text - 1, status_reason());
    const struct ending ending = {.status = status, .text = text};
    const struct outcome_rules rules = {supervisor->options.backoff_s, supervisor->options.backoff_most_s};
    outcome_decide(&ending, &rules, clock_wall_s(), &next);
    if (jobs_change(supervisor->jobs, &next) != STATUS_OK) {
        log_warn_of(record->id, record->attempt, "%s", status_reason());
    }
}

static enum status end_never(struct supervisor *supervisor, const struct job_record *record,
                             const struct queue_decision *decision)
{
    struct job_record next = *record;
    next.state = JOB_STATE_FAILED;
    next.reason = decision->reason;
    next.exit_code = status_exit_code(decision->reason == JOB_REASON_OUT_OF_MEMORY ? STATUS_NOMEM : STATUS_CONFIG);
    next.ended_at = clock_wall_s();
    snprintf(next.reason_text, sizeof next.reason_text, "%s", decision->text);
    return jobs_change(supervisor->jobs, &next);
}

/* Do what was decided for one queued job. false: it is to be tried again. */
static bool follow(struct supervisor *supervisor, const struct job_record *record, const struct queue_decision *decision)
{
    enum status status = STATUS_OK;
    switch (decision->verdict) {
    case QUEUE_VERDICT_WAIT:
        jobs_wait(supervisor->jobs, record->id, decision->reason, decision->text);
        return true;
    case QUEUE_VERDICT_PLAN:
        jobs_wait(supervisor->jobs, record->id, decision->reason, decision->text);
        status = supervisor->planning == NULL ? planning_begin(supervisor, record) : STATUS_OK;
        break;
    case QUEUE_VERDICT_START:
        status = attempt_begin(supervisor, record);
        break;
    case QUEUE_VERDICT_NEVER:
        status = end_never(supervisor, record, decision);
        break;
    }
    if (status != STATUS_OK) {
        refuse(supervisor, record, status);
    }
    return status == STATUS_OK;
}

/* Look at the queue. What is decided holds until something ends or comes, which calls for another look. */
static void look(uv_timer_t *timer)
{
    struct supervisor *supervisor = timer->data;
    uint64_t begun_ns = uv_hrtime();
    size_t n_all, n = 0;
    const struct job_record *const *all = jobs_all(supervisor->jobs, &n_all);
    const struct job_record **open = memory_alloc(n_all + 1, sizeof *open);
    for (size_t i = 0; i < n_all; i++) {
        if (!job_state_ended(all[i]->state)) {
            open[n++] = all[i];
        }
    }
    struct queue_decision *decision = memory_alloc(n + 1, sizeof *decision);
    double now = clock_wall_s(), wait_s = INFINITY;
    queue_decide(open, n, &supervisor->options.room, now, decision);
    supervisor->is_looking = true;
    for (size_t i = 0; i < n; i++) {
        if (open[i]->state == JOB_STATE_QUEUED) {
            wait_s = open[i]->next_attempt_at > now ? fmin(wait_s, open[i]->next_attempt_at - now) : wait_s;
            wait_s = follow(supervisor, open[i], &decision[i]) ? wait_s : fmin(wait_s, 1e-3 * SUPERVISOR_RETRY_MS);
        }
    }
    supervisor->is_looking = false;
    free(decision);
    free(open);
    supervisor->looked_at_ns = uv_hrtime();
    supervisor->look_ns = supervisor->looked_at_ns - begun_ns;
    if (isfinite(wait_s)) {
        look_after(supervisor, wait_s);
    }
}

/* A job came, or made room, by whoever's hand. */
static void hear(void *context, const struct job_record *record)
{
    struct supervisor *supervisor = context;
    bool makes_room = job_state_ended(record->state);
    if ((makes_room || record->state == JOB_STATE_QUEUED) && !supervisor->is_looking) {
        supervisor_look(supervisor);
    }
}

/* --- opening --- */

enum status supervisor_open(uv_loop_t *loop, struct jobs *jobs, const struct supervisor_options *options,
                            struct supervisor **out)
{
    struct supervisor *supervisor = memory_alloc(1, sizeof *supervisor);
    *supervisor = (struct supervisor){.loop = loop, .jobs = jobs, .options = *options, .n_handle = 1};
    int error = uv_timer_init(loop, &supervisor->look);
    ASSERT(error == 0);
    supervisor->look.data = supervisor;
    jobs_listen(jobs, hear, supervisor);
    size_t n;
    const struct job_record *const *all = jobs_all(jobs, &n);
    for (size_t i = 0; i < n; i++) {
        if (!job_state_ended(all[i]->state) && all[i]->state != JOB_STATE_QUEUED) {
            attempt_take_up(supervisor, all[i]);
        }
    }
    supervisor_look(supervisor);
    *out = supervisor;
    return STATUS_OK;
}

static void look_closed(uv_handle_t *handle)
{
    supervisor_handle_closed(handle->data);
}

void supervisor_close(struct supervisor *supervisor)
{
    if (supervisor == NULL) {
        return;
    }
    supervisor->is_closing = true;
    jobs_unlisten(supervisor->jobs, hear, supervisor);
    while (supervisor->attempts != NULL) {
        attempt_close(supervisor->attempts);
    }
    planning_stop(supervisor->planning);
    uv_close((uv_handle_t *)&supervisor->look, look_closed);
}

/* --- what owners ask for --- */

static enum status find(const struct supervisor *supervisor, int64_t id, struct job_record *out)
{
    const struct job_record *record = jobs_get(supervisor->jobs, id);
    if (record == NULL) {
        return status_fail(STATUS_NO_INPUT, "there is no job %lld", (long long)id);
    }
    *out = *record;
    return STATUS_OK;
}

/* A job that has not ended. */
static enum status find_open(const struct supervisor *supervisor, int64_t id, struct job_record *out)
{
    enum status status = find(supervisor, id, out);
    if (status == STATUS_OK && job_state_ended(out->state)) {
        return status_fail(STATUS_USAGE, "job %lld has ended: it is %s", (long long)id, job_state_name(out->state));
    }
    return status;
}

static void forget_plan(struct supervisor *supervisor, int64_t id)
{
    if (supervisor->planning != NULL && supervisor->planning->id == id) {
        planning_stop(supervisor->planning);
    }
}

enum status supervisor_cancel(struct supervisor *supervisor, int64_t id)
{
    struct job_record next;
    enum status status = find_open(supervisor, id, &next);
    if (status != STATUS_OK || next.cancel) {
        return status;
    }
    next.cancel = true;
    if (next.state == JOB_STATE_QUEUED) {
        const struct ending ending = {.status = STATUS_INTERRUPTED, .text = ""};
        const struct outcome_rules rules = {0};
        outcome_decide(&ending, &rules, clock_wall_s(), &next);
        status = jobs_change(supervisor->jobs, &next);
        if (status == STATUS_OK) {
            forget_plan(supervisor, id);
        }
        return status;
    }
    next.reason = JOB_REASON_CANCELLING;
    snprintf(next.reason_text, sizeof next.reason_text, "%s", job_reason_text(JOB_REASON_CANCELLING));
    status = jobs_change(supervisor->jobs, &next);
    if (status == STATUS_OK) {
        attempt_stop(attempt_of(supervisor, id), JOB_REASON_CANCELLING);
    }
    return status;
}

enum status supervisor_resume(struct supervisor *supervisor, int64_t id)
{
    struct job_record next;
    enum status status = find(supervisor, id, &next);
    if (status != STATUS_OK) {
        return status;
    }
    if (next.state != JOB_STATE_FAILED && next.state != JOB_STATE_CANCELLED) {
        return status_fail(STATUS_USAGE, "job %lld is %s; expected one that is FAILED or CANCELLED", (long long)id,
                           job_state_name(next.state));
    }
    next.state = JOB_STATE_QUEUED;
    next.reason = JOB_REASON_WAITING_TURN;
    next.reason_text[0] = '\0';
    next.cancel = false;
    next.n_restart = 0;
    next.ran_s = 0.0;
    next.ended_at = 0.0;
    next.exit_code = -1;
    next.memory = -1; /* what failed may have been put right: it is planned again */
    return jobs_change(supervisor->jobs, &next);
}

enum status supervisor_checkpoint(struct supervisor *supervisor, int64_t id)
{
    struct job_record record = {0};
    enum status status = find(supervisor, id, &record);
    if (status != STATUS_OK) {
        return status;
    }
    const struct attempt *attempt = attempt_of(supervisor, id);
    if (record.state != JOB_STATE_RUNNING || attempt == NULL || !process_signal(&attempt->process, SIGUSR1)) {
        return status_fail(STATUS_USAGE, "job %lld is %s; expected one that is RUNNING", (long long)id,
                           job_state_name(record.state));
    }
    return STATUS_OK;
}

enum status supervisor_ask(struct supervisor *supervisor, int32_t n_worker, struct job_record *record)
{
    struct store_submission submission;
    enum status status = store_submission_get(jobs_store(supervisor->jobs), record->id, &submission);
    if (status != STATUS_OK) {
        return status;
    }
    struct job *job = memory_alloc(1, sizeof *job);
    status = submission_job(&submission, job);
    if (status == STATUS_OK && (n_worker < 1 || n_worker > job_n_part(job))) {
        status = status_fail(STATUS_USAGE, "job %lld cannot run on %d workers; expected 1 to %d, a part for each",
                             (long long)record->id, (int)n_worker, (int)job_n_part(job));
    }
    if (status == STATUS_OK) {
        submission_ask(job, n_worker, record);
    }
    free(job);
    store_submission_release(&submission);
    return status;
}

enum status supervisor_scale(struct supervisor *supervisor, int64_t id, int32_t n_worker)
{
    struct job_record next;
    enum status status = find_open(supervisor, id, &next);
    struct job_record before = next;
    status = status == STATUS_OK ? supervisor_ask(supervisor, n_worker, &next) : status;
    if (status != STATUS_OK || n_worker == before.n_worker) {
        return status;
    }
    struct attempt *attempt = attempt_of(supervisor, id);
    if (attempt != NULL && attempt->stopping != JOB_REASON_NONE && attempt->stopping != JOB_REASON_RESCALING) {
        return status_fail(STATUS_USAGE, "job %lld is about to end: %s", (long long)id, job_reason_text(attempt->stopping));
    }
    if (attempt != NULL) {
        /* What runs keeps its room until it has ended; the next attempt asks for its own. */
        next = before;
        next.n_worker = n_worker;
        next.reason = JOB_REASON_RESCALING;
        snprintf(next.reason_text, sizeof next.reason_text, "it goes on with %d worker%s", (int)n_worker,
                 n_worker == 1 ? "" : "s");
    }
    status = jobs_change(supervisor->jobs, &next);
    if (status == STATUS_OK && attempt != NULL) {
        attempt_stop(attempt, JOB_REASON_RESCALING);
    } else if (status == STATUS_OK) {
        forget_plan(supervisor, id);
    }
    return status;
}
