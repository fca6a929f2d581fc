/* An attempt that is a process of this machine: a coordinator that is forked, put into a control group, saved and let
 * go (D23), found again by pid and start time, and killed with its session and its group. */
#include "protocol/base/clock.h"
#include "protocol/base/fault.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "trainerd/daemon/supervisor/supervisor_state.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* --- its end --- */

/* Why the coordinator could not be started, else the last line of its log. */
static void last_line(const struct attempt *attempt, char *text, size_t capacity)
{
    process_start_error(&attempt->process, text, capacity);
    if (text[0] == '\0') {
        event_log_last_line_in(attempt->paths.log, text, capacity);
    }
}

/* The coordinator died without a report: its wait status, if it was reaped, and the last line of its log. */
static void describe_death(const struct attempt *attempt, const struct job_record *record, char *text,
                           size_t capacity)
{
    char line[JOB_REASON_BYTES / 2], how[128];
    last_line(attempt, line, sizeof line);
    int number = WTERMSIG(attempt->death.wait_status);
    const char *name = sigabbrev_np(number);
    if (attempt->death.was_reaped) {
        snprintf(how, sizeof how, "was killed by signal %d (SIG%s)", number, name != NULL ? name : "?");
    } else {
        snprintf(how, sizeof how, "is gone, its exit status is not known");
    }
    snprintf(text, capacity, "its coordinator (pid %d) %s%s%s%s", (int)record->run.pid, how,
             line[0] != '\0' ? "; its log ends with \"" : "", line, line[0] != '\0' ? "\"" : "");
}

static void ending_find(const struct attempt *attempt, const struct job_record *record, char *text, size_t capacity,
                        struct ending *out)
{
    if (attempt->was_found && !attempt->has_begun && record->state == JOB_STATE_PREPARING) {
        out->has_not_begun = true;
        snprintf(text, capacity, "the daemon died before it let attempt %d begin", (int)record->attempt);
    } else if (attempt->death.was_reaped && WIFEXITED(attempt->death.wait_status)) {
        out->status = status_from_exit_code(WEXITSTATUS(attempt->death.wait_status));
        out->restartable = restart_is_possible(out->status);
        last_line(attempt, text, capacity);
        if (text[0] == '\0') {
            snprintf(text, capacity, "its coordinator (pid %d) ended with exit code %d", (int)record->run.pid,
                     WEXITSTATUS(attempt->death.wait_status));
        }
    } else if (attempt->death.was_reaped && WTERMSIG(attempt->death.wait_status) == SIGKILL &&
               attempt->death.n_oom_kill > 0) {
        out->status = STATUS_NOMEM;
        snprintf(text, capacity, "its coordinator (pid %d) was killed, since memory ran out", (int)record->run.pid);
    } else if (attempt->death.was_reaped &&
               supervisor_memory_ran_out(attempt->supervisor, attempt->death.wait_status)) {
        out->status = STATUS_NOMEM;
        snprintf(text, capacity, "its coordinator (pid %d) was killed, since memory ran out: %s is %lld bytes",
                 (int)record->run.pid, memory_machine_name(), (long long)memory_machine());
    } else {
        out->is_lost = true;
        describe_death(attempt, record, text, capacity);
    }
}

static void exited(uv_poll_t *poll, int error, int events)
{
    (void)error;
    (void)events;
    struct attempt *attempt = poll->data;
    uv_poll_stop(poll);
    /* Kill the rest of its session here: until it is reaped, its number cannot be reused. */
    process_kill_session(&attempt->process);
    cgroup_note_end(attempt);
    attempt->death.was_reaped = process_reap(&attempt->process, &attempt->death.wait_status);
    attempt_gone(attempt);
}

static void stop(struct attempt *attempt)
{
    process_signal(&attempt->process, SIGTERM);
}

static void kill_all(struct attempt *attempt)
{
    char name[JOB_CGROUPS_NAME_BYTES];
    const struct job_cgroups *groups = &attempt->supervisor->options.groups;
    process_kill_session(&attempt->process);
    job_cgroup_name(groups, attempt->id, attempt_number(attempt), name);
    (void)job_cgroup_kill(groups, name);
}

static bool checkpoint(struct attempt *attempt)
{
    return process_signal(&attempt->process, SIGUSR1);
}

static bool has_rest(struct attempt *attempt)
{
    bool has_session = process_kill_session(&attempt->process);
    return cgroup_has_rest(attempt) || has_session; /* processes that have left the session are in the group */
}

static void close_process(struct attempt *attempt)
{
    process_release(&attempt->process);
}

static const struct runner process_runner = {.stop = stop,
                                             .kill = kill_all,
                                             .checkpoint = checkpoint,
                                             .has_rest = has_rest,
                                             .ending = ending_find,
                                             .close = close_process};

/* --- its beginning --- */

/* Follow a process that runs. */
static void watch(struct attempt *attempt)
{
    int error = uv_poll_init(attempt->supervisor->loop, &attempt->exit, attempt->process.pidfd);
    ASSERT(error == 0); /* a pidfd that was just opened */
    attempt_handle_opened(attempt, (uv_handle_t *)&attempt->exit);
    uv_poll_start(&attempt->exit, UV_READABLE, exited);
    attempt_follow(attempt);
}

/* A GPU for each worker, or all if there are fewer: the least-numbered free ones. The queue found that they exist. */
static uint64_t gpus_choose(const struct supervisor *supervisor, const struct job_record *record)
{
    uint64_t left = supervisor->options.capacity.gpus;
    size_t n;
    const struct job_record *const *all = jobs_live(supervisor->jobs, &n);
    for (size_t i = 0; i < n; i++) {
        left &= ~all[i]->gpus;
    }
    int32_t n_all = gpus_n(supervisor->options.capacity.gpus);
    return gpus_least(left, record->n_gpu < n_all ? record->n_gpu : n_all);
}

enum status attempt_begin_process(struct supervisor *supervisor, const struct job_record *record)
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
    job_reason_set(&next, JOB_REASON_NONE, "%s", "");
    next.attempt++;
    next.gpus = gpus;
    next.run.pid = process.pid;
    next.run.pid_start = process.start;
    next.run.n_event_bytes = attempt_events_before(supervisor, next.id);
    next.run.attempt_at = job_clock_s();
    next.times.started_at = next.times.started_at > 0.0 ? next.times.started_at : clock_wall_s();
    next.run.next_attempt_at = 0.0;
    status = jobs_change(supervisor->jobs, &next);
    if (status != STATUS_OK) {
        process_abandon(&process);
        return status;
    }
    struct attempt *attempt = attempt_add(supervisor, next.id, &process_runner);
    attempt->process = process;
    watch(attempt);
    FAULT(GATE);
    process_go(&attempt->process);
    char text[GPUS_TEXT_BYTES];
    gpus_text(gpus, text);
    log_job_info(next.id, next.attempt, "coordinator %d%s%s", (int)next.run.pid, gpus != 0 ? ", GPUs " : "", text);
    return STATUS_OK;
}

struct attempt *attempt_adopt_process(struct supervisor *supervisor, const struct job_record *record)
{
    struct attempt *attempt = attempt_add(supervisor, record->id, &process_runner);
    bool lives = process_find(record->run.pid, record->run.pid_start, &attempt->process);
    attempt->was_found = true;
    log_job_info(record->id, record->attempt, "coordinator %d %s", (int)record->run.pid,
                 lives ? "was found" : "is gone");
    if (lives) {
        watch(attempt);
    } else {
        cgroup_note_end(attempt);
    }
    attempt->is_gone = !lives;
    return attempt;
}
