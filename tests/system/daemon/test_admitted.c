/* What is admitted: a job's text, which runs whatever lies in the job's folder meanwhile, and the memory that the job
 * and its planning take. */
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/system/daemon/daemon_case.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(admitted, .init = folder_make, .fini = daemon_case_end, .timeout = 900);

#define LINES(epochs) "[workers]\ncount = 1\nthreads = 1\n[train]\nepochs = " #epochs "\ncheckpoint_every = 50\n"

static void edit(int64_t id)
{
    char name[64];
    snprintf(name, sizeof name, "state/jobs/%lld/job.toml", (long long)id);
    folder_write(name, "[dataset]\ngenerator = \"karate\"\n" LINES(7));
}

Test(admitted, a_job_file_that_is_edited_while_its_job_waits_changes_nothing)
{
    daemon_options.capacity.n_slot = 1;
    daemon_start();
    int64_t first = daemon_submit(&(struct daemon_job){.lines = LINES(100000000)});
    daemon_await_epoch(first, 1, 1);
    int64_t second = daemon_submit(&(struct daemon_job){.lines = LINES(20)});
    while (daemon_job(second)->memory < 0) { /* it is planned: its folder is made */
        cr_assert(daemon_hear());
    }
    edit(second);
    cr_assert_eq(daemon_command('c', first, 0), STATUS_OK, "%s", daemon_reason);
    cr_assert_eq(daemon_await_end(second), JOB_STATE_SUCCEEDED, "%s", daemon_job(second)->reason_text);
    cr_assert_eq(daemon_job(second)->progress.epoch, 20);
}

Test(admitted, events_that_were_there_before_an_attempt_are_not_believed)
{
    daemon_options.capacity.n_slot = 1;
    daemon_start();
    int64_t first = daemon_submit(&(struct daemon_job){.lines = LINES(100000000)});
    daemon_await_epoch(first, 1, 1);
    int64_t second = daemon_submit(&(struct daemon_job){.lines = LINES(20)});
    while (daemon_job(second)->memory < 0) {
        cr_assert(daemon_hear());
    }
    folder_write("state/jobs/2/events.jsonl",
                 "{\"attempt\":1,\"event\":\"begin\"}\n{\"attempt\":1,\"event\":\"state\",\"state\":\"RUNNING\"}\n"
                 "{\"attempt\":1,\"event\":\"end\",\"exit_code\":65,\"reason\":\"planted\"}\n{\"half");
    cr_assert_eq(daemon_command('c', first, 0), STATUS_OK, "%s", daemon_reason);
    cr_assert_eq(daemon_await_end(second), JOB_STATE_SUCCEEDED, "%s", daemon_job(second)->reason_text);
    cr_assert_eq(daemon_job(second)->progress.epoch, 20);
}

Test(admitted, a_job_file_that_is_edited_between_two_attempts_changes_nothing)
{
    setenv("TRAINERD_FAULTS", "coordinator.epoch=stop@101/1", 1);
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = LINES(150), .max_restarts = 1});
    daemon_await_stopped(id, 1);
    edit(id);
    cr_assert(daemon_kill_coordinator(id));
    cr_assert_eq(daemon_await_end(id), JOB_STATE_SUCCEEDED, "%s", daemon_job(id)->reason_text);
    cr_assert_eq(daemon_job(id)->attempt, 2);
    cr_assert_eq(daemon_job(id)->progress.epoch, 150);
}

#if !defined(__SANITIZE_ADDRESS__) /* which takes memory of its own: the release build has these tests */

#define SBM "generator = \"sbm\"\nnodes = 30000\ndegree = 10\nfeatures = 8"

Test(admitted, planning_that_takes_more_than_it_was_given_says_so_and_begins_again_with_as_much)
{
    daemon_options.capacity.memory = INT64_C(256) << 20;
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = LINES(1), .graph = SBM});
    while (daemon_job(id)->queued.planning_need == 0) {
        cr_assert_lt(daemon_job(id)->memory, 0, "it was planned within 32 MiB");
        cr_assert(daemon_hear());
    }
    int64_t need = daemon_job(id)->queued.planning_need;
    cr_assert_gt(need, 32 << 20);
    cr_assert_eq(daemon_await_end(id), JOB_STATE_SUCCEEDED, "%s", daemon_job(id)->reason_text);
    cr_assert_eq(daemon_job(id)->attempt, 1);
}

Test(admitted, a_job_whose_planning_takes_more_than_all_memory_fails_with_both_numbers)
{
    daemon_options.capacity.memory = INT64_C(28) << 20;
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = LINES(1), .graph = SBM});
    cr_assert_eq(daemon_await_end(id), JOB_STATE_FAILED, "%s", daemon_job(id)->reason_text);
    cr_assert_eq(daemon_job(id)->reason, JOB_REASON_OUT_OF_MEMORY);
    cr_assert_eq(daemon_job(id)->exit_code, 71);
    expect_words(daemon_job(id)->reason_text, "cutting its graph included, the daemon has 28.0 MiB (daemon.memory)");
}

/* A number of a plan. */
static int64_t planned(const char *options, const char *key)
{
    char program[PATH_MAX], command[3 * PATH_MAX], text[1 << 16];
    program_find("trainer-coordinator", program, sizeof program);
    snprintf(command, sizeof command, "cd '%s' && '%s' --config big.toml --plan --json %s >plan.json 2>plan.err",
             folder, program, options);
    (void)!system(command);
    folder_read("plan.json", text, sizeof text);
    json_t *plan = json_loads(text, 0, NULL);
    int64_t number = json_integer_value(json_object_get(plan, key));
    cr_assert_gt(number, 0, "%s", text);
    json_decref(plan);
    return number;
}

/* Returns the planned bytes of cutting a graph of so many nodes, as foreseen. */
static int64_t metis_bytes_planned(int n_node)
{
    char text[256];
    snprintf(
        text, sizeof text,
        "[dataset]\ngenerator = \"sbm\"\nnodes = %d\ndegree = 20\nfeatures = 8\n[partition]\nparts = 8\n"
        "cache = \"off\"\n[train]\nprune = \"never\"\n[model]\nhidden = 4\n", /* training takes less than METIS */
        n_node);
    folder_write("big.toml", text);
    int64_t block = planned("--set partition.method=block", "partition_bytes");
    int64_t metis = planned("", "partition_bytes"), foreseen = planned("--plan-most 1", "planning_bytes");
    cr_assert_gt(metis, 2 * block, "%lld %lld", (long long)metis, (long long)block);
    cr_assert(foreseen >= metis && foreseen < metis + metis / 2, "%lld, taken %lld", (long long)foreseen,
              (long long)metis);
    return metis;
}

Test(admitted, what_metis_takes_is_in_the_plan_and_was_foreseen)
{
    int64_t whole = metis_bytes_planned(25000);
    cr_assert_gt(whole, planned("", "machine_bytes"), "more than training");
    cr_assert_lt(metis_bytes_planned(30000), whole, "a graph of more than a million edges is coarsened before");
}

#endif
