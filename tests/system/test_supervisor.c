/* Jobs under the daemon's supervisor, with real coordinators and workers: what ends, who dies, and what is the same afterwards. */
#include "tests/support/folder.h"
#include "tests/support/patience.h"
#include "tests/support/results.h"
#include "tests/system/daemon_case.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(supervisor, .init = folder_make, .fini = folder_remove, .timeout = 300);

#define TWO_WORKERS "[workers]\ncount = 2\nthreads = 1\n"
#define ENDLESS "[train]\nepochs = 100000000\n"

static int64_t submit(const char *lines)
{
    return daemon_submit(&(struct daemon_job){.lines = lines, .max_restarts = 3});
}

static void expect_end(int64_t id, enum job_state state, enum job_reason reason, int exit_code)
{
    daemon_await_end(id);
    const struct job_record *job = daemon_job(id);
    cr_assert_eq(job->state, state, "%s %s: %s", job_state_name(job->state), job_reason_name(job->reason), job->reason_text);
    cr_assert_eq(job->reason, reason, "%s: %s", job_reason_name(job->reason), job->reason_text);
    cr_assert_eq(job->exit_code, exit_code, "%d", job->exit_code);
    cr_assert_eq(job->pid, 0);
    cr_assert_gt(job->ended_at, 1e9);
}

#define SAID(id, words) cr_assert_not_null(strstr(daemon_job(id)->reason_text, words), "%s", daemon_job(id)->reason_text)

/* The same job run by hand, undisturbed, to folder/plain. */
static void run_plain(const char *lines)
{
    char program[PATH_MAX], command[3 * PATH_MAX], config[1024];
    program_find("trainerd", program, sizeof program);
    snprintf(config, sizeof config, "[dataset]\ngenerator = \"karate\"\n[partition]\ncache = \"off\"\n%s", lines);
    folder_write("plain.toml", config);
    snprintf(command, sizeof command, "cd '%s' && '%s' --config plain.toml --set output.dir=plain 2>plain.err", folder, program);
    cr_assert_eq(system(command), 0);
}

static void expect_same_as_plain(const char *dir)
{
    char plain[PATH_MAX], other[PATH_MAX];
    snprintf(plain, sizeof plain, "%s/plain", folder);
    snprintf(other, sizeof other, "%s/%s", folder, dir);
    results_expect_same(plain, other, false);
}

Test(supervisor, a_job_runs_to_its_end_with_the_bits_of_one_run_by_hand)
{
    static const char lines[] = TWO_WORKERS "[train]\nepochs = 20\n[output]\ndir = \"o\"\n";
    daemon_start();
    int64_t id = submit(lines);
    expect_end(id, JOB_STATE_SUCCEEDED, JOB_REASON_NONE, 0);
    const struct job_record *job = daemon_job(id);
    cr_assert_eq(job->attempt, 1);
    cr_assert_eq(job->progress.epoch, 20);
    cr_assert_gt(job->memory, 0);
    cr_assert_gt(job->started_at, 1e9);
    run_plain(lines);
    expect_same_as_plain("o");
    daemon_end();
    daemon_expect_nobody();
}
