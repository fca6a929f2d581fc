#include "trainerd/coordinator/plan.h"

#include <criterion/criterion.h>
#include <string.h>

static struct job job_of(enum job_launcher launcher, int64_t limit)
{
    struct job job;
    job_defaults(&job);
    job.workers.launcher = launcher;
    job.memory.limit = limit;
    return job;
}

Test(plan, workers_that_share_this_machine_are_held_against_its_memory_together)
{
    int64_t half = memory_machine() / 2;
    struct plan_worker workers[3] = {{.total = half}, {.total = half}, {.total = half}};
    struct plan plan = {.n_worker = 2, .worker = workers};
    struct job job = job_of(JOB_LAUNCHER_LOCAL, 0), manual = job_of(JOB_LAUNCHER_MANUAL, 0);
    cr_assert_eq(plan_check_limit(&plan, &job), STATUS_OK);
    plan.n_worker = 3;
    char needs[128];
    snprintf(needs, sizeof needs, "needs %lld bytes by plan, with workers.count = 3 on one machine, more than %s of %lld",
             (long long)(3 * half), memory_machine_name(), (long long)memory_machine());
    cr_assert_eq(plan_check_limit(&plan, &job), STATUS_NOMEM);
    cr_assert_not_null(strstr(status_reason(), needs), "%s", status_reason());
    cr_assert_eq(plan_check_limit(&plan, &manual), STATUS_OK);
}

Test(plan, each_worker_is_held_against_a_limit_that_is_given)
{
    struct plan_worker workers[3] = {{.total = 100}, {.total = 101}, {.total = 7}};
    struct plan plan = {.n_worker = 3, .worker = workers};
    struct job job = job_of(JOB_LAUNCHER_MANUAL, 101);
    cr_assert_eq(plan_check_limit(&plan, &job), STATUS_OK);
    job.memory.limit = 100;
    cr_assert_eq(plan_check_limit(&plan, &job), STATUS_NOMEM);
    cr_assert_not_null(strstr(status_reason(), "worker 1 needs 101 bytes, memory.limit is 100"), "%s", status_reason());
}
