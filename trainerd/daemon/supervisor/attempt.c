/* One attempt, wherever it runs: its events update the job's record, its deadlines are enforced, its end decides the
 * job's next state. A change that cannot be saved is tried again until it is.
 */
#include "protocol/base/clock.h"
#include "protocol/base/fault.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "trainerd/daemon/supervisor/supervisor_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is read of an attempt's events in a second, at most, and at once after a pause: whoever writes more, waits. */
#define EVENTS_BYTES_PER_S (1 << 20)

static void step(struct attempt *attempt);

/* --- its handles --- */

static void handle_closed(uv_handle_t *handle)
{
    struct attempt *attempt = handle->data;
    struct supervisor *supervisor = attempt->supervisor;
    if (--attempt->n_handle == 0) {
        free(attempt);
    }
    supervisor_release_handle(supervisor);
}

void attempt_handle_opened(struct attempt *attempt, uv_handle_t *handle)
{
    handle->data = attempt;
    attempt->n_handle++;
    attempt->supervisor->n_handle++;
}

void attempt_close(struct attempt *attempt)
{
    struct attempt **link = &attempt->supervisor->attempts;
    while (*link != attempt) {
        link = &(*link)->next;
    }
    *link = attempt->next;
    attempt->is_closing = true;
    if (attempt->exit.data != NULL) {
        uv_close((uv_handle_t *)&attempt->exit, handle_closed);
    }
    uv_close((uv_handle_t *)&attempt->watch, handle_closed);
    uv_close((uv_handle_t *)&attempt->deadline, handle_closed);
    uv_close((uv_handle_t *)&attempt->step_timer, handle_closed);
    attempt->runner->close(attempt);
}

static void on_step_timer(uv_timer_t *timer)
{
    step(timer->data);
}

void attempt_step_later(struct attempt *attempt, uint64_t wait_ms)
{
    uv_timer_start(&attempt->step_timer, on_step_timer, wait_ms, 0);
}

int32_t attempt_number(const struct attempt *attempt)
{
    const struct job_record *record = jobs_get(attempt->supervisor->jobs, attempt->id);
    return record != NULL ? record->attempt : 0;
}

void attempt_warn(struct attempt *attempt)
{
    if (!attempt->has_warned) {
        log_job_warn(attempt->id, attempt_number(attempt), "%s; it is tried again", status_reason());
    }
    attempt->has_warned = true;
}

/* --- its deadlines --- */

static void on_deadline(uv_timer_t *timer)
{
    struct attempt *attempt = timer->data;
    if (attempt->is_gone) {
        return;
    }
    if (attempt->stopping != JOB_REASON_NONE || attempt->has_end) {
        log_job_warn(attempt->id, attempt_number(attempt), "coordinator did not end in time and is killed");
        attempt->runner->kill(attempt);
        return;
    }
    struct job_record next = *jobs_get(attempt->supervisor->jobs, attempt->id);
    job_reason_set(&next, JOB_REASON_TIME_LIMIT, "its time limit of %.3g s has passed", next.time_limit_s);
    if (jobs_change(attempt->supervisor->jobs, &next) != STATUS_OK) { /* the attempt is stopped all the same */
        attempt_warn(attempt);
    }
    attempt_stop(attempt, JOB_REASON_TIME_LIMIT);
}

static void deadline_set(struct attempt *attempt, double after_s)
{
    uv_update_time(attempt->supervisor->loop);
    uv_timer_start(&attempt->deadline, on_deadline, after_s > 0.0 ? (uint64_t)ceil(1e3 * after_s) : 0, 0);
}

/* End it when its job's time limit has passed, once it runs. */
static void limit_set(struct attempt *attempt)
{
    const struct job_record *record = jobs_get(attempt->supervisor->jobs, attempt->id);
    if (record->time_limit_s > 0.0 && record->run.attempt_at > 0.0) {
        double ran_s = record->run.ran_s + fmax(0.0, job_clock_s() - record->run.attempt_at);
        deadline_set(attempt, record->time_limit_s - ran_s);
    }
}

/* The coordinator has reported its end: it has kill_s to exit. */
static void expect_end(struct attempt *attempt)
{
    if (attempt->stopping == JOB_REASON_NONE && !attempt->awaits_end) {
        attempt->awaits_end = true;
        deadline_set(attempt, attempt->supervisor->options.kill_s);
    }
}

void attempt_stop(struct attempt *attempt, enum job_reason why)
{
    if (attempt->stopping != JOB_REASON_NONE || attempt->is_gone) {
        attempt->stopping = attempt->stopping == JOB_REASON_NONE ? why : attempt->stopping;
        return; /* a second TERM would interrupt the checkpoint that the first one asked for */
    }
    attempt->stopping = why;
    attempt->runner->stop(attempt);
    deadline_set(attempt, attempt->supervisor->options.kill_s);
}

/* --- its events --- */

/* The changes that a batch of events makes. */
struct batch {
    struct attempt *attempt;
    struct job_record next;
    bool is_step; /* to be saved at once */
};

static void read_event(void *context, const struct event *event)
{
    struct batch *batch = context;
    struct job_record *next = &batch->next;
    switch (event->kind) {
    case EVENT_KIND_BEGIN:
        batch->attempt->has_begun = true;
        if (next->state == JOB_STATE_SUBMITTED) {
            next->state = JOB_STATE_PREPARING;
            next->run.attempt_at = job_clock_s();
            next->times.started_at = next->times.started_at > 0.0 ? next->times.started_at : clock_wall_s();
            batch->is_step = true;
        }
        break;
    case EVENT_KIND_STATE:
        if (event->state > next->state) {
            next->state = event->state;
            batch->is_step = true;
        }
        break;
    case EVENT_KIND_EPOCH:
        batch->attempt->has_trained = true;
        next->progress = event->progress;
        break;
    case EVENT_KIND_CHECKPOINT:
        batch->is_step = batch->is_step || !next->run.checkpointed;
        next->run.checkpointed = true;
        break;
    case EVENT_KIND_END:
        batch->attempt->end = *event;
        batch->attempt->has_end = true;
        break;
    }
}

/* How long reading events has to wait, since much was read just now; 0: it may. */
static uint64_t read_wait_ms(struct attempt *attempt)
{
    uint64_t now_ms = uv_now(attempt->supervisor->loop);
    int64_t passed = (int64_t)(now_ms - attempt->events.read_at_ms < 1000 ? now_ms - attempt->events.read_at_ms
                                                                          : 1000);
    int64_t left = attempt->events.read_left + passed * EVENTS_BYTES_PER_S / 1000;
    attempt->events.read_at_ms = now_ms;
    attempt->events.read_left = left < EVENTS_BYTES_PER_S ? left : EVENTS_BYTES_PER_S;
    int64_t missing = EVENT_READ_MOST_BYTES - attempt->events.read_left;
    return missing > 0 ? (uint64_t)(missing * 1000 / EVENTS_BYTES_PER_S) + 1 : 0;
}

/* Its events are not what a coordinator writes. One that runs is stopped, and its job fails; of one that is gone the
 * rest is passed over: a power cut, too, leaves files like that. */
static void spoil(struct attempt *attempt, struct job_record *next)
{
    if (attempt->is_gone) {
        log_job_warn(attempt->id, attempt_number(attempt), "%s; the rest is passed over", status_reason());
        int64_t n_file = event_log_bytes(attempt->events.path);
        next->run.n_event_bytes = n_file >= 0 ? n_file : next->run.n_event_bytes;
    } else if (attempt->stopping == JOB_REASON_NONE) {
        log_job_warn(attempt->id, attempt_number(attempt), "%s; it is stopped", status_reason());
        snprintf(attempt->events.spoiled, sizeof attempt->events.spoiled, "%s", status_reason());
        attempt_stop(attempt, JOB_REASON_BAD_DATA);
    }
}

/* Read new events. false: a change could not be saved, and the events are to be read again. */
static bool read_events(struct attempt *attempt, bool *more_out)
{
    struct jobs *jobs = attempt->supervisor->jobs;
    const struct job_record *record = jobs_get(jobs, attempt->id);
    struct batch batch = {.attempt = attempt, .next = *record};
    enum status status = event_log_read(attempt->events.path, record->attempt, &batch.next.run.n_event_bytes,
                                        more_out, read_event, &batch);
    int64_t n_read = batch.next.run.n_event_bytes - record->run.n_event_bytes;
    attempt->events.read_left -= n_read > 0 ? n_read : *more_out || status == STATUS_DATA ? EVENT_READ_MOST_BYTES : 0;
    if (status == STATUS_DATA) {
        spoil(attempt, &batch.next);
    } else if (status != STATUS_OK && status != STATUS_NO_INPUT) { /* only the process's end will be noticed */
        attempt_warn(attempt);
    }
    if (batch.is_step) {
        bool begins = batch.next.run.attempt_at > 0.0 && record->run.attempt_at <= 0.0;
        if (begins && batch.next.reason == JOB_REASON_WAITING_SLURM) {
            job_reason_set(&batch.next, JOB_REASON_NONE, "%s", "");
        }
        if (jobs_change(jobs, &batch.next) == STATUS_OK) {
            if (begins && attempt->stopping == JOB_REASON_NONE) {
                limit_set(attempt);
            }
        } else {
            attempt_warn(attempt);
            return false;
        }
    } else if (batch.next.run.n_event_bytes != record->run.n_event_bytes) {
        jobs_progress(jobs, attempt->id, &batch.next.progress, batch.next.run.n_event_bytes);
    }
    return true;
}

/* --- its end --- */

/* From the event "end" if there is one, else what is known of where it ran. text: `capacity` bytes for the sentence
 */
static struct ending ending_of(const struct attempt *attempt, const struct job_record *record, char *text,
                               size_t capacity)
{
    struct ending ending = {0};
    if (attempt->events.spoiled[0] != '\0') {
        ending.status = attempt->stopping == JOB_REASON_LOG_LIMIT ? STATUS_IO : STATUS_DATA;
        snprintf(text, capacity, "%s", attempt->events.spoiled);
    } else if (attempt->has_end) {
        ending.status = attempt->end.status;
        ending.restartable = attempt->end.restartable;
        snprintf(text, capacity, "%s", attempt->end.reason);
    } else {
        attempt->runner->ending(attempt, record, text, capacity, &ending);
    }
    if (record->run.slurm != 0 && attempt->stopping == JOB_REASON_NONE) {
        bool was_stopped = attempt->has_end && attempt->end.status == STATUS_INTERRUPTED && attempt->has_trained;
        ending.was_preempted = was_stopped ||
                               (attempt->slurm.is_seen && strcmp(attempt->slurm.look.name, "PREEMPTED") == 0);
    }
    if (attempt->death.n_oom_kill > 0 && ending.status == STATUS_NOMEM) {
        cgroup_explain(attempt, record, text, capacity);
    }
    ending.stopping = ending.stopping != JOB_REASON_NONE ? ending.stopping : attempt->stopping;
    ending.text = text;
    return ending;
}

static void settle(struct attempt *attempt)
{
    struct supervisor *supervisor = attempt->supervisor;
    struct job_record next = *jobs_get(supervisor->jobs, attempt->id);
    int32_t n_worker = next.n_worker;
    char text[JOB_REASON_BYTES];
    struct ending ending = ending_of(attempt, &next, text, sizeof text);
    ending.is_local = supervisor_is_local(supervisor, next.id);
    outcome_decide(&ending, &supervisor->options.backoff, job_clock_s(), &next);
    bool asks_again = next.reason == JOB_REASON_RESCALING || next.n_worker != n_worker;
    enum status status = asks_again ? supervisor_needs(supervisor, next.n_worker, &next) : STATUS_OK;
    if (status != STATUS_OK || (status = jobs_change(supervisor->jobs, &next)) != STATUS_OK) {
        attempt_warn(attempt);
        attempt_step_later(attempt, SUPERVISOR_RETRY_MS);
        return;
    }
    const char *why = next.reason == JOB_REASON_NONE ? "" : job_reason_name(next.reason);
    log_job_info(next.id, next.attempt, "%s%s%s%s%s", job_state_name(next.state), why[0] != '\0' ? ", " : "", why,
                 next.reason_text[0] != '\0' ? ": " : "", next.reason_text);
    attempt_close(attempt);
    supervisor_settled(supervisor);
    FAULT(CLOCK);
    supervisor_schedule(supervisor);
}

static void step(struct attempt *attempt)
{
    bool more = false;
    uint64_t wait_ms = read_wait_ms(attempt);
    if (wait_ms > 0) {
        attempt_step_later(attempt, wait_ms);
    } else if (!read_events(attempt, &more)) {
        attempt_step_later(attempt, SUPERVISOR_RETRY_MS);
    } else if (more) {
        attempt_step_later(attempt, 0);
    } else if (attempt->is_gone && attempt->runner->has_rest != NULL && attempt->runner->has_rest(attempt)) {
        attempt_step_later(attempt, ATTEMPT_REST_MS);
    } else if (attempt->is_gone) {
        attempt_files_cut(attempt); /* before a change is saved: its files may have filled the store's disk */
        settle(attempt);
    } else if (attempt->has_end) {
        expect_end(attempt);
    }
    if (!attempt->is_gone && attempt->runner->stepped != NULL) {
        attempt->runner->stepped(attempt);
    }
}

void attempt_gone(struct attempt *attempt)
{
    attempt->is_gone = true;
    step(attempt);
}

static void on_folder_changed(uv_fs_event_t *watch, const char *name, int events, int error)
{
    (void)events;
    struct attempt *attempt = watch->data;
    if (error != 0 || attempt->is_gone) {
        return;
    }
    attempt_files_check(attempt);
    if (name == NULL || strcmp(name, "events.jsonl") == 0) {
        step(attempt);
    }
}

/* --- its beginning --- */

struct attempt *attempt_find(const struct supervisor *supervisor, int64_t id)
{
    struct attempt *attempt = supervisor->attempts;
    while (attempt != NULL && attempt->id != id) {
        attempt = attempt->next;
    }
    return attempt;
}

struct attempt *attempt_add(struct supervisor *supervisor, int64_t id, const struct runner *runner)
{
    struct attempt *attempt = memory_alloc(1, sizeof *attempt);
    *attempt = (struct attempt){.supervisor = supervisor,
                                .id = id,
                                .runner = runner,
                                .process = {.pidfd = -1, .gate = -1, .error_pipe = -1},
                                .next = supervisor->attempts};
    supervisor->attempts = attempt;
    jobs_folder(supervisor->jobs, id, attempt->paths.folder);
    snprintf(attempt->events.path, sizeof attempt->events.path, "%s/events.jsonl", attempt->paths.folder);
    snprintf(attempt->paths.log, sizeof attempt->paths.log, "%s/log", attempt->paths.folder);
    uv_timer_init(supervisor->loop, &attempt->deadline);
    attempt_handle_opened(attempt, (uv_handle_t *)&attempt->deadline);
    uv_timer_init(supervisor->loop, &attempt->step_timer);
    attempt_handle_opened(attempt, (uv_handle_t *)&attempt->step_timer);
    uv_fs_event_init(supervisor->loop, &attempt->watch);
    attempt_handle_opened(attempt, (uv_handle_t *)&attempt->watch);
    return attempt;
}

void attempt_follow(struct attempt *attempt)
{
    int error = uv_fs_event_start(&attempt->watch, on_folder_changed, attempt->paths.folder, 0);
    if (error != 0) {
        log_job_warn(attempt->id, attempt_number(attempt), "changes of its folder are not seen at once: %s",
                     uv_strerror(error));
    }
    limit_set(attempt);
}

int64_t attempt_events_before(const struct supervisor *supervisor, int64_t id)
{
    char folder[PATH_MAX], path[PATH_MAX + 16];
    jobs_folder(supervisor->jobs, id, folder);
    snprintf(path, sizeof path, "%s/events.jsonl", folder);
    int64_t n = event_log_bytes(path);
    return n > 0 ? n : 0;
}

enum status attempt_begin(struct supervisor *supervisor, const struct job_record *record)
{
    return jobs_are_in_slurm(supervisor->jobs) ? attempt_begin_slurm(supervisor, record)
                                               : attempt_begin_process(supervisor, record);
}

void attempt_adopt(struct supervisor *supervisor, const struct job_record *record)
{
    struct attempt *attempt = job_is_in_slurm(record) ? attempt_adopt_slurm(supervisor, record)
                                                      : attempt_adopt_process(supervisor, record);
    attempt_files_check(attempt);
    if (record->run.cancel) {
        attempt_stop(attempt, JOB_REASON_CANCELLING);
    } else if (record->reason == JOB_REASON_RESCALING || record->reason == JOB_REASON_TIME_LIMIT) {
        attempt_stop(attempt, record->reason);
    }
    attempt_step_later(attempt, 0);
}
