/* Jobs with workers.launcher = "slurm", and an srun of the test's folder in place of Slurm's: it starts the tasks on this machine as two
 * nodes, passes its standard input on to all, and answers TERM with KILL to its tasks. scripts/check-slurm has a real Slurm: deaths and signals. */
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/machines.h"
#include "tests/support/process/results.h"
#include "tests/support/process/slurm_fake.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Also notes its arguments and, of a task, what others can see of it. */
static const char srun[] = "#!/bin/bash\n"
                           "printf '%s\\n' \"$@\" >> seen-arguments\n"
                           "for n in \"$@\"; do case $n in --ntasks=*) n_task=${n#*=} ;; esac; done\n"
                           "while [[ $1 == --* ]]; do shift; done\n"
                           "read -r token\n"
                           "printf %s \"$token\" > seen-token\n"
                           "env > seen-environment\n" SLURM_FAKE_TASKS("node$((task / 2))");

#define ALLOCATION "PATH=$PWD:$PATH SLURM_JOB_ID=7 SLURM_NTASKS=3 SLURM_TASKS_PER_NODE=2,1"
#define HERE "--set workers.listen=127.0.0.1:0 "

static void srun_make(void)
{
    folder_make();
    folder_write("srun", srun);
    cr_assert_eq(chmod(folder_path("srun"), 0700), 0);
    folder_write("job.toml",
                 "[dataset]\ngenerator = \"sbm\"\nnodes = 600\ndegree = 8\nfeatures = 12\n[partition]\nparts = 4\n"
                 "cache = \"off\"\n[model]\nkind = \"sage\"\nhidden = 8\n[train]\nepochs = 12\ncheckpoint_every = 2\n"
                 "[workers]\nthreads = 1\nlauncher = \"slurm\"\n");
}

TestSuite(slurm, .init = srun_make, .fini = folder_remove, .timeout = 900);

static void train_here(void)
{
    job_run("--set workers.launcher=local --set workers.count=2 --set output.dir=here");
}

static double number_of(const char *section, const char *key)
{
    json_t *result = results_of("slurm");
    double number = results_number(json_object_get(json_object_get(result, "job"), section), key);
    json_decref(result);
    return number;
}

Test(slurm, tasks_of_an_allocation_train_the_same_bits_as_workers_of_this_machine)
{
    train_here();
    job_run_expect(0, "worker 2 joined: pid ", ALLOCATION, HERE "--set output.dir=slurm");
    cr_expect_not_null(strstr(job_run_log, " on node1, "), "%s", job_run_log);
    results_expect_same(folder_path("here"), folder_path("slurm"), false);
}

Test(slurm, the_token_reaches_workers_on_standard_input_and_is_in_no_argument_and_no_environment)
{
    char token[256], seen[1 << 15];
    job_run_expect(0, "", ALLOCATION, HERE "--set output.dir=slurm");
    folder_read("seen-token", token, sizeof token);
    cr_assert_eq(strlen(token), 64u, "%s", token);
    folder_read("seen-arguments", seen, sizeof seen);
    cr_expect_null(strstr(seen, token), "%s", seen);
    cr_expect_not_null(strstr(seen, "--token-fd\n0\n"), "%s", seen);
    folder_read("seen-environment", seen, sizeof seen);
    cr_expect_null(strstr(seen, token), "%s", seen);
}

Test(slurm, count_threads_and_memory_are_those_of_the_allocation)
{
    char seen[1 << 13];
    job_run_expect(0, "", ALLOCATION " SLURM_CPUS_PER_TASK=2 SLURM_MEM_PER_NODE=1000",
                   HERE "--set workers.threads=0 --set output.dir=slurm");
    cr_expect_eq(number_of("workers", "count"), 3.0);
    cr_expect_eq(number_of("workers", "threads"), 2.0);
    cr_expect_eq(number_of("memory", "limit"), (500.0 - 12.0) * (1 << 20));
    folder_read("seen-arguments", seen, sizeof seen);
    cr_expect_not_null(strstr(seen, "--ntasks=3\n--cpus-per-task=2\n"), "%s", seen);
    job_run_expect(71, "memory.limit is 1048576", ALLOCATION " SLURM_MEM_PER_CPU=13",
                   HERE "--set dataset.nodes=20000");
    job_run_expect(71, "Slurm gives a task 10485760 bytes", ALLOCATION " SLURM_MEM_PER_CPU=10", HERE);
}

Test(slurm, a_job_that_does_not_fit_the_allocation_is_refused_with_both_numbers)
{
    job_run_expect(78, "workers.count = 2, and Slurm's allocation has 3 tasks", ALLOCATION, "--set workers.count=2");
    job_run_expect(
        78, "the tasks of Slurm's allocation are more than partition.parts = 2, and each worker needs a part: 3",
        ALLOCATION, "--set partition.parts=2");
    job_run_expect(78, "this is not inside one (no SLURM_JOB_ID)", "", "");
    job_run_expect(78, "a plan takes workers.count instead", "", "--plan");
    job_run_expect(0, "", "", "--plan --set workers.count=2");
    job_run_expect(0, "from 2", ALLOCATION, "--plan");
}

Test(slurm, an_srun_that_is_missing_or_fails_ends_the_job_with_its_name)
{
    job_run_expect(69, "cannot start the workers, 'srun'", "PATH=/nowhere SLURM_JOB_ID=7 SLURM_NTASKS=1", HERE);
    folder_write("srun", "#!/bin/bash\necho 'srun: error: no' >&2\nexit 1\n");
    job_run_expect(69, "srun, which runs the workers, ended with exit code 1", ALLOCATION, HERE);
}

static void expect_usage(const char *part, const char *option, const char *value)
{
    char worker[PATH_MAX];
    static struct process process;
    program_find("trainer-worker", worker, sizeof worker);
    process_start(&process, NULL, folder, NULL,
                  (const char *const[]){worker, "--join", "127.0.0.1:1", "--token-fd", "0", option, value, NULL});
    cr_assert_eq(process_finish(&process), 2, "%s", process.words);
    cr_assert_not_null(strstr(process.words, part), "'%s' is not in: %s", part, process.words);
}

Test(slurm, a_worker_that_is_no_task_or_whose_rank_is_no_number_says_so)
{
    expect_usage("there is no SLURM_PROCID in the environment", "--slurm", NULL);
    expect_usage("--rank is '1.5', expected a whole number from 0 to 65535", "--rank", "1.5");
    expect_usage("--rank is '-1', expected a number from 0 to 65535", "--rank", "-1");
    cr_assert_eq(setenv("SLURM_PROCID", "one", 1), 0);
    expect_usage("SLURM_PROCID is 'one'", "--slurm", NULL);
}
