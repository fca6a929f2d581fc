/* What launchers fill in of a job, by the environment of this process alone. tests/system/fleet has whole jobs. */
#include "trainerd/coordinator/machines/launcher.h"

#include "protocol/base/memory.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define GRAPH "[dataset]\ngenerator = \"karate\"\n"
#define SLURM GRAPH "[workers]\nlauncher = \"slurm\"\n"

static struct job job_of(const char *text)
{
    struct job job;
    cr_assert_eq(job_load_text(text, strlen(text), "job.toml", NULL, 0, &job), STATUS_OK, "%s", status_reason());
    return job;
}

static void allocate(const char *variable, const char *value)
{
    cr_assert_eq(setenv("SLURM_JOB_ID", "7", 1) + setenv("SLURM_NTASKS", "3", 1) + setenv(variable, value, 1), 0);
}

Test(launcher, a_job_without_a_count_has_one_worker_or_as_many_as_the_launcher_says)
{
    cr_expect_eq(job_of(GRAPH).workers.count, 1);
    cr_expect_eq(job_of(GRAPH "[workers]\nlauncher = \"manual\"\ntoken_file = \"x\"\n").workers.count, 1);
    struct job job = job_of(SLURM);
    cr_expect_eq(job.workers.count, 0);
    allocate("SLURM_CPUS_PER_TASK", "5");
    cr_assert_eq(launcher_settle(true, &job), STATUS_OK, "%s", status_reason());
    cr_expect(job.workers.count == 3 && job.workers.threads == 5);
}

Test(launcher, threads_that_are_given_stay)
{
    struct job job = job_of(SLURM "threads = 2\ncount = 3\n");
    allocate("SLURM_CPUS_PER_TASK", "5");
    cr_assert_eq(launcher_settle(true, &job), STATUS_OK, "%s", status_reason());
    cr_expect_eq(job.workers.threads, 2);
}

Test(launcher, the_limit_of_memory_is_the_tasks_less_a_process_unless_one_is_given_or_it_is_a_gpus)
{
    struct job job = job_of(SLURM), given = job_of(SLURM "[memory]\nlimit = 77\n"), gpu = job_of(SLURM),
               local = job_of(GRAPH);
    gpu.workers.device = JOB_DEVICE_CUDA;
    allocate("SLURM_MEM_PER_CPU", "100");
    cr_assert_eq(launcher_limit(&job) | launcher_limit(&given) | launcher_limit(&gpu) | launcher_limit(&local),
                 STATUS_OK);
    cr_expect_eq(job.memory.limit, (100 << 20) - MEMORY_PROCESS_FLOOR);
    cr_expect_eq(given.memory.limit, 77);
    cr_expect_eq(gpu.memory.limit, 0);
    cr_expect_eq(local.memory.limit, 0);
    allocate("SLURM_MEM_PER_CPU", "12");
    job.memory.limit = 0;
    cr_expect_eq(launcher_limit(&job), STATUS_NOMEM);
}

Test(launcher, gpus_of_this_machine_are_for_local_workers_and_for_allocations_that_have_some)
{
    struct job local = job_of(GRAPH), manual = local, slurm = job_of(SLURM);
    manual.workers.launcher = JOB_LAUNCHER_MANUAL;
    cr_expect(launcher_shares_gpus(&local));
    cr_expect_not(launcher_shares_gpus(&manual));
    cr_expect_not(launcher_shares_gpus(&slurm));
    allocate("SLURM_GPUS_ON_NODE", "0");
    cr_expect_not(launcher_shares_gpus(&slurm));
    allocate("SLURM_GPUS_ON_NODE", "2");
    cr_expect(launcher_shares_gpus(&slurm));
}
