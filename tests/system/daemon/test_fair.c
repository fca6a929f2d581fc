/* Users who share root's daemon: quotas hold their own jobs back and nobody else's, and who has used less goes first.
 */
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/system/daemon/daemon_case.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANN 65534
#define BOB 1

#define ONE_WORKER "[workers]\ncount = 1\nthreads = 1\n"
#define ENDLESS ONE_WORKER "[train]\nepochs = 100000000\n"
#define SHORT ONE_WORKER "[train]\nepochs = 3\n"

static void home_make(const char *name, uid_t uid)
{
    cr_assert_eq(mkdir(folder_path(name), 0700), 0);
    cr_assert_eq(chown(folder_path(name), uid, (gid_t)uid), 0);
}

static void make_all(void)
{
    folder_make();
    if (geteuid() == 0) {
        cr_assert_eq(chmod(folder, 0755), 0);
        home_make("ann", ANN);
        home_make("bob", BOB);
    }
}

TestSuite(fair, .init = make_all, .fini = daemon_case_end, .timeout = 900);

/* A job of that user, or ours (0), with results in the user's folder. */
static int64_t submit(uid_t uid, const char *lines)
{
    static int n;
    char whole[512];
    const char *home = uid == ANN ? "ann/" : uid == BOB ? "bob/" : "";
    snprintf(whole, sizeof whole, "%s[output]\ndir = \"%so%d\"\n", lines, home, n++);
    return daemon_submit(&(struct daemon_job){.lines = whole, .uid = uid});
}

static void await_reason(int64_t id, enum job_reason reason, const char *words)
{
    while (daemon_job(id)->id != id || daemon_job(id)->reason != reason) {
        cr_assert(daemon_hear(), "job %lld is %s, %s: %s", (long long)id, job_state_name(daemon_job(id)->state),
                  job_reason_name(daemon_job(id)->reason), daemon_job(id)->reason_text);
    }
    expect_words(daemon_job(id)->reason_text, words);
}

static void await_plan(int64_t id)
{
    while (daemon_job(id)->id != id || daemon_job(id)->memory < 0) {
        cr_assert(daemon_hear(), "job %lld is not planned: %s", (long long)id, daemon_job(id)->reason_text);
    }
}

static void expect_success(int64_t id)
{
    cr_assert_eq(daemon_await_end(id), JOB_STATE_SUCCEEDED, "job %lld: %s: %s", (long long)id,
                 job_reason_name(daemon_job(id)->reason), daemon_job(id)->reason_text);
}

Test(fair, a_quota_holds_back_its_own_users_job_and_lets_another_users_pass)
{
    need_root();
    daemon_jobs.whole = queue_whole(&daemon_options.capacity);
    daemon_jobs.quota = (struct quota){.n_slot = 1};
    daemon_start();
    int64_t runs = submit(ANN, ENDLESS);
    daemon_await(runs, JOB_STATE_RUNNING);
    int64_t held = submit(ANN, SHORT), other = submit(BOB, SHORT);
    await_reason(held, JOB_REASON_WAITING_QUOTA, "its user has 1 of 1 slots, it needs 1 (daemon.max_slots_per_user)");
    expect_success(other);
    cr_assert_eq(daemon_job(held)->state, JOB_STATE_QUEUED);
    cr_assert_eq(daemon_command('s', held, 2), STATUS_CONFIG);
    cr_assert_str_eq(daemon_reason, "it needs 2 slots, one user's jobs may have 1 (daemon.max_slots_per_user)");
    cr_assert_eq(daemon_command('c', runs, 0), STATUS_OK);
    expect_success(held);
}

Test(fair, a_job_whose_plan_is_above_its_users_quota_of_memory_fails_with_the_key)
{
    need_root();
    daemon_jobs.whole = queue_whole(&daemon_options.capacity);
    daemon_jobs.quota = (struct quota){.memory = 1 << 20};
    daemon_start();
    int64_t id = submit(ANN, SHORT);
    cr_assert_eq(daemon_await_end(id), JOB_STATE_FAILED);
    cr_assert_eq(daemon_job(id)->reason, JOB_REASON_QUOTA, "%s", daemon_job(id)->reason_text);
    cr_assert_eq(daemon_job(id)->exit_code, 78);
    cr_assert_not_null(
        strstr(daemon_job(id)->reason_text, "one user's jobs may have 1.0 (daemon.max_memory_per_user)"), "%s",
        daemon_job(id)->reason_text);
}

Test(fair, who_has_used_less_goes_first_also_after_the_daemon_was_killed)
{
    need_root();
    daemon_options.capacity.n_slot = 1;
    daemon_jobs.whole = queue_whole(&daemon_options.capacity);
    daemon_jobs.half_life_s = 86400;
    daemon_start();
    expect_success(submit(ANN, SHORT));
    daemon_kill();
    daemon_start();
    int64_t runs = submit(0, ENDLESS);
    daemon_await(runs, JOB_STATE_RUNNING);
    int64_t second = submit(ANN, SHORT), first = submit(BOB, SHORT);
    await_plan(second);
    await_plan(first);
    cr_assert_eq(daemon_command('c', runs, 0), STATUS_OK);
    expect_success(second);
    expect_success(first);
    cr_assert_lt(daemon_job(first)->times.started_at, daemon_job(second)->times.started_at,
                 "the job with the lower number went first");
}

/* A job of priority 5, cancelled, is resumed by that command where its user has one that waits, and may have no
 * second; then without that one. */
static void expect_resumed(uid_t uid, char command, int32_t priority)
{
    int64_t id = daemon_submit(&(struct daemon_job){.lines = ENDLESS, .uid = uid, .priority = 5});
    cr_assert_eq(daemon_command('c', id, 0), STATUS_OK, "%s", daemon_reason);
    int64_t other = daemon_submit(&(struct daemon_job){.lines = ENDLESS, .uid = uid});
    cr_assert_eq(daemon_command(command, id, 0), STATUS_PEER);
    cr_assert_str_eq(daemon_reason, "1 of your jobs wait, with 1 more they would be 2: expected at most 1 "
                                    "(daemon.max_queued_per_user)");
    cr_assert_eq(daemon_command('c', other, 0), STATUS_OK, "%s", daemon_reason);
    daemon_await(id, JOB_STATE_CANCELLED);
    cr_assert_eq(daemon_command(command, id, 0), STATUS_OK, "%s", daemon_reason);
    daemon_await(id, JOB_STATE_QUEUED);
    cr_assert_eq(daemon_job(id)->priority, priority);
    cr_assert_eq(daemon_command('c', id, 0), STATUS_OK, "%s", daemon_reason);
}

Test(fair, a_job_that_is_resumed_counts_as_one_that_waits_and_has_no_priority_that_its_user_may_not_ask_for)
{
    daemon_jobs.quota = (struct quota){.n_queued = 1};
    daemon_options.capacity.n_slot = 1;
    daemon_start();
    int64_t runs = submit(0, ENDLESS); /* so that all others wait */
    daemon_await(runs, JOB_STATE_RUNNING);
    expect_resumed(0, 'r', 0);
    expect_resumed(0, 'R', 5);
    if (geteuid() == 0) {
        expect_resumed(ANN, 'r', 0);
        expect_resumed(ANN, 'R', 5); /* as by a user of TCP who acts as ann, with the role admin */
    }
    cr_assert_eq(daemon_command('c', runs, 0), STATUS_OK);
    daemon_await_end(runs);
}
