#include "trainerd/daemon/supervisor/supervisor.h"

#include "protocol/base/fault.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "trainerd/base/figure.h"
#include "trainerd/daemon/jobs/submission.h"
#include "trainerd/daemon/supervisor/supervisor_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ORDERS_MOST 512   /* jobs that are changed in one transaction */
#define RETAIN_REST_MS 50 /* between two slices of removing jobs */

/* --- the queue --- */

/* A coordinator or a plan could not be started: the job waits, or has failed when no later start can help. */
static void start_failed(struct supervisor *supervisor, const struct job_record *record, enum status status)
{
    if (restart_can_start_later(status)) {
        jobs_wait(supervisor->jobs, record->id, job_reason_from(status), status_reason());
        return;
    }
    struct job_record next = *record;
    const struct ending ending = {.status = status, .text = status_reason()};
    outcome_decide(&ending, &supervisor->options.backoff, job_clock_s(), &next);
    if (jobs_change(supervisor->jobs, &next) != STATUS_OK) {
        log_job_warn(record->id, record->attempt, "%s", status_reason());
    }
}

static enum status end_impossible(struct supervisor *supervisor, const struct job_record *record,
                                  const struct queue_decision *decision)
{
    struct job_record next = *record;
    next.state = JOB_STATE_FAILED;
    next.exit_code = status_exit_code(decision->reason == JOB_REASON_QUOTA ? STATUS_CONFIG : STATUS_NOMEM);
    job_reason_set(&next, decision->reason, "%s", decision->text);
    return jobs_change(supervisor->jobs, &next);
}

/* Apply the queue's decision to one queued job. false: it has to be tried again. */
static bool apply_decision(struct supervisor *supervisor, const struct job_record *record,
                           const struct queue_decision *decision)
{
    enum status status = STATUS_OK;
    switch (decision->verdict) {
    case QUEUE_VERDICT_WAIT:
        jobs_wait(supervisor->jobs, record->id, decision->reason, decision->text);
        return true;
    case QUEUE_VERDICT_PLAN:
        jobs_wait(supervisor->jobs, record->id, decision->reason, decision->text);
        status = planning_begin(supervisor, record, decision->planning);
        break;
    case QUEUE_VERDICT_START:
        status = attempt_begin(supervisor, record);
        break;
    case QUEUE_VERDICT_NEVER:
        status = end_impossible(supervisor, record, decision);
        break;
    }
    if (status != STATUS_OK) {
        start_failed(supervisor, record, status);
    }
    return status == STATUS_OK;
}

/* The jobs that a pass looks at; the others wait, as they have done since they came. owns  the caller frees *out */
static size_t find_front(struct supervisor *supervisor, const struct job_record ***out)
{
    size_t n, n_front = 0;
    const struct job_record *const *open = jobs_live(supervisor->jobs, &n);
    bool *is_front = memory_alloc(n + 1, sizeof *is_front);
    *out = memory_alloc(queue_front(supervisor->jobs, is_front) + 1, sizeof **out);
    for (size_t i = 0; i < n; i++) {
        if (is_front[i]) {
            (*out)[n_front++] = open[i];
            continue;
        }
        jobs_place(supervisor->jobs, open[i]->id, 0);
        if (open[i]->reason != JOB_REASON_BACKING_OFF) { /* its text says why */
            jobs_wait(supervisor->jobs, open[i]->id, JOB_REASON_WAITING_TURN, "");
        }
    }
    free(is_front);
    return n_front;
}

/* Apply the decisions; the seconds after which there is another pass, INFINITY: only when a job is added or ends. */
static double apply(struct supervisor *supervisor, const struct job_record *const *open, size_t n,
                    struct queue_decision *decision, double now)
{
    double wait_s = INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (open[i]->state == JOB_STATE_QUEUED) {
            int64_t id = open[i]->id;
            jobs_place(supervisor->jobs, id, decision[i].place);
            wait_s = open[i]->run.next_attempt_at > now ? fmin(wait_s, open[i]->run.next_attempt_at - now) : wait_s;
            wait_s = apply_decision(supervisor, open[i], &decision[i]) ? wait_s
                                                                       : fmin(wait_s, 1e-3 * SUPERVISOR_RETRY_MS);
            decision[i].is_in_line = decision[i].is_in_line && jobs_is_live(supervisor->jobs, id);
        }
    }
    return wait_s;
}

/* One pass over the queue. Its decisions hold until a job is added or ends, which causes another pass. */
static void schedule(uv_timer_t *timer)
{
    struct supervisor *supervisor = timer->data;
    uint64_t begun_ns = uv_hrtime();
    const struct job_record **open;
    supervisor->is_scheduling = true;
    size_t n = find_front(supervisor, &open);
    struct queue_decision *decision = memory_alloc(n + 1, sizeof *decision);
    double now = job_clock_s();
    struct queue_capacity capacity = supervisor->options.capacity;
    capacity.drains = jobs_drain(supervisor->jobs);
    capacity.quota = jobs_quota(supervisor->jobs);
    capacity.shares = jobs_shares(supervisor->jobs);
    queue_decide(open, n, &capacity, now, decision);
    double wait_s = apply(supervisor, open, n, decision, now);
    supervisor->is_scheduling = false;
    if (!capacity.drains) {
        queue_keep_first(open, n, decision, now, jobs_shares(supervisor->jobs));
    }
    free(decision);
    free(open);
    supervisor->scheduled_at_ns = uv_hrtime();
    supervisor->schedule_ns = supervisor->scheduled_at_ns - begun_ns;
    if (isfinite(wait_s)) {
        supervisor_schedule_after(supervisor, wait_s);
    }
}

static void on_job_changed(void *context, const struct job_record *record)
{
    struct supervisor *supervisor = context;
    bool frees_resources = job_state_ended(record->state);
    if ((frees_resources || record->state == JOB_STATE_QUEUED) && !supervisor->is_scheduling) {
        supervisor_schedule(supervisor);
    }
}

static void on_minute(uv_timer_t *minute);

/* Remove some of the expired jobs, the others after a rest; look for more after a minute. */
static void retain(uv_timer_t *minute)
{
    const struct supervisor *supervisor = minute->data;
    const struct slice slice = slice_begin(uv_hrtime);
    bool has_more = jobs_retain(supervisor->jobs, &supervisor->options.retention, &slice);
    uv_timer_start(minute, has_more ? retain : on_minute, has_more ? RETAIN_REST_MS : 1000 * JOB_CLOCK_KEEP_S, 0);
}

static void on_minute(uv_timer_t *minute)
{
    const struct supervisor *supervisor = minute->data;
    jobs_keep_time(supervisor->jobs);
    retain(minute);
    for (struct attempt *attempt = supervisor->attempts; attempt != NULL; attempt = attempt->next) {
        attempt_files_check(attempt); /* where their folders cannot be watched */
    }
}

/* --- opening --- */

/* Do jobs run in Slurm, or attempts that an earlier daemon began there? */
static bool uses_slurm(const struct jobs *jobs)
{
    size_t n;
    const struct job_record *const *open = jobs_live(jobs, &n);
    bool any = jobs_are_in_slurm(jobs);
    for (size_t i = 0; i < n && !any; i++) {
        any = job_is_in_slurm(open[i]);
    }
    return any;
}

enum status supervisor_open(uv_loop_t *loop, struct jobs *jobs, const struct supervisor_options *options,
                            struct supervisor **out)
{
    struct slurm slurm = {0};
    enum status status = uses_slurm(jobs) ? slurm_open(options, &slurm) : STATUS_OK;
    if (status != STATUS_OK) {
        return status;
    }
    struct supervisor *supervisor = memory_alloc(1, sizeof *supervisor);
    *supervisor = (struct supervisor){
        .loop = loop, .jobs = jobs, .options = *options, .on_schedule = schedule, .slurm = slurm, .n_handle = 2};
    int error = uv_timer_init(loop, &supervisor->timer);
    ASSERT(error == 0);
    supervisor->timer.data = supervisor->minute.data = supervisor;
    error = uv_timer_init(loop, &supervisor->minute);
    ASSERT(error == 0);
    jobs_listen(jobs, on_job_changed, supervisor);
    supervisor_settled(supervisor);
    FAULT(CLOCK);
    size_t n;
    const struct job_record *const *all = jobs_live(jobs, &n);
    for (size_t i = 0; i < n; i++) {
        if (all[i]->state != JOB_STATE_QUEUED) {
            attempt_adopt(supervisor, all[i]);
        }
    }
    cgroups_sweep(supervisor);
    retain(&supervisor->minute);
    supervisor_schedule(supervisor);
    *out = supervisor;
    return STATUS_OK;
}

static void timer_closed(uv_handle_t *handle)
{
    supervisor_release_handle(handle->data);
}

void supervisor_close(struct supervisor *supervisor)
{
    if (supervisor == NULL) {
        return;
    }
    supervisor->is_closing = true;
    jobs_unlisten(supervisor->jobs, on_job_changed, supervisor);
    while (supervisor->attempts != NULL) {
        attempt_close(supervisor->attempts);
    }
    while (supervisor->planning != NULL) {
        planning_stop(supervisor->planning);
    }
    jobs_keep_time(supervisor->jobs);
    uv_close((uv_handle_t *)&supervisor->minute, timer_closed);
    uv_close((uv_handle_t *)&supervisor->timer, timer_closed);
}

/* --- requests of owners --- */

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
static enum status find_active(const struct supervisor *supervisor, int64_t id, struct job_record *out)
{
    enum status status = find(supervisor, id, out);
    if (status == STATUS_OK && job_state_ended(out->state)) {
        return status_fail(STATUS_USAGE, "job %lld has ended: it is %s", (long long)id, job_state_name(out->state));
    }
    return status;
}

/* What a job becomes that is told to stop: one that waits has ended. */
static void cancelled(const struct supervisor *supervisor, struct job_record *next)
{
    next->run.cancel = true;
    if (next->state == JOB_STATE_QUEUED) {
        const struct ending ending = {.status = STATUS_INTERRUPTED, .text = ""};
        outcome_decide(&ending, &supervisor->options.backoff, job_clock_s(), next);
        return;
    }
    job_reason_set(next, JOB_REASON_CANCELLING, "%s", job_reason_text(JOB_REASON_CANCELLING));
}

/* It is saved. */
static void cancel_saved(struct supervisor *supervisor, const struct job_record *next)
{
    if (job_state_ended(next->state)) {
        planning_stop(planning_find(supervisor, next->id));
    } else {
        attempt_stop(attempt_find(supervisor, next->id), JOB_REASON_CANCELLING);
    }
}

enum status supervisor_cancel(struct supervisor *supervisor, int64_t id)
{
    struct job_record next;
    enum status status = find_active(supervisor, id, &next);
    if (status != STATUS_OK || next.run.cancel) {
        return status;
    }
    cancelled(supervisor, &next);
    status = jobs_change(supervisor->jobs, &next);
    if (status == STATUS_OK) {
        cancel_saved(supervisor, &next);
    }
    return status;
}

static bool can_resume(const struct job_record *record)
{
    return record->state == JOB_STATE_FAILED || record->state == JOB_STATE_CANCELLED;
}

static void resumed(int32_t priority_most, struct job_record *next)
{
    next->priority = next->priority > priority_most ? priority_most : next->priority;
    next->state = JOB_STATE_QUEUED;
    job_reason_set(next, JOB_REASON_WAITING_TURN, "%s", "");
    next->run.cancel = false;
    next->run.n_restart = 0;
    next->run.ran_s = 0.0;
    next->times.ended_at = 0.0;
    next->exit_code = -1;
    next->memory = -1; /* the input may have changed since: the job is planned again */
    next->queued.planning_need = 0;
}

static enum status resume(struct supervisor *supervisor, int64_t id, int32_t priority_most)
{
    struct job_record next;
    enum status status = find(supervisor, id, &next);
    if (status != STATUS_OK) {
        return status;
    }
    if (!can_resume(&next)) {
        return status_fail(STATUS_USAGE, "job %lld is %s; expected one that is FAILED or CANCELLED", (long long)id,
                           job_state_name(next.state));
    }
    status = jobs_check_queued(supervisor->jobs, next.uid, 1);
    if (status != STATUS_OK) {
        return status;
    }
    resumed(priority_most, &next);
    return jobs_change(supervisor->jobs, &next);
}

enum status supervisor_resume(struct supervisor *supervisor, int64_t id)
{
    return resume(supervisor, id, 0);
}

enum status supervisor_resume_by_admin(struct supervisor *supervisor, int64_t id)
{
    return resume(supervisor, id, INT32_MAX);
}

/* What the job becomes; false: nothing, since it has ended, or is told to stop, or cannot be resumed. */
static bool ordered(const struct supervisor *supervisor, enum supervisor_order order, struct job_record *next)
{
    bool is_cancel = order == SUPERVISOR_ORDER_CANCEL;
    if (is_cancel ? job_state_ended(next->state) || next->run.cancel : !can_resume(next)) {
        return false;
    }
    if (is_cancel) {
        cancelled(supervisor, next);
    } else {
        resumed(order == SUPERVISOR_ORDER_RESUME_BY_ADMIN ? INT32_MAX : 0, next);
    }
    return true;
}

enum status supervisor_order(struct supervisor *supervisor, enum supervisor_order order, const int64_t *ids, size_t n,
                             const struct slice *slice, size_t *n_out)
{
    struct job_record *next = memory_alloc(ORDERS_MOST, sizeof *next);
    size_t at = 0, n_next = 0, n_saved = 0, place[ORDERS_MOST];
    for (; at < n && n_next < ORDERS_MOST; at++) {
        const struct job_record *record = jobs_get(supervisor->jobs, ids[at]);
        if (record == NULL) {
            continue;
        }
        next[n_next] = *record;
        place[n_next] = at;
        n_next += ordered(supervisor, order, &next[n_next]);
    }
    enum status status = n_next > 0 ? jobs_change_some(supervisor->jobs, next, n_next, slice, &n_saved) : STATUS_OK;
    for (size_t i = 0; i < n_saved && order == SUPERVISOR_ORDER_CANCEL; i++) {
        cancel_saved(supervisor, &next[i]);
    }
    *n_out = status != STATUS_OK ? 0 : n_saved < n_next ? place[n_saved] : at;
    free(next);
    return status;
}

enum status supervisor_checkpoint(struct supervisor *supervisor, int64_t id)
{
    struct job_record record = {0};
    enum status status = find(supervisor, id, &record);
    if (status != STATUS_OK) {
        return status;
    }
    struct attempt *attempt = attempt_find(supervisor, id);
    if (record.state != JOB_STATE_RUNNING || attempt == NULL || !attempt->runner->checkpoint(attempt)) {
        return status_fail(STATUS_USAGE, "job %lld is %s; expected one that is RUNNING", (long long)id,
                           job_state_name(record.state));
    }
    return STATUS_OK;
}

enum status supervisor_scale(struct supervisor *supervisor, int64_t id, int32_t n_worker)
{
    struct job_record before;
    enum status status = find_active(supervisor, id, &before);
    if (status != STATUS_OK) {
        return status;
    }
    struct jobs *jobs = supervisor->jobs;
    struct job_record next = before;
    if ((status = supervisor_needs(supervisor, n_worker, &next)) != STATUS_OK ||
        (!jobs_are_in_slurm(jobs) &&
         (status = submission_check_gpus(NULL, &next, jobs_gpus(jobs)->n)) != STATUS_OK) ||
        (status = jobs_check_quota(jobs, NULL, &next)) != STATUS_OK || n_worker == before.n_worker) {
        return status;
    }
    struct attempt *attempt = attempt_find(supervisor, id);
    if (attempt != NULL && attempt->stopping != JOB_REASON_NONE && attempt->stopping != JOB_REASON_RESCALING) {
        return status_fail(STATUS_USAGE, "job %lld is about to end: %s", (long long)id,
                           job_reason_text(attempt->stopping));
    }
    if (attempt != NULL) {
        /* The running attempt keeps its resources until it has ended; the next one asks for its own. */
        next = before;
        next.n_worker = n_worker;
        job_reason_set(&next, JOB_REASON_RESCALING, "it continues with %s", figure_count(n_worker, "worker").text);
    }
    status = jobs_change(supervisor->jobs, &next);
    if (status == STATUS_OK && attempt != NULL) {
        attempt_stop(attempt, JOB_REASON_RESCALING);
    } else if (status == STATUS_OK) {
        planning_stop(planning_find(supervisor, id));
    }
    return status;
}
