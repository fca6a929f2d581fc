/* Planning finds what a queued job needs: its coordinator runs with --plan, as its owner.
 *
 * It ends with the daemon.
 */
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "trainerd/daemon/supervisor/supervisor_state.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Bytes that planning needs, where it ended since they are more than it was given; 0: it did not. */
static int64_t need_of(const struct planning *planning)
{
    size_t n;
    char *text = tool_printed(planning->tool, &n);
    json_t *said = json_loadb(text, n, 0, NULL);
    json_int_t need = json_integer_value(json_object_get(said, "planning_bytes"));
    json_decref(said);
    free(text);
    return need > planning->n_most ? need : 0;
}

/* Bytes of all workers together, with the coordinator and what each process takes besides, or of cutting the graph,
 * where that is more; -1: not in the plan. And the graph's parts, and how few workers there may be. */
static int64_t memory_of(const struct planning *planning, int32_t *n_part_out, struct job_record *record)
{
    size_t n, i;
    char *text = tool_printed(planning->tool, &n);
    json_t *plan = json_loadb(text, n, 0, NULL), *worker;
    int64_t all = 0, most = 0;
    *n_part_out = (int32_t)json_integer_value(json_object_get(json_object_get(plan, "partition"), "parts"));
    record->plan.n_worker_least = (int32_t)json_integer_value(json_object_get(plan, "workers_least"));
    record->plan.n_byte_fewer = json_integer_value(json_object_get(plan, "bytes_on_fewer"));
    json_array_foreach(json_object_get(plan, "workers"), i, worker)
    {
        int64_t one = json_integer_value(json_object_get(json_object_get(worker, "memory"), "all"));
        all += one;
        most = one > most ? one : most;
    }
    size_t n_worker = json_array_size(json_object_get(plan, "workers"));
    /* What workers take that run on this machine is in both. */
    json_int_t here = json_integer_value(json_object_get(plan, "machine_bytes"));
    json_int_t cutting = json_integer_value(json_object_get(plan, "partition_bytes")); /* no worker runs by then */
    json_decref(plan);
    free(text);
    if (jobs_are_in_slurm(planning->supervisor->jobs)) { /* a task is any worker, and may be beside the coordinator */
        int64_t task = most + MEMORY_PROCESS_FLOOR + here;
        return all > 0 ? (int64_t)n_worker * (task > cutting ? task : cutting) : -1;
    }
    here = here > cutting ? here : cutting;
    return all > 0 ? (all > here ? all : here) : -1;
}

/* How failed planning ended, in the terms of an attempt's end. */
static struct ending ending_of(const struct planning *planning, char *text, size_t capacity)
{
    const struct cgroup_plan group = cgroup_of_planning(planning->supervisor, planning->id);
    const struct tool *tool = planning->tool;
    struct ending ending = {.status = STATUS_BUG, .text = text};
    bool was_killed = tool->was_reaped && WIFSIGNALED(tool->wait_status);
    int code = tool_exit_code(tool);
    text[0] = '\0';
    if (code >= 0) {
        ending.status = status_from_exit_code(code);
        ending.restartable = restart_is_possible(ending.status);
    } else if (was_killed && job_cgroup_oom_kills(group.groups, group.name) > 0) {
        ending.status = STATUS_NOMEM;
        snprintf(text, capacity,
                 "planning it was killed, since memory ran out: its control group %s may have %lld bytes", group.name,
                 (long long)job_cgroup_limit(group.groups, group.name));
    } else if (was_killed && supervisor_memory_ran_out(planning->supervisor, tool->wait_status)) {
        ending.status = STATUS_NOMEM;
        snprintf(text, capacity, "planning it was killed, since memory ran out: %s is %lld bytes",
                 memory_machine_name(), (long long)memory_machine());
    } else {
        ending.is_lost = true;
        snprintf(text, capacity, "planning it was ended by signal %d", was_killed ? WTERMSIG(tool->wait_status) : 0);
    }
    if (ending.status == STATUS_OK) {
        ending.status = STATUS_BUG;
        snprintf(text, capacity, "its plan cannot be read");
    }
    if (text[0] == '\0') {
        tool_message(tool, text, capacity);
    }
    if (text[0] == '\0') {
        snprintf(text, capacity, "planning it ended with exit code %d", code);
    }
    return ending;
}

/* The job fails: planned again it would take as long. */
static void fail_late(const struct supervisor *supervisor, struct job_record *next)
{
    next->state = JOB_STATE_FAILED;
    next->exit_code = status_exit_code(STATUS_INTERRUPTED);
    job_reason_set(next, JOB_REASON_TIME_LIMIT, "planning it took more than %.3g s (daemon.plan_timeout)",
                   supervisor->options.plan_s);
}

static void settle(const struct planning *planning)
{
    struct supervisor *supervisor = planning->supervisor;
    const struct job_record *record = jobs_get(supervisor->jobs, planning->id);
    if (planning->is_stale || record->state != JOB_STATE_QUEUED) {
        return;
    }
    struct job_record next = *record;
    bool is_good = tool_exit_code(planning->tool) == 0;
    int32_t n_part = 0;
    next.memory = is_good ? memory_of(planning, &n_part, &next) : -1;
    next.plan.n_part = next.attempt == 0 && n_part > 0 ? n_part : next.plan.n_part; /* later plans are told */
    next.queued.planning_need = is_good ? 0 : need_of(planning);
    if (next.queued.planning_need > 0 && !planning->tool->is_late) {
        job_reason_set(&next, JOB_REASON_WAITING_MEMORY, "%s", ""); /* the queue says how much, and of how much */
    } else if (next.memory < 0 && planning->tool->is_late) {
        fail_late(supervisor, &next);
    } else if (next.memory >= 0) {
        job_reason_set(&next, JOB_REASON_WAITING_TURN, "%s", "");
    } else {
        char text[JOB_REASON_BYTES];
        const struct ending ending = ending_of(planning, text, sizeof text);
        outcome_decide(&ending, &supervisor->options.backoff, job_clock_s(), &next);
    }
    if (jobs_change(supervisor->jobs, &next) != STATUS_OK) { /* the next pass plans it again */
        log_job_warn(next.id, next.attempt, "%s", status_reason());
    }
}

static void planning_end(struct planning *planning)
{
    const struct cgroup_plan group = cgroup_of_planning(planning->supervisor, planning->id);
    if (group.groups->kind != JOB_CGROUPS_NONE) {
        (void)job_cgroup_kill(group.groups, group.name); /* METIS is its child */
        (void)job_cgroup_remove(group.groups,
                                group.name); /* else it serves the next planning, or the next daemon removes it */
    }
    struct planning **link = &planning->supervisor->planning;
    while (*link != planning) {
        link = &(*link)->next;
    }
    *link = planning->next;
    jobs_plans(planning->supervisor->jobs, planning->id, 0);
    free(planning);
}

struct planning *planning_find(const struct supervisor *supervisor, int64_t id)
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

static void ended(void *context, struct tool *tool)
{
    struct planning *planning = context;
    struct supervisor *supervisor = planning->supervisor;
    settle(planning);
    supervisor_settled(supervisor);
    tool_close(tool);
    planning_end(planning);
    supervisor_schedule(supervisor);
}

enum status planning_begin(struct supervisor *supervisor, const struct job_record *record, int64_t n_most)
{
    struct command_line line = {0};
    if (!has_room(supervisor, record)) {
        return STATUS_OK;
    }
    struct planning *planning = memory_alloc(1, sizeof *planning);
    *planning = (struct planning){.supervisor = supervisor, .id = record->id, .uid = record->uid, .n_most = n_most};
    enum status status = jobs_folder_make(supervisor->jobs, record->id);
    if (status == STATUS_OK) {
        status = command_line_plan(supervisor->jobs, record, n_most, &line);
    }
    if (status == STATUS_OK) {
        const struct cgroup_plan group = cgroup_of_planning(supervisor, record->id);
        const struct process_options options = {.made = cgroup_begin,
                                                .context = &group,
                                                .argv = line.arguments.text,
                                                .uid = record->uid,
                                                .gid = record->gid,
                                                .pass_environment = supervisor->options.pass_environment,
                                                .gpus = "", /* a plan opens none */
                                                .folder = line.folder,
                                                .input = line.config};
        status = tool_start(supervisor->loop, &options, supervisor->options.plan_s, ended, planning, &planning->tool);
    }
    command_line_release(&line);
    if (status != STATUS_OK) {
        free(planning);
        return status;
    }
    planning->next = supervisor->planning;
    supervisor->planning = planning;
    jobs_plans(supervisor->jobs, planning->id, n_most);
    tool_go(planning->tool);
    return STATUS_OK;
}

void planning_stop(struct planning *planning)
{
    if (planning == NULL) {
        return;
    }
    planning->is_stale = true;
    if (planning->supervisor->is_closing) { /* the loop will not report its end */
        tool_abandon(planning->tool);
        planning_end(planning);
    } else {
        tool_kill(planning->tool);
    }
}
