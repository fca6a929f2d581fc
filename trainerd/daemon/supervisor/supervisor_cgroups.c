/* Control groups of attempts and plannings: their memory, their processes at the end, and what they say of it. */
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "trainerd/daemon/supervisor/supervisor_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define EMPTY_MS                                                                                                     \
    5000 /* a group whose processes are all killed is empty by then, but for a kernel that holds them up */

/* A plan is within a tenth of what workers take; what a process takes besides is counted a second time, for pages of
 * files and of the kernel. A job with GPUs has no limit: their driver takes memory of the host that no plan knows. */
static int64_t limit_of(const struct job_record *record)
{
#if defined(__SANITIZE_ADDRESS__)
    (void)record;
    return 0; /* shadow memory is in no plan */
#else
    if (record->memory <= 0 || record->n_gpu > 0) {
        return 0;
    }
    int64_t besides = ((int64_t)record->n_worker + 1) * MEMORY_PROCESS_FLOOR;
    bool is_huge = record->memory > INT64_MAX - record->memory / 8 - besides;
    return is_huge ? 0 : record->memory + record->memory / 8 + besides;
#endif
}

struct cgroup_plan cgroup_of_attempt(const struct supervisor *supervisor, const struct job_record *record)
{
    struct cgroup_plan plan = {
        .groups = &supervisor->options.groups, .memory = limit_of(record), .n_slot = record->n_slot};
    job_cgroup_name(plan.groups, record->id, record->attempt + 1, plan.name);
    return plan;
}

struct cgroup_plan cgroup_of_planning(const struct supervisor *supervisor, int64_t job)
{
    struct cgroup_plan plan = {.groups = &supervisor->options.groups, .n_slot = 1};
#if !defined(__SANITIZE_ADDRESS__)
    plan.memory = supervisor->options.capacity.memory;
#endif
    job_cgroup_name(plan.groups, job, JOB_CGROUPS_PLAN, plan.name);
    return plan;
}

enum status cgroup_begin(const void *plan, pid_t pid)
{
    const struct cgroup_plan *group = plan;
    return group->groups->kind == JOB_CGROUPS_NONE
               ? STATUS_OK
               : job_cgroup_begin(group->groups, group->name, group->memory, group->n_slot, pid);
}

static void name_of(const struct attempt *attempt, char out[JOB_CGROUPS_NAME_BYTES])
{
    job_cgroup_name(&attempt->supervisor->options.groups, attempt->id, attempt_number(attempt), out);
}

bool cgroup_has_rest(struct attempt *attempt)
{
    char name[JOB_CGROUPS_NAME_BYTES];
    const struct job_cgroups *groups = &attempt->supervisor->options.groups;
    if (groups->kind == JOB_CGROUPS_NONE) {
        return false;
    }
    name_of(attempt, name);
    bool has_any = job_cgroup_kill(groups, name);
    if (job_cgroup_remove(groups, name)) {
        return false;
    }
    attempt->death.rest_since_ms = attempt->death.rest_since_ms != 0 ? attempt->death.rest_since_ms : clock_ms();
    if (clock_ms() - attempt->death.rest_since_ms < EMPTY_MS || has_any) {
        return true;
    }
    log_job_warn(attempt->id, attempt_number(attempt),
                 "its control group %s is not empty; the next daemon looks again", name);
    return false;
}

void cgroup_note_end(struct attempt *attempt)
{
    char name[JOB_CGROUPS_NAME_BYTES];
    const struct job_cgroups *groups = &attempt->supervisor->options.groups;
    name_of(attempt, name);
    attempt->death.n_oom_kill = groups->kind != JOB_CGROUPS_NONE ? job_cgroup_oom_kills(groups, name) : 0;
    attempt->death.memory_limit = groups->kind != JOB_CGROUPS_NONE ? job_cgroup_limit(groups, name) : INT64_MAX;
}

void cgroup_explain(const struct attempt *attempt, const struct job_record *record, char *text, size_t capacity)
{
    char name[JOB_CGROUPS_NAME_BYTES];
    size_t n = strlen(text);
    name_of(attempt, name);
    snprintf(text + n, capacity - n, "%sits control group %s may have %" PRId64 " bytes, as its plan is %" PRId64,
             n > 0 ? "; " : "", name, attempt->death.memory_limit, record->memory);
}

static bool is_used(const void *context, int64_t job, int32_t attempt)
{
    const struct attempt *one = attempt_find(context, job);
    return one != NULL && attempt_number(one) == attempt;
}

void cgroups_sweep(struct supervisor *supervisor)
{
    job_cgroups_sweep(&supervisor->options.groups, is_used, supervisor);
}
