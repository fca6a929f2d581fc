/* One coordinator from its start, or its adoption, to its end: its events update the job's record, its deadlines are enforced,
 * its end decides the job's next state. A change that cannot be saved is tried again until it is.
 */
#include "protocol/clock.h"
#include "protocol/fault.h"
#include "protocol/log.h"
#include "protocol/memory.h"
#include "trainerd/daemon/supervisor/supervisor_state.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define KILLED_CHECK_MS 20 /* between two checks of which processes of a session are left */

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

static void handle_opened(struct attempt *attempt, uv_handle_t *handle)
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
    process_release(&attempt->process);
}

static void on_step_timer(uv_timer_t *timer)
{
    step(timer->data);
}

/* Step again: at once when there is more to read, after a wait when a change could not be saved. */
static void step_later(struct attempt *attempt, uint64_t wait_ms)
{
    uv_timer_start(&attempt->step_timer, on_step_timer, wait_ms, 0);
}

static int32_t attempt_number(const struct attempt *attempt)
{
    return jobs_get(attempt->supervisor->jobs, attempt->id)->attempt;
}

static void warn(struct attempt *attempt)
{
    if (!attempt->has_warned) {
        log_warn_of(attempt->id, attempt_number(attempt), "%s; it is tried again", status_reason());
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
        log_warn_of(attempt->id, attempt_number(attempt), "coordinator (pid %d) did not end in time and is killed",
                    (int)attempt->process.pid);
        process_kill_session(&attempt->process);
        return;
    }
    struct job_record next = *jobs_get(attempt->supervisor->jobs, attempt->id);
    next.reason = JOB_REASON_TIME_LIMIT;
    snprintf(next.reason_text, sizeof next.reason_text, "its time limit of %.3g s has passed", next.time_limit_s);
    if (jobs_change(attempt->supervisor->jobs, &next) != STATUS_OK) { /* the attempt is stopped all the same */
        warn(attempt);
    }
    attempt_stop(attempt, JOB_REASON_TIME_LIMIT);
}

static void deadline_set(struct attempt *attempt, double after_s)
{
    uv_update_time(attempt->supervisor->loop);
    uv_timer_start(&attempt->deadline, on_deadline, after_s > 0.0 ? (uint64_t)ceil(1e3 * after_s) : 0, 0);
}

/* The coordinator has reported its end: it has kill_s to exit. */
static void expect_end(struct attempt *attempt)
{
    if (attempt->stopping == JOB_REASON_NONE) {
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
    process_signal(&attempt->process, SIGTERM);
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
        break;
    case EVENT_KIND_STATE:
        if (event->state > next->state) {
            next->state = event->state;
            batch->is_step = true;
        }
        break;
    case EVENT_KIND_EPOCH:
        next->progress = event->progress;
        break;
    case EVENT_KIND_CHECKPOINT:
        batch->is_step = batch->is_step || !next->checkpointed;
        next->checkpointed = true;
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
    int64_t passed = (int64_t)(now_ms - attempt->read_at_ms < 1000 ? now_ms - attempt->read_at_ms : 1000);
    int64_t left = attempt->read_left + passed * EVENTS_BYTES_PER_S / 1000;
    attempt->read_at_ms = now_ms;
    attempt->read_left = left < EVENTS_BYTES_PER_S ? left : EVENTS_BYTES_PER_S;
    int64_t missing = EVENT_READ_MOST_BYTES - attempt->read_left;
    return missing > 0 ? (uint64_t)(missing * 1000 / EVENTS_BYTES_PER_S) + 1 : 0;
}

/* Its events are not what a coordinator writes. One that runs is stopped, and its job fails; of one that is gone the rest is passed over: a power
 * cut, too, leaves files like that. */
static void spoil(struct attempt *attempt, struct job_record *next)
{
    if (attempt->is_gone) {
        log_warn_of(attempt->id, attempt_number(attempt), "%s; the rest is passed over", status_reason());
        int64_t n_file = event_log_bytes(attempt->events);
        next->n_event_bytes = n_file >= 0 ? n_file : next->n_event_bytes;
    } else if (attempt->stopping == JOB_REASON_NONE) {
        log_warn_of(attempt->id, attempt_number(attempt), "%s; it is stopped", status_reason());
        snprintf(attempt->spoiled, sizeof attempt->spoiled, "%s", status_reason());
        attempt_stop(attempt, JOB_REASON_BAD_DATA);
    }
}

/* Read new events. false: a change could not be saved, and the events are to be read again. */
static bool read_events(struct attempt *attempt, bool *more_out)
{
    struct jobs *jobs = attempt->supervisor->jobs;
    const struct job_record *record = jobs_get(jobs, attempt->id);
    struct batch batch = {.attempt = attempt, .next = *record};
    enum status status = event_log_read(attempt->events, record->attempt, &batch.next.n_event_bytes, more_out, read_event,
                                        &batch);
    int64_t n_read = batch.next.n_event_bytes - record->n_event_bytes;
    attempt->read_left -= n_read > 0 ? n_read : *more_out || status == STATUS_DATA ? EVENT_READ_MOST_BYTES : 0;
    if (status == STATUS_DATA) {
        spoil(attempt, &batch.next);
    } else if (status != STATUS_OK && status != STATUS_NO_INPUT) { /* only the process's end will be noticed */
        warn(attempt);
    }
    if (batch.is_step) {
        if (jobs_change(jobs, &batch.next) != STATUS_OK) {
            warn(attempt);
            return false;
        }
    } else if (batch.next.n_event_bytes != record->n_event_bytes) {
        jobs_progress(jobs, attempt->id, &batch.next.progress, batch.next.n_event_bytes);
    }
    return true;
}

/* --- its end --- */

/* Why the coordinator could not be started, else the last line of its log. */
static void last_line(const struct attempt *attempt, char *text, size_t capacity)
{
    process_start_error(&attempt->process, text, capacity);
    if (text[0] == '\0') {
        event_log_last_line_in(attempt->log, text, capacity);
    }
}

/* The coordinator died without a report: its wait status, if it was reaped, and the last line of its log. */
static void describe_death(const struct attempt *attempt, const struct job_record *record, char *text, size_t capacity)
{
    char line[JOB_REASON_BYTES / 2], how[128];
    last_line(attempt, line, sizeof line);
    int number = WTERMSIG(attempt->wait_status);
    const char *name = sigabbrev_np(number);
    if (attempt->was_reaped) {
        snprintf(how, sizeof how, "was killed by signal %d (SIG%s)", number, name != NULL ? name : "?");
    } else {
        snprintf(how, sizeof how, "is gone, its exit status is not known");
    }
    snprintf(text, capacity, "its coordinator (pid %d) %s%s%s%s", (int)record->pid, how,
             line[0] != '\0' ? "; its log ends with \"" : "", line, line[0] != '\0' ? "\"" : "");
}

/* From the event "end" if there is one, else from the exit status. text: `capacity` bytes for the sentence */
static struct ending ending_of(const struct attempt *attempt, const struct job_record *record, char *text, size_t capacity)
{
    struct ending ending = {.stopping = attempt->stopping, .text = text};
    if (attempt->spoiled[0] != '\0') {
        ending.status = attempt->stopping == JOB_REASON_LOG_LIMIT ? STATUS_IO : STATUS_DATA;
        snprintf(text, capacity, "%s", attempt->spoiled);
    } else if (attempt->has_end) {
        ending.status = attempt->end.status;
        ending.restartable = attempt->end.restartable;
        snprintf(text, capacity, "%s", attempt->end.reason);
    } else if (attempt->was_found && !attempt->has_begun && record->state == JOB_STATE_PREPARING) {
        ending.has_not_begun = true;
        snprintf(text, capacity, "the daemon died before it let attempt %d begin", (int)record->attempt);
    } else if (attempt->was_reaped && WIFEXITED(attempt->wait_status)) {
        ending.status = status_from_exit_code(WEXITSTATUS(attempt->wait_status));
        ending.restartable = restart_is_possible(ending.status);
        last_line(attempt, text, capacity);
        if (text[0] == '\0') {
            snprintf(text, capacity, "its coordinator (pid %d) ended with exit code %d", (int)record->pid,
                     WEXITSTATUS(attempt->wait_status));
        }
    } else if (attempt->was_reaped && supervisor_memory_ran_out(attempt->supervisor, attempt->wait_status)) {
        ending.status = STATUS_NOMEM;
        snprintf(text, capacity, "its coordinator (pid %d) was killed, since memory ran out: %s is %lld bytes",
                 (int)record->pid, memory_machine_name(), (long long)memory_machine());
    } else {
        ending.is_lost = true;
        describe_death(attempt, record, text, capacity);
    }
    return ending;
}

static void settle(struct attempt *attempt)
{
    struct supervisor *supervisor = attempt->supervisor;
    struct job_record next = *jobs_get(supervisor->jobs, attempt->id);
    int32_t n_worker = next.n_worker;
    char text[JOB_REASON_BYTES];
    const struct ending ending = ending_of(attempt, &next, text, sizeof text);
    outcome_decide(&ending, &supervisor->options.backoff, job_clock_s(), &next);
    bool asks_again = next.reason == JOB_REASON_RESCALING || next.n_worker != n_worker;
    enum status status = asks_again ? supervisor_needs(supervisor, next.n_worker, &next) : STATUS_OK;
    status = status == STATUS_OK ? jobs_change(supervisor->jobs, &next) : status;
    if (status != STATUS_OK) {
        warn(attempt);
        step_later(attempt, SUPERVISOR_RETRY_MS);
        return;
    }
    log_info_of(next.id, next.attempt, "%s %s %s", job_state_name(next.state), job_reason_name(next.reason), next.reason_text);
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
        step_later(attempt, wait_ms);
    } else if (!read_events(attempt, &more)) {
        step_later(attempt, SUPERVISOR_RETRY_MS);
    } else if (more) {
        step_later(attempt, 0);
    } else if (attempt->is_gone && process_kill_session(&attempt->process)) {
        step_later(attempt, KILLED_CHECK_MS); /* wait until the processes that it started are dead */
    } else if (attempt->is_gone) {
        attempt_files_cut(attempt); /* before a change is saved: its files may have filled the store's disk */
        settle(attempt);
    } else if (attempt->has_end) {
        expect_end(attempt);
    }
}

static void exited(uv_poll_t *poll, int error, int events)
{
    (void)error;
    (void)events;
    struct attempt *attempt = poll->data;
    uv_poll_stop(poll);
    attempt->is_gone = true;
    /* Kill the rest of its session here: until it is reaped, its number cannot be reused. */
    process_kill_session(&attempt->process);
    attempt->was_reaped = process_reap(&attempt->process, &attempt->wait_status);
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

struct attempt *attempt_of(const struct supervisor *supervisor, int64_t id)
{
    struct attempt *attempt = supervisor->attempts;
    while (attempt != NULL && attempt->id != id) {
        attempt = attempt->next;
    }
    return attempt;
}

/* Add an attempt to the supervisor's; its process is not watched yet. */
static struct attempt *attempt_add(struct supervisor *supervisor, int64_t id)
{
    struct attempt *attempt = memory_alloc(1, sizeof *attempt);
    *attempt = (struct attempt){.supervisor = supervisor,
                                .id = id,
                                .process = {.pidfd = -1, .gate = -1, .error_pipe = -1},
                                .next = supervisor->attempts};
    supervisor->attempts = attempt;
    char folder[PATH_MAX];
    jobs_folder(supervisor->jobs, id, folder);
    snprintf(attempt->events, sizeof attempt->events, "%s/events.jsonl", folder);
    snprintf(attempt->log, sizeof attempt->log, "%s/log", folder);
    uv_timer_init(supervisor->loop, &attempt->deadline);
    handle_opened(attempt, (uv_handle_t *)&attempt->deadline);
    uv_timer_init(supervisor->loop, &attempt->step_timer);
    handle_opened(attempt, (uv_handle_t *)&attempt->step_timer);
    uv_fs_event_init(supervisor->loop, &attempt->watch);
    handle_opened(attempt, (uv_handle_t *)&attempt->watch);
    return attempt;
}

/* Follow a process that runs. */
static void attempt_watch(struct attempt *attempt)
{
    struct supervisor *supervisor = attempt->supervisor;
    const struct job_record *record = jobs_get(supervisor->jobs, attempt->id);
    int error = uv_poll_init(supervisor->loop, &attempt->exit, attempt->process.pidfd);
    ASSERT(error == 0); /* a pidfd that was just opened */
    handle_opened(attempt, (uv_handle_t *)&attempt->exit);
    uv_poll_start(&attempt->exit, UV_READABLE, exited);
    char folder[PATH_MAX];
    jobs_folder(supervisor->jobs, attempt->id, folder);
    error = uv_fs_event_start(&attempt->watch, on_folder_changed, folder, 0);
    if (error != 0) {
        log_warn_of(attempt->id, attempt_number(attempt), "events are read at the coordinator's end only: %s",
                    uv_strerror(error));
    }
    if (record->time_limit_s > 0.0) {
        double ran_s = record->ran_s + fmax(0.0, job_clock_s() - record->attempt_at);
        deadline_set(attempt, record->time_limit_s - ran_s);
    }
}

/* One for each worker, or all where there are fewer: the least-numbered that no other job holds, as the queue has found that there are so many. */
static uint64_t gpus_choose(const struct supervisor *supervisor, const struct job_record *record)
{
    uint64_t left = supervisor->options.capacity.gpus;
    size_t n;
    const struct job_record *const *all = jobs_all(supervisor->jobs, &n);
    for (size_t i = 0; i < n; i++) {
        left &= ~all[i]->gpus;
    }
    int32_t n_all = gpus_n(supervisor->options.capacity.gpus);
    return gpus_least(left, record->n_gpu < n_all ? record->n_gpu : n_all);
}

/* Where the events of an attempt begin that has not: what lies before is an earlier attempt's, or was put there by another process. */
static int64_t events_before(const struct supervisor *supervisor, int64_t id)
{
    char folder[PATH_MAX], path[PATH_MAX + 16];
    jobs_folder(supervisor->jobs, id, folder);
    snprintf(path, sizeof path, "%s/events.jsonl", folder);
    int64_t n = event_log_bytes(path);
    return n > 0 ? n : 0;
}

enum status attempt_begin(struct supervisor *supervisor, const struct job_record *record)
{
    struct process process;
    uint64_t gpus = gpus_choose(supervisor, record);
    enum status status = attempt_spawn(supervisor, record, gpus, &process);
    if (status != STATUS_OK) {
        return status;
    }
    /* The pid is saved before the gate opens: no coordinator runs that the next daemon would not find. */
    struct job_record next = *record;
    next.state = JOB_STATE_PREPARING;
    next.reason = JOB_REASON_NONE;
    next.reason_text[0] = '\0';
    next.attempt++;
    next.gpus = gpus;
    next.pid = process.pid;
    next.pid_start = process.start;
    next.n_event_bytes = events_before(supervisor, next.id);
    next.attempt_at = job_clock_s();
    next.started_at = next.started_at > 0.0 ? next.started_at : clock_wall_s();
    next.next_attempt_at = 0.0;
    status = jobs_change(supervisor->jobs, &next);
    if (status != STATUS_OK) {
        process_abandon(&process);
        return status;
    }
    struct attempt *attempt = attempt_add(supervisor, next.id);
    attempt->process = process;
    attempt_watch(attempt);
    FAULT(GATE);
    process_go(&attempt->process);
    char text[GPUS_TEXT_BYTES];
    gpus_text(gpus, text);
    log_info_of(next.id, next.attempt, "coordinator %d%s%s", (int)next.pid, gpus != 0 ? ", GPUs " : "", text);
    return STATUS_OK;
}

void attempt_adopt(struct supervisor *supervisor, const struct job_record *record)
{
    struct attempt *attempt = attempt_add(supervisor, record->id);
    bool lives = process_find(record->pid, record->pid_start, &attempt->process);
    attempt->was_found = true;
    log_info_of(record->id, record->attempt, "coordinator %d %s", (int)record->pid, lives ? "was found" : "is gone");
    attempt->is_gone = !lives;
    if (lives) {
        attempt_watch(attempt);
        attempt_files_check(attempt);
    }
    if (record->cancel) {
        attempt_stop(attempt, JOB_REASON_CANCELLING);
    } else if (record->reason == JOB_REASON_RESCALING || record->reason == JOB_REASON_TIME_LIMIT) {
        attempt_stop(attempt, record->reason);
    }
    step_later(attempt, 0);
}
