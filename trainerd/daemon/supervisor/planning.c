/* Planning finds what a queued job needs: its coordinator runs with --plan, as its owner.
 *
 * The coordinator prints to memory files of a fixed size, so that the daemon need not read along. It ends with the daemon.
 */
#include "protocol/log.h"
#include "protocol/memory.h"
#include "trainerd/daemon/supervisor/supervisor_state.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUT_MOST_BYTES (8 << 20)
#define ERR_MOST_BYTES (64 << 10)

/* A file in memory that cannot grow beyond n bytes. */
static int memory_file(const char *name, off_t n)
{
    int file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file >= 0 && (ftruncate(file, n) != 0 || fcntl(file, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)) {
        int error = errno;
        close(file);
        file = -1;
        errno = error;
    }
    return file;
}

/* The text written there: the file offset is shared with the writer. The caller frees it. */
static char *memory_text(int file, size_t *n_out)
{
    off_t n = lseek(file, 0, SEEK_CUR);
    char *text = memory_alloc((size_t)(n > 0 ? n : 0) + 1, 1);
    ssize_t got = n > 0 ? pread(file, text, (size_t)n, 0) : 0;
    *n_out = got > 0 ? (size_t)got : 0;
    return text;
}

/* Bytes that planning needs, where it ended since they are more than it was given; 0: it did not. */
static int64_t need_of(const struct planning *planning)
{
    size_t n;
    char *text = memory_text(planning->out, &n);
    json_t *said = json_loadb(text, n, 0, NULL);
    json_int_t need = json_integer_value(json_object_get(said, "planning_bytes"));
    json_decref(said);
    free(text);
    return need > planning->n_most ? need : 0;
}

/* Bytes of all workers together, with the coordinator and what each process takes besides, or of cutting the graph, where that is more; -1: not in the
 * plan. And the graph's parts. */
static int64_t memory_of(const struct planning *planning, int32_t *n_part_out)
{
    size_t n, i;
    char *text = memory_text(planning->out, &n);
    json_t *plan = json_loadb(text, n, 0, NULL), *worker;
    int64_t all = 0;
    *n_part_out = (int32_t)json_integer_value(json_object_get(json_object_get(plan, "partition"), "parts"));
    json_array_foreach(json_object_get(plan, "workers"), i, worker)
    {
        all += json_integer_value(json_object_get(json_object_get(worker, "memory"), "all"));
    }
    /* What workers take that run on this machine is in both. */
    json_int_t here = json_integer_value(json_object_get(plan, "machine_bytes"));
    json_int_t cutting = json_integer_value(json_object_get(plan, "partition_bytes")); /* no worker runs by then */
    here = here > cutting ? here : cutting;
    json_decref(plan);
    free(text);
    return all > 0 ? (all > here ? all : here) : -1;
}

/* How failed planning ended, in the terms of an attempt's end. */
static struct ending ending_of(const struct planning *planning, bool was_reaped, int wait_status, char *text, size_t capacity)
{
    struct ending ending = {.status = STATUS_BUG, .text = text};
    size_t n;
    process_start_error(&planning->process, text, capacity);
    if (was_reaped && WIFEXITED(wait_status)) {
        ending.status = status_from_exit_code(WEXITSTATUS(wait_status));
        ending.restartable = restart_is_possible(ending.status);
    } else if (was_reaped && supervisor_memory_ran_out(planning->supervisor, wait_status)) {
        ending.status = STATUS_NOMEM;
        snprintf(text, capacity, "planning it was killed, since memory ran out: %s is %lld bytes", memory_machine_name(),
                 (long long)memory_machine());
    } else {
        ending.is_lost = true;
        snprintf(text, capacity, "planning it was ended by signal %d", was_reaped ? WTERMSIG(wait_status) : 0);
    }
    if (ending.status == STATUS_OK) {
        ending.status = STATUS_BUG;
        snprintf(text, capacity, "its plan cannot be read");
    }
    if (text[0] == '\0') {
        char *printed = memory_text(planning->err, &n);
        event_log_last_line(printed, n, text, capacity);
        free(printed);
    }
    if (text[0] == '\0') {
        snprintf(text, capacity, "planning it ended with exit code %d", WEXITSTATUS(wait_status));
    }
    return ending;
}

/* The job fails: planned again it would take as long. */
static void fail_late(const struct supervisor *supervisor, struct job_record *next)
{
    next->state = JOB_STATE_FAILED;
    next->reason = JOB_REASON_TIME_LIMIT;
    next->exit_code = status_exit_code(STATUS_INTERRUPTED);
    snprintf(next->reason_text, sizeof next->reason_text, "planning it took more than %.3g s (daemon.plan_timeout)",
             supervisor->options.plan_s);
}

static void settle(const struct planning *planning, bool was_reaped, int wait_status)
{
    struct supervisor *supervisor = planning->supervisor;
    const struct job_record *record = jobs_get(supervisor->jobs, planning->id);
    if (planning->is_stale || record->state != JOB_STATE_QUEUED) {
        return;
    }
    struct job_record next = *record;
    bool is_good = was_reaped && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
    int32_t n_part = 0;
    next.memory = is_good ? memory_of(planning, &n_part) : -1;
    next.n_part = next.attempt == 0 && n_part > 0 ? n_part : next.n_part; /* later plans are told */
    next.planning_need = is_good ? 0 : need_of(planning);
    if (next.planning_need > 0 && !planning->is_late) {
        next.reason = JOB_REASON_WAITING_MEMORY; /* the queue says how much, and of how much */
        next.reason_text[0] = '\0';
    } else if (next.memory < 0 && planning->is_late) {
        fail_late(supervisor, &next);
    } else if (next.memory >= 0) {
        next.reason = JOB_REASON_WAITING_TURN;
        next.reason_text[0] = '\0';
    } else {
        char text[JOB_REASON_BYTES];
        const struct ending ending = ending_of(planning, was_reaped, wait_status, text, sizeof text);
        outcome_decide(&ending, &supervisor->options.backoff, job_clock_s(), &next);
    }
    if (jobs_change(supervisor->jobs, &next) != STATUS_OK) { /* the next pass plans it again */
        log_warn_of(next.id, next.attempt, "%s", status_reason());
    }
}

static void closed(uv_handle_t *handle)
{
    struct planning *planning = handle->data;
    supervisor_release_handle(planning->supervisor);
    if (--planning->n_handle == 0) {
        free(planning);
    }
}

static void planning_end(struct planning *planning)
{
    struct planning **link = &planning->supervisor->planning;
    while (*link != planning) {
        link = &(*link)->next;
    }
    *link = planning->next;
    jobs_plans(planning->supervisor->jobs, planning->id, 0);
    uv_close((uv_handle_t *)&planning->exit, closed);
    uv_close((uv_handle_t *)&planning->deadline, closed);
    process_release(&planning->process);
    close(planning->out);
    close(planning->err);
}

struct planning *planning_of(const struct supervisor *supervisor, int64_t id)
{
    struct planning *planning = supervisor->planning;
    while (planning != NULL && planning->id != id) {
        planning = planning->next;
    }
    return planning;
}

/* May another one begin? One that is stale ends soon. */
static bool has_room(const struct supervisor *supervisor, const struct job_record *record)
{
    int n = 0;
    bool plans = false;
    for (const struct planning *at = supervisor->planning; at != NULL; at = at->next) {
        n++;
        plans = plans || at->uid == record->uid;
    }
    return n < QUEUE_PLANNING_MOST && !plans;
}

static void on_deadline(uv_timer_t *timer)
{
    struct planning *planning = timer->data;
    planning->is_late = true;
    process_kill_session(&planning->process);
}

static void exited(uv_poll_t *poll, int error, int events)
{
    (void)error;
    (void)events;
    struct planning *planning = poll->data;
    int wait_status = 0;
    bool was_reaped = process_reap(&planning->process, &wait_status);
    settle(planning, was_reaped, wait_status);
    supervisor_settled(planning->supervisor);
    planning_end(planning);
    supervisor_schedule(planning->supervisor);
}

enum status planning_begin(struct supervisor *supervisor, const struct job_record *record, int64_t n_most)
{
    struct command_line line = {0};
    if (!has_room(supervisor, record)) {
        return STATUS_OK;
    }
    struct planning *planning = memory_alloc(1, sizeof *planning);
    *planning = (struct planning){.supervisor = supervisor,
                                  .id = record->id,
                                  .uid = record->uid,
                                  .n_most = n_most,
                                  .out = memory_file("plan", OUT_MOST_BYTES),
                                  .err = memory_file("errors", ERR_MOST_BYTES)};
    enum status status = STATUS_OK;
    if (planning->out < 0 || planning->err < 0) {
        status = status_fail(STATUS_IO, "cannot make a memory file for a plan: %s", strerror(errno));
    }
    status = status == STATUS_OK ? jobs_folder_make(supervisor->jobs, record->id) : status;
    status = status == STATUS_OK ? command_line_plan(supervisor->jobs, record, n_most, &line) : status;
    if (status == STATUS_OK) {
        const struct process_options options = {.argv = line.argv,
                                                .uid = record->uid,
                                                .gid = record->gid,
                                                .pass_environment = supervisor->options.pass_environment,
                                                .gpus = "", /* a plan opens none */
                                                .folder = line.folder,
                                                .input = line.config,
                                                .out = planning->out,
                                                .err = planning->err};
        status = process_spawn(&options, &planning->process);
    }
    command_line_release(&line);
    if (status == STATUS_OK && uv_poll_init(supervisor->loop, &planning->exit, planning->process.pidfd) != 0) {
        process_abandon(&planning->process);
        status = status_fail(STATUS_IO, "cannot watch the planning of job %lld", (long long)record->id);
    }
    if (status != STATUS_OK) {
        if (planning->out >= 0) {
            close(planning->out);
        }
        if (planning->err >= 0) {
            close(planning->err);
        }
        free(planning);
        return status;
    }
    planning->exit.data = planning->deadline.data = planning;
    uv_poll_start(&planning->exit, UV_READABLE, exited);
    uv_timer_init(supervisor->loop, &planning->deadline);
    uv_update_time(supervisor->loop);
    uv_timer_start(&planning->deadline, on_deadline, (uint64_t)(1e3 * supervisor->options.plan_s), 0);
    planning->n_handle = 2;
    supervisor->n_handle += planning->n_handle;
    planning->next = supervisor->planning;
    supervisor->planning = planning;
    jobs_plans(supervisor->jobs, planning->id, n_most);
    process_go(&planning->process);
    return STATUS_OK;
}

void planning_stop(struct planning *planning)
{
    if (planning == NULL) {
        return;
    }
    planning->is_stale = true;
    process_kill_session(&planning->process);
    if (planning->supervisor->is_closing) { /* the loop will not report its end */
        uv_poll_stop(&planning->exit);
        process_abandon(&planning->process);
        planning_end(planning);
    }
}
