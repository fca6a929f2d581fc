/* Jobs of a daemon that run in Slurm, and commands of the test's folder in place of Slurm's: submitted, run,
 * cancelled, found again. Deaths of the daemon at each step are at the end. scripts/check-slurm has a real Slurm. */
#include "protocol/base/clock.h"
#include "tests/support/process/command.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "tests/support/process/results.h"
#include "tests/support/process/slurm_fake.h"
#include "tests/system/daemon/daemon_case.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void begin(void)
{
    folder_make();
    slurm_fake_make();
    daemon_jobs.in_slurm = daemon_options.capacity.is_elsewhere = true;
    daemon_options.capacity.n_slot = 1;
    daemon_options.slurm_poll_s = 0.1;
    daemon_options.slurm_s = 30.0;
    daemon_options.slurm_options = "--partition=all";
}

static void end(void)
{
    slurm_fake_end();
    folder_remove();
}

TestSuite(slurm_runner, .init = begin, .fini = end, .timeout = 180);

#define JOB(epochs, output)                                                                                          \
    "parts = 4\n[model]\nhidden = 8\ndropout = 0.5\n[train]\nepochs = " epochs "\ncheckpoint_every = 4\n"            \
    "[workers]\ncount = 2\nthreads = 1\nlisten = \"127.0.0.1:0\"\n[output]\ndir = \"" output "\"\n"
static const char job_lines[] = JOB("12", "two"), long_lines[] = JOB("1000000", "long");

static void expect_success(int64_t id, int32_t n_attempt)
{
    enum job_state state = daemon_await_end(id);
    cr_assert_eq(state, JOB_STATE_SUCCEEDED, "%s", daemon_job(id)->reason_text);
    cr_assert_eq(daemon_job(id)->attempt, n_attempt);
    results_expect_same(folder_path("plain"), folder_path("two"), true);
    daemon_end();
    daemon_expect_nobody();
}

static void await_reason(int64_t id, enum job_reason reason, const char *words)
{
    while (daemon_job(id)->reason != reason || strstr(daemon_job(id)->reason_text, words) == NULL) {
        cr_assert(daemon_hear(), "%s: %s", job_reason_name(daemon_job(id)->reason), daemon_job(id)->reason_text);
    }
}

static void expect_line(int number, const char *file, const char *line)
{
    char text[1 << 14], whole[256];
    slurm_fake_read(number, file, text, sizeof text);
    snprintf(whole, sizeof whole, "%s\n", line);
    cr_assert_not_null(strstr(text, whole), "%s: %s", file, text);
}

Test(slurm_runner, a_job_runs_as_a_job_of_slurms_to_the_bits_of_local_workers)
{
    daemon_run_plain(job_lines);
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = job_lines, .time_limit_s = 600, .priority = -3});
    daemon_await(id, JOB_STATE_SUBMITTED);
    expect_success(id, 1);
    cr_assert_eq(slurm_fake_n_job(), 1);
    static const char *const expected[] = {"--partition=all", "--hold",       "--no-requeue",
                                           "--job-name=job",  "--ntasks=2",   "--cpus-per-task=1",
                                           "--nice=3",        "--export=ALL", "--time=12"};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        expect_line(1, "arguments", expected[i]);
    }
    cr_assert_eq(daemon_job(id)->run.slurm, 0);
}

Test(slurm_runner, jobs_take_nothing_of_this_machine_and_wait_in_slurm_with_its_number_and_reason)
{
    slurm_fake_set("full", true);
    daemon_start();
    int64_t a = daemon_submit(&(struct daemon_job){.lines = long_lines});
    int64_t b = daemon_submit(
        &(struct daemon_job){.lines = JOB("2", "b")}); /* more than the one slot that there is */
    await_reason(a, JOB_REASON_WAITING_SLURM, " is PENDING (Resources)");
    await_reason(b, JOB_REASON_WAITING_SLURM, " is PENDING (Resources)");
    cr_assert(daemon_job(a)->run.slurm != 0 && daemon_job(b)->run.slurm != 0 &&
              daemon_job(a)->run.slurm != daemon_job(b)->run.slurm);
    cr_assert_eq(daemon_job(b)->state, JOB_STATE_SUBMITTED);
    cr_assert_eq(daemon_command('c', a, 0), STATUS_OK);
    cr_assert_eq(daemon_await_end(a), JOB_STATE_CANCELLED);
    slurm_fake_set("full", false);
    slurm_fake_run();
    cr_assert_eq(daemon_await_end(b), JOB_STATE_SUCCEEDED, "%s", daemon_job(b)->reason_text);
}

Test(slurm_runner, what_slurm_interrupts_and_a_lost_node_are_the_next_attempts_to_the_same_bits)
{
    daemon_run_plain(job_lines);
    setenv("TRAINERD_FAULTS", "coordinator.epoch=stop@7/1,coordinator.epoch=kill@3/2", 1);
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = job_lines, .max_restarts = 5});
    while (!daemon_job(id)->run.checkpointed) {
        cr_assert(daemon_hear());
    }
    slurm_fake_fail(1, "NODE_FAIL");
    expect_success(id, 3);
    cr_assert_eq(slurm_fake_n_job(), 3);
    cr_assert_eq(daemon_job(id)->run.n_restart, 2);
}

Test(slurm_runner, a_job_that_sbatch_refuses_is_tried_again_as_often_as_it_may_be)
{
    slurm_fake_set("refuse", true);
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = job_lines, .max_restarts = 1});
    cr_assert_eq(daemon_await_end(id), JOB_STATE_FAILED);
    cr_assert_eq(daemon_job(id)->reason, JOB_REASON_SLURM_REFUSED);
    cr_assert_eq(daemon_job(id)->attempt, 2);
    cr_assert_not_null(
        strstr(daemon_job(id)->reason_text, "Batch job submission failed: Invalid account; no restarts"), "%s",
        daemon_job(id)->reason_text);
}

Test(slurm_runner, an_attempt_that_slurm_has_lost_and_that_computes_on_is_waited_for)
{
    char log[1 << 14] = "";
    daemon_run_plain(job_lines);
    setenv("TRAINERD_FAULTS", "coordinator.epoch=stop@7/1", 1);
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = job_lines, .max_restarts = 1});
    daemon_await(id, JOB_STATE_RUNNING);
    slurm_fake_show(1, "NODE_FAIL");
    for (double since = clock_s(); strstr(log, "/events.jsonl' is held: it is waited") == NULL;) {
        cr_assert(patience_left(since), "%s", log);
        daemon_listen(10);
        folder_read("state/jobs/1/log", log, sizeof log);
    }
    slurm_fake_continue(1);
    expect_success(id, 2);
    folder_read("state/jobs/1/log", log, sizeof log);
    expect_words(log, "an earlier attempt has left its results");
}

static void cancel(int64_t id)
{
    cr_assert_eq(daemon_command('c', id, 0), STATUS_OK, "%s", daemon_reason);
    cr_assert_eq(daemon_await_end(id), JOB_STATE_CANCELLED, "%s", daemon_job(id)->reason_text);
}

static void start_daemon(bool in_slurm)
{
    daemon_jobs.in_slurm = daemon_options.capacity.is_elsewhere = in_slurm;
    daemon_start();
}

Test(slurm_runner, a_job_goes_on_from_its_checkpoint_in_slurm_and_back_on_this_machine)
{
    daemon_options.capacity.n_slot = 2;
    start_daemon(false);
    int64_t id = daemon_submit(&(struct daemon_job){.lines = long_lines});
    daemon_await_epoch(id, 1, 4);
    cancel(id);
    for (int32_t attempt = 2; attempt < 4; attempt++) {
        daemon_end();
        start_daemon(attempt == 2);
        int64_t epoch = daemon_job(id)->progress.epoch;
        cr_assert_eq(daemon_command('r', id, 0), STATUS_OK, "%s", daemon_reason);
        daemon_await_epoch(id, attempt, epoch + 1);
        cr_assert_eq(slurm_fake_n_job(), 1);
        cancel(id);
    }
    daemon_end();
    daemon_expect_nobody();
}

Test(slurm_runner, a_time_limit_counts_from_the_coordinators_beginning)
{
    slurm_fake_set("full", true);
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = long_lines, .time_limit_s = 1.0});
    await_reason(id, JOB_REASON_WAITING_SLURM, "(Resources)");
    cr_assert_eq(daemon_job(id)->run.attempt_at, 0.0);
    slurm_fake_set("full", false);
    slurm_fake_run();
    cr_assert_eq(daemon_await_end(id), JOB_STATE_FAILED);
    cr_assert_eq(daemon_job(id)->reason, JOB_REASON_TIME_LIMIT, "%s", daemon_job(id)->reason_text);
    cr_assert(daemon_job(id)->run.checkpointed || daemon_job(id)->progress.epoch == 0);
}

Test(slurm_runner, a_slurm_that_is_silent_from_the_beginning_costs_no_restart)
{
    daemon_run_plain(job_lines);
    slurm_fake_set("silent", true);
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = job_lines});
    await_reason(id, JOB_REASON_SLURM_SILENT, "Unable to contact slurm controller");
    cr_assert_eq(daemon_job(id)->state, JOB_STATE_SUBMITTED);
    slurm_fake_set("silent", false);
    expect_success(id, 2);
    cr_assert_eq(daemon_job(id)->run.n_restart, 0);
}

Test(slurm_runner, a_job_that_sbatch_made_and_did_not_say_is_found_by_its_comment)
{
    daemon_run_plain(job_lines);
    slurm_fake_set("lose", true);
    daemon_start();
    expect_success(daemon_submit(&(struct daemon_job){.lines = job_lines}), 1);
    cr_assert_eq(slurm_fake_n_job(), 1);
}

Test(slurm_runner, a_job_that_slurm_has_forgotten_is_gone_after_two_looks)
{
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = long_lines});
    daemon_await(id, JOB_STATE_RUNNING);
    slurm_fake_set("forget", true);
    cr_assert_eq(daemon_await_end(id), JOB_STATE_FAILED);
    cr_assert_eq(daemon_job(id)->reason, JOB_REASON_COORDINATOR_LOST);
    expect_words(daemon_job(id)->reason_text, "Slurm's job 1 is gone");
}

Test(slurm_runner, the_workers_of_its_jobs_are_slurms)
{
    int64_t id;
    daemon_start();
    enum status status = daemon_try_submit(
        &(struct daemon_job){
            .lines = "[workers]\nlauncher = \"manual\"\ncount = 2\nlisten = \"a:1\"\ntoken_file = \"t\"\n"},
        &id);
    cr_assert_eq(status, STATUS_CONFIG);
    expect_words(daemon_reason, "workers.launcher = \"manual\"");
    expect_words(daemon_reason, "tasks of Slurm");
}

#define SERVE "--listen", "unix:socket", "--state", "state", "--daemon-config", "trainerd.toml"

#define start(...) command_start("trainerd", __VA_ARGS__)

Test(slurm_runner, a_daemon_that_cannot_use_slurm_does_not_start_and_says_why)
{
    folder_write("trainerd.toml", "[daemon]\nrunner = \"slurn\"\n");
    EXPECT(78, "daemon.runner is 'slurn', expected \"local\" or \"slurm\"", SERVE);
    folder_write("trainerd.toml", "[daemon]\nrunner = \"slurm\"\nslurm_options = \"--requeue\"\n");
    EXPECT(78, "daemon.slurm_options: --requeue is given by the daemon", SERVE);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", getenv("PATH"));
    cr_assert_eq(unlink(folder_path("scontrol")), 0);
    setenv("PATH", folder, 1);
    folder_write("trainerd.toml", "[daemon]\nrunner = \"slurm\"\n");
    EXPECT(78, "jobs run in Slurm (daemon.runner), and there is no scontrol in PATH", SERVE);
    setenv("PATH", path, 1);
    folder_write("trainerd.toml", "[daemon]\nrunner = \"slurm\"\nshared = \"100%\"\n");
    cr_assert_eq(mkdir(folder_path("100%"), 0755), 0);
    EXPECT(73, "expected a path without % and \\, for Slurm", SERVE);
}

Test(slurm_runner, jobs_folders_lie_where_shared_says)
{
    cr_assert_eq(mkdir(folder_path("shared"), 0755), 0);
    daemon_jobs.shared = folder_path("shared");
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = job_lines});
    cr_assert_eq(daemon_await_end(id), JOB_STATE_SUCCEEDED, "%s", daemon_job(id)->reason_text);
    cr_assert(folder_has("shared/jobs/1/events.jsonl") && folder_has("shared/jobs/1/log"));
    cr_assert_not(folder_has("state/jobs/1"));
}

/* The daemon dies at a step, once, and the next one takes over what is there. */
static const struct death {
    const char *point;
    int n_job;         /* of Slurm's, in all */
    int32_t n_attempt; /* an sbatch that was never let go makes the next one */
} deaths[] = {{"gate", 1, 2}, {"sbatch", 1, 1}, {"held", 1, 1}, {"released", 1, 1}};

ParameterizedTestParameters(slurm_runner, a_daemon_that_dies_at_any_step_leaves_one_job_for_each_attempt)
{
    static int index[] = {0, 1, 2, 3};
    return cr_make_param_array(int, index, sizeof deaths / sizeof *deaths);
}

ParameterizedTest(int *index, slurm_runner, a_daemon_that_dies_at_any_step_leaves_one_job_for_each_attempt)
{
    const struct death *death = &deaths[*index];
    char fault[64];
    daemon_run_plain(job_lines);
    snprintf(fault, sizeof fault, "daemon.%s=kill", death->point);
    setenv("TRAINERD_FAULTS", fault, 1);
    daemon_start();
    unsetenv("TRAINERD_FAULTS");
    int64_t id = daemon_submit(&(struct daemon_job){.lines = job_lines});
    double since = clock_s();
    while (!daemon_has_died()) {
        daemon_listen(20);
        cr_assert_lt(clock_s() - since, PATIENCE_S, "%s: it lives", death->point);
    }
    daemon_start();
    expect_success(id, death->n_attempt);
    cr_assert_eq(slurm_fake_n_job(), death->n_job, "%s: %d jobs", death->point, slurm_fake_n_job());
    cr_assert_eq(slurm_fake_n_released(), 1, "%s", death->point);
}

Test(slurm_runner, a_job_that_no_attempt_has_is_cancelled)
{
    char state[64];
    setenv("TRAINERD_FAULTS", "daemon.held=kill", 1);
    daemon_start();
    unsetenv("TRAINERD_FAULTS");
    daemon_submit(&(struct daemon_job){.lines = long_lines});
    double since = clock_s();
    while (!daemon_has_died()) {
        daemon_listen(20);
        cr_assert_lt(clock_s() - since, PATIENCE_S);
    }
    char command[2 * PATH_MAX]; /* a second job for the same attempt */
    snprintf(command, sizeof command,
             "cd '%s' && ./sbatch --comment=\"$(cat jobs.slurm/1/comment)\" < /dev/null > /dev/null", folder);
    cr_assert_eq(system(command), 0);
    daemon_start();
    do {
        cr_assert(patience_left(since));
        daemon_listen(10);
        slurm_fake_read(2, "state", state, sizeof state);
    } while (strcmp(state, "CANCELLED") != 0);
    daemon_await(1, JOB_STATE_RUNNING);
    cr_assert_eq(slurm_fake_n_released(), 1);
}
