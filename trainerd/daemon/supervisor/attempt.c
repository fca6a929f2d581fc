/* One coordinator, from its start or its being found again to its end: its events read into the job's record, its
 * deadlines kept, its end settled. Whatever the disk refuses is tried again until it is kept.
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

#define LOOK_MS 20 /* between two looks at who of a session is left */

static void step(struct attempt *attempt);

/* --- its handles --- */

static void handle_closed(uv_handle_t *handle)
{
    struct attempt *attempt = handle->data;
    struct supervisor *supervisor = attempt->supervisor;
    if (--attempt->n_handle == 0) {
        free(attempt);
    }
    supervisor_handle_closed(supervisor);
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
    uv_close((uv_handle_t *)&attempt->news, handle_closed);
    uv_close((uv_handle_t *)&attempt->deadline, handle_closed);
    uv_close((uv_handle_t *)&attempt->soon, handle_closed);
    process_release(&attempt->process);
}

static void on_soon(uv_timer_t *timer)
{
    step(timer->data);
}

/* Come back: at once when there is more to read, after a while when the disk refused. */
static void step_later(struct attempt *attempt, uint64_t wait_ms)
{
    uv_timer_start(&attempt->soon, on_soon, wait_ms, 0);
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
        log_warn_of(attempt->id, attempt_number(attempt), "its coordinator (pid %d) did not end in time and is killed",
                    (int)attempt->process.pid);
        process_kill_session(&attempt->process);
        return;
    }
    struct job_record next = *jobs_get(attempt->supervisor->jobs, attempt->id);
    next.reason = JOB_REASON_TIME_LIMIT;
    snprintf(next.reason_text, sizeof next.reason_text, "its limit of %.3g s has passed", next.time_limit_s);
    if (jobs_change(attempt->supervisor->jobs, &next) != STATUS_OK) { /* it has passed all the same */
        warn(attempt);
    }
    attempt_stop(attempt, JOB_REASON_TIME_LIMIT);
}

static void deadline_set(struct attempt *attempt, double after_s)
{
    uv_update_time(attempt->supervisor->loop);
    uv_timer_start(&attempt->deadline, on_deadline, after_s > 0.0 ? (uint64_t)ceil(1e3 * after_s) : 0, 0);
}

/* It has said how it ends: it is given the time to do so. */
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
        return; /* a second TERM would cut short what the first asked for */
    }
    attempt->stopping = why;
    process_signal(&attempt->process, SIGTERM);
    deadline_set(attempt, attempt->supervisor->options.kill_s);
}

/* --- its events --- */

/* What a batch of events comes to. */
struct news {
    struct attempt *attempt;
    struct job_record next;
    bool is_step; /* to be kept at once */
};

static void take_event(void *context, const struct event *event)
{
    struct news *news = context;
    struct job_record *next = &news->next;
    switch (event->kind) {
    case EVENT_KIND_BEGIN:
        news->attempt->has_begun = true;
        break;
    case EVENT_KIND_STATE:
        if (event->state > next->state) {
            next->state = event->state;
            news->is_step = true;
        }
        break;
    case EVENT_KIND_EPOCH:
        next->progress = event->progress;
        break;
    case EVENT_KIND_CHECKPOINT:
        news->is_step = news->is_step || !next->checkpointed;
        next->checkpointed = true;
        break;
    case EVENT_KIND_END:
        news->attempt->end = *event;
        news->attempt->has_end = true;
        break;
    }
}

/* Read what is new. false: the disk refused a change, and it is to be read again. */
static bool take_news(struct attempt *attempt, bool *more_out)
{
    struct jobs *jobs = attempt->supervisor->jobs;
    const struct job_record *record = jobs_get(jobs, attempt->id);
    struct news news = {.attempt = attempt, .next = *record};
    enum status status = event_log_read(attempt->events, record->attempt, &news.next.n_event_bytes, more_out, take_event,
                                        &news);
    if (status != STATUS_OK && status != STATUS_NO_INPUT) { /* the owner's doing: the end alone will be heard of */
        warn(attempt);
    }
    if (news.is_step) {
        if (jobs_change(jobs, &news.next) != STATUS_OK) {
            warn(attempt);
            return false;
        }
    } else if (news.next.n_event_bytes != record->n_event_bytes) {
        jobs_progress(jobs, attempt->id, &news.next.progress, news.next.n_event_bytes);
    }
    return true;
}

/* --- its end --- */

/* What it said when it could not become a coordinator, else where its log ends. */
static void last_words(const struct attempt *attempt, char *text, size_t n_room)
{
    process_words(&attempt->process, text, n_room);
    if (text[0] == '\0') {
        event_log_last_words(attempt->log, text, n_room);
    }
}

/* It did not say how it ends: who saw it die knows what of, and its log has what it said before. */
static void say_death(const struct attempt *attempt, const struct job_record *record, char *text, size_t n_room)
{
    char words[JOB_REASON_BYTES / 2], how[128];
    last_words(attempt, words, sizeof words);
    int number = WTERMSIG(attempt->wait_status);
    const char *name = sigabbrev_np(number);
    if (attempt->was_reaped) {
        snprintf(how, sizeof how, "was killed by signal %d (SIG%s)", number, name != NULL ? name : "?");
    } else {
        snprintf(how, sizeof how, "is gone, and how it ended is not known");
    }
    snprintf(text, n_room, "its coordinator (pid %d) %s%s%s%s", (int)record->pid, how,
             words[0] != '\0' ? "; its log ends with \"" : "", words, words[0] != '\0' ? "\"" : "");
}

/* In its own words when there are any, else by how the process ended. text: room for the sentence */
static struct ending ending_of(const struct attempt *attempt, const struct job_record *record, char *text, size_t n_room)
{
    struct ending ending = {.stopping = attempt->stopping, .text = text};
    if (attempt->has_end) {
        ending.status = attempt->end.status;
        ending.restartable = attempt->end.restartable;
        snprintf(text, n_room, "%s", attempt->end.reason);
    } else if (attempt->was_found && !attempt->has_begun && record->state == JOB_STATE_PREPARING) {
        ending.has_not_begun = true;
        snprintf(text, n_room, "the daemon died before it let attempt %d begin", (int)record->attempt);
    } else if (attempt->was_reaped && WIFEXITED(attempt->wait_status)) {
        ending.status = status_from_exit_code(WEXITSTATUS(attempt->wait_status));
        ending.restartable = job_reason_retries(job_reason_of(ending.status));
        last_words(attempt, text, n_room);
        if (text[0] == '\0') {
            snprintf(text, n_room, "its coordinator (pid %d) ended with exit code %d", (int)record->pid,
                     WEXITSTATUS(attempt->wait_status));
        }
    } else {
        ending.is_lost = true;
        say_death(attempt, record, text, n_room);
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
    const struct outcome_rules rules = {supervisor->options.backoff_s, supervisor->options.backoff_most_s};
    outcome_decide(&ending, &rules, clock_wall_s(), &next);
    bool asks_again = next.reason == JOB_REASON_RESCALING || next.n_worker != n_worker;
    enum status status = asks_again ? supervisor_ask(supervisor, next.n_worker, &next) : STATUS_OK;
    status = status == STATUS_OK ? jobs_change(supervisor->jobs, &next) : status;
    if (status != STATUS_OK) {
        warn(attempt);
        step_later(attempt, SUPERVISOR_RETRY_MS);
        return;
    }
    log_info_of(next.id, next.attempt, "%s %s %s", job_state_name(next.state), job_reason_name(next.reason), next.reason_text);
    attempt_close(attempt);
    supervisor_look(supervisor);
}

static void step(struct attempt *attempt)
{
    bool more = false;
    if (!take_news(attempt, &more)) {
        step_later(attempt, SUPERVISOR_RETRY_MS);
    } else if (more) {
        step_later(attempt, 0);
    } else if (attempt->is_gone && process_kill_session(&attempt->process)) {
        step_later(attempt, LOOK_MS); /* what it started dies with it, in its own time */
    } else if (attempt->is_gone) {
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
    /* What may not die with it is ended here, while its number cannot be another's. */
    process_kill_session(&attempt->process);
    attempt->was_reaped = process_reap(&attempt->process, &attempt->wait_status);
    step(attempt);
}

static void on_news(uv_fs_event_t *watch, const char *name, int events, int error)
{
    (void)events;
    struct attempt *attempt = watch->data;
    if (error == 0 && !attempt->is_gone && (name == NULL || strcmp(name, "events.jsonl") == 0)) {
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

/* An attempt among the supervisor's, its process not watched yet. */
static struct attempt *attempt_add(struct supervisor *supervisor, int64_t id)
{
    struct attempt *attempt = memory_alloc(1, sizeof *attempt);
    *attempt = (struct attempt){
        .supervisor = supervisor, .id = id, .process = {.pidfd = -1, .gate = -1, .words = -1}, .next = supervisor->attempts};
    supervisor->attempts = attempt;
    char folder[PATH_MAX];
    jobs_folder(supervisor->jobs, id, folder);
    snprintf(attempt->events, sizeof attempt->events, "%s/events.jsonl", folder);
    snprintf(attempt->log, sizeof attempt->log, "%s/log", folder);
    uv_timer_init(supervisor->loop, &attempt->deadline);
    handle_opened(attempt, (uv_handle_t *)&attempt->deadline);
    uv_timer_init(supervisor->loop, &attempt->soon);
    handle_opened(attempt, (uv_handle_t *)&attempt->soon);
    uv_fs_event_init(supervisor->loop, &attempt->news);
    handle_opened(attempt, (uv_handle_t *)&attempt->news);
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
    error = uv_fs_event_start(&attempt->news, on_news, folder, 0);
    if (error != 0) {
        log_warn_of(attempt->id, attempt_number(attempt), "its events are read at its end only: %s", uv_strerror(error));
    }
    if (record->time_limit_s > 0.0) {
        double ran_s = record->ran_s + fmax(0.0, clock_wall_s() - record->attempt_at);
        deadline_set(attempt, record->time_limit_s - ran_s);
    }
}

static enum status spawn(struct supervisor *supervisor, const struct job_record *record, struct process *out)
{
    char log[PATH_MAX + 16], folder[PATH_MAX];
    struct command_line line = {0};
    enum status status = jobs_folder_make(supervisor->jobs, record->id);
    status = status == STATUS_OK ? command_line_make(supervisor->jobs, record, record->attempt + 1, &line) : status;
    if (status == STATUS_OK) {
        jobs_folder(supervisor->jobs, record->id, folder);
        snprintf(log, sizeof log, "%s/log", folder);
        const struct process_options options = {
            .argv = line.argv, .uid = record->uid, .gid = record->gid, .folder = line.folder, .log = log};
        status = process_spawn(&options, out);
    }
    command_line_release(&line);
    return status;
}

enum status attempt_begin(struct supervisor *supervisor, const struct job_record *record)
{
    struct process process;
    enum status status = spawn(supervisor, record, &process);
    if (status != STATUS_OK) {
        return status;
    }
    /* First its number is kept, then it may begin: no coordinator runs that a next daemon would not find. */
    struct job_record next = *record;
    double now = clock_wall_s();
    next.state = JOB_STATE_PREPARING;
    next.reason = JOB_REASON_NONE;
    next.reason_text[0] = '\0';
    next.attempt++;
    next.pid = process.pid;
    next.pid_start = process.start;
    next.attempt_at = now;
    next.started_at = next.started_at > 0.0 ? next.started_at : now;
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
    log_info_of(next.id, next.attempt, "coordinator %d", (int)next.pid);
    return STATUS_OK;
}

void attempt_take_up(struct supervisor *supervisor, const struct job_record *record)
{
    struct attempt *attempt = attempt_add(supervisor, record->id);
    bool lives = process_find(record->pid, record->pid_start, &attempt->process);
    attempt->was_found = true;
    log_info_of(record->id, record->attempt, "coordinator %d %s", (int)record->pid, lives ? "is found again" : "is gone");
    if (lives) {
        attempt_watch(attempt);
    }
    attempt->is_gone = !lives;
    if (record->cancel) {
        attempt_stop(attempt, JOB_REASON_CANCELLING);
    } else if (record->reason == JOB_REASON_RESCALING || record->reason == JOB_REASON_TIME_LIMIT) {
        attempt_stop(attempt, record->reason);
    }
    step_later(attempt, 0);
}
