/* Jobs under the daemon's supervisor, with real coordinators and workers: what ends, who dies, and what is the same
 * afterwards. */
#include "protocol/base/clock.h"
#include "protocol/files/file.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "tests/support/process/results.h"
#include "tests/system/daemon/daemon_case.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(supervisor, .init = folder_make, .fini = daemon_case_end, .timeout = 900);

#define TWO_WORKERS "[workers]\ncount = 2\nthreads = 1\n"
/* Epochs of a job that is disturbed, for which it waits before one of them. */
#define DISTURBED "150"
#define ENDLESS "[train]\nepochs = 100000000\n"

static int64_t submit(const char *lines)
{
    return daemon_submit(&(struct daemon_job){.lines = lines, .max_restarts = 3});
}

/* Start a daemon whose jobs stop before the 51st epoch of their first attempt, or of their second, too. */
static void start_stopping(int n_attempt)
{
    static const char *const faults[] = {"coordinator.epoch=stop@51/1",
                                         "coordinator.epoch=stop@51/1,coordinator.epoch=stop@51/2"};
    setenv("TRAINERD_FAULTS", faults[n_attempt - 1], 1);
    daemon_start();
    unsetenv("TRAINERD_FAULTS");
}

static void expect_end(int64_t id, enum job_state state, enum job_reason reason, int exit_code)
{
    daemon_await_end(id);
    const struct job_record *job = daemon_job(id);
    cr_assert_eq(job->state, state, "%s %s: %s", job_state_name(job->state), job_reason_name(job->reason),
                 job->reason_text);
    cr_assert_eq(job->reason, reason, "%s: %s", job_reason_name(job->reason), job->reason_text);
    cr_assert_eq(job->exit_code, exit_code, "%d", job->exit_code);
    cr_assert_eq(job->run.pid, 0);
    cr_assert_gt(job->times.ended_at, 1e9);
}

#define SAID(id, words)                                                                                              \
    cr_assert_not_null(strstr(daemon_job(id)->reason_text, words), "%s", daemon_job(id)->reason_text)

/* Its results are those of the same job, run by hand and undisturbed. */
static void expect_same_as_plain(const char *lines)
{
    char plain[PATH_MAX], other[PATH_MAX];
    daemon_run_plain(lines);
    snprintf(plain, sizeof plain, "%s/plain", folder);
    snprintf(other, sizeof other, "%s/o", folder);
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
    cr_assert_gt(job->times.started_at, 1e9);
    expect_same_as_plain(lines);
}

static const char kept[] = TWO_WORKERS "[train]\nepochs = " DISTURBED
                                       "\ncheckpoint_every = 50\n[output]\ndir = \"o\"\n";

Test(supervisor, a_daemon_that_dies_before_it_lets_an_attempt_go_costs_no_restart)
{
    setenv("TRAINERD_FAULTS", "daemon.gate=kill", 1);
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = TWO_WORKERS "[train]\nepochs = 20\n"});
    for (double since = clock_s(); !daemon_has_died(); daemon_listen(10)) {
        cr_assert(patience_left(since), "the daemon lives");
    }
    unsetenv("TRAINERD_FAULTS");
    daemon_start();
    expect_end(id, JOB_STATE_SUCCEEDED, JOB_REASON_NONE, 0);
    cr_assert_eq(daemon_job(id)->attempt, 2);
    cr_assert_eq(daemon_job(id)->run.n_restart, 0);
    char log[64], said[1024];
    snprintf(log, sizeof log, "state/jobs/%lld/log", (long long)id);
    folder_read(log, said, sizeof said);
    cr_assert_eq(strncmp(said, "trainerd: the daemon died before it let this begin\nattempt 2\n", 61), 0, "%s", said);
}

/* What a job's coordinator might say, said for it. */
static void say_for_coordinator(int64_t id, const char *events)
{
    char name[64];
    snprintf(name, sizeof name, "state/jobs/%lld/events.jsonl", (long long)id);
    FILE *file = fopen(folder_path(name), "a");
    cr_assert_not_null(file);
    fputs(events, file);
    fclose(file);
}

Test(supervisor, an_end_that_a_dead_daemon_had_read_is_known_to_the_next)
{
    daemon_start();
    int64_t id = submit(TWO_WORKERS ENDLESS);
    daemon_await_epoch(id, 1, 1);
    /* What is read in one piece is kept together, too. */
    say_for_coordinator(id, "{\"attempt\":1,\"event\":\"checkpoint\",\"epoch\":1}\n"
                            "{\"attempt\":1,\"event\":\"end\",\"exit_code\":65,\"reason\":\"in its own words\"}\n");
    for (double since = clock_s(); !daemon_job(id)->run.checkpointed; daemon_listen(10)) {
        cr_assert(patience_left(since), "the checkpoint is not heard of");
    }
    daemon_kill();
    cr_assert(daemon_kill_coordinator(id));
    daemon_start();
    expect_end(id, JOB_STATE_FAILED, JOB_REASON_BAD_DATA, 65);
    SAID(id, "in its own words");
}

Test(supervisor, a_coordinator_that_nobody_saw_die_has_its_log_to_tell_of_it)
{
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = TWO_WORKERS ENDLESS});
    daemon_await_epoch(id, 1, 1);
    daemon_kill();
    cr_assert(daemon_kill_coordinator(id));
    daemon_start();
    expect_end(id, JOB_STATE_FAILED, JOB_REASON_COORDINATOR_LOST, 69);
    SAID(id, "its log ends with \"");
}

Test(supervisor, a_job_whose_workers_die_every_time_fails_when_no_restarts_are_left)
{
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = TWO_WORKERS ENDLESS, .max_restarts = 1});
    daemon_await_epoch(id, 1, 1);
    cr_assert(daemon_kill_worker(id, 0));
    daemon_await_epoch(id, 2, 1);
    cr_assert(daemon_kill_worker(id, 1));
    expect_end(id, JOB_STATE_FAILED, JOB_REASON_WORKER_LOST, 69);
    SAID(id, "no restarts are left");
    SAID(id, "was killed by signal 9");
}

Test(supervisor, a_cancelled_job_leaves_a_checkpoint_to_resume_from_and_ends_with_the_same_bits)
{
    static const char lines[] = TWO_WORKERS "[train]\nepochs = " DISTURBED "\n[output]\ndir = \"o\"\n";
    start_stopping(1);
    int64_t id = submit(lines);
    daemon_await_stopped(id, 1);
    cr_assert_eq(daemon_command('c', id, 0), STATUS_OK, "%s", daemon_reason);
    cr_assert_eq(daemon_job(id)->reason, JOB_REASON_CANCELLING);
    cr_assert_eq(daemon_command('c', id, 0), STATUS_OK, "asked twice: %s", daemon_reason);
    daemon_continue(id);
    expect_end(id, JOB_STATE_CANCELLED, JOB_REASON_USER, 75);
    SAID(id, "checkpoint");
    cr_assert_eq(daemon_command('c', id, 0), STATUS_USAGE);
    expect_words(daemon_reason, "has ended: it is CANCELLED");
    int64_t n_epoch = daemon_job(id)->progress.epoch;
    cr_assert_lt(n_epoch, atoi(DISTURBED));
    daemon_expect_nobody();
    cr_assert_eq(daemon_command('r', id, 0), STATUS_OK, "%s", daemon_reason);
    expect_end(id, JOB_STATE_SUCCEEDED, JOB_REASON_NONE, 0);
    cr_assert_eq(daemon_job(id)->attempt, 2);
    expect_same_as_plain(lines);
}

Test(supervisor, a_coordinator_that_does_not_listen_is_killed_when_its_time_is_over)
{
    daemon_options.kill_s = 0.5;
    daemon_start();
    int64_t id = submit(TWO_WORKERS ENDLESS);
    daemon_await_epoch(id, 1, 1);
    cr_assert_eq(kill(daemon_job(id)->run.pid, SIGSTOP), 0);
    cr_assert_eq(daemon_command('c', id, 0), STATUS_OK);
    expect_end(id, JOB_STATE_CANCELLED, JOB_REASON_USER, 75);
}

Test(supervisor, a_cancel_that_a_dead_daemon_had_kept_is_carried_out_by_the_next)
{
    daemon_start();
    int64_t id = submit(TWO_WORKERS ENDLESS);
    daemon_await_epoch(id, 1, 1);
    cr_assert_eq(kill(daemon_job(id)->run.pid, SIGSTOP), 0);
    cr_assert_eq(daemon_command('c', id, 0), STATUS_OK);
    daemon_kill();
    daemon_continue(id);
    daemon_start();
    expect_end(id, JOB_STATE_CANCELLED, JOB_REASON_USER, 75);
}

Test(supervisor, a_time_limit_ends_a_job_with_both_times_and_a_checkpoint)
{
    daemon_start();
    int64_t id = daemon_submit(
        &(struct daemon_job){.lines = TWO_WORKERS ENDLESS, .time_limit_s = 1.5, .max_restarts = 3});
    expect_end(id, JOB_STATE_FAILED, JOB_REASON_TIME_LIMIT, 75);
    SAID(id, "its limit is 1.5 s");
    SAID(id, "checkpoint");
    cr_assert_geq(daemon_job(id)->run.ran_s, 1.5);
}

Test(supervisor, of_many_events_a_mebibyte_a_second_is_read_and_another_job_has_its_turn)
{
    enum { N_LINE = 5 << 16, LINE_BYTES = 16 };
    static const char line[LINE_BYTES + 1] = "{\"event\": \"xy\"}\n";
    const int64_t n_bytes = (int64_t)N_LINE * LINE_BYTES; /* 5 MiB */
    char *lines = malloc((size_t)n_bytes);
    for (int i = 0; i < N_LINE; i++) {
        memcpy(lines + (size_t)i * LINE_BYTES, line, LINE_BYTES);
    }
    daemon_start();
    int64_t id = submit(TWO_WORKERS ENDLESS "[output]\ndir = \"a\"\n");
    daemon_await_epoch(id, 1, 1);
    char events[64];
    snprintf(events, sizeof events, "state/jobs/%lld/events.jsonl", (long long)id);
    double since_s = clock_s();
    int file = open(folder_path(events), O_WRONLY | O_APPEND);
    cr_assert_eq(file_write(file, lines, (size_t)n_bytes), 0);
    close(file);
    free(lines);
    int64_t other = submit("[workers]\ncount = 1\n[train]\nepochs = 3\n[output]\ndir = \"b\"\n");
    expect_end(other, JOB_STATE_SUCCEEDED, JOB_REASON_NONE, 0);
    while (daemon_job(id)->run.n_event_bytes < n_bytes) {
        cr_assert(daemon_hear(), "%lld bytes are read", (long long)daemon_job(id)->run.n_event_bytes);
    }
    cr_assert_geq(clock_s() - since_s, 3.5, "%lld bytes were read in %.1f s", (long long)n_bytes,
                  clock_s() - since_s);
    cr_assert_eq(daemon_command('c', id, 0), STATUS_OK);
    expect_end(id, JOB_STATE_CANCELLED, JOB_REASON_USER, 75);
}

Test(supervisor, a_queued_job_is_cancelled_where_it_stands_and_one_that_never_fits_is_refused)
{
    daemon_options.capacity = (struct queue_capacity){.n_slot = 2,
                                                      .memory = 1 << 30}; /* planning beside a job fits */
    daemon_start();
    int64_t first = submit(TWO_WORKERS ENDLESS);
    daemon_await(first, JOB_STATE_RUNNING);
    int64_t second = submit(TWO_WORKERS ENDLESS "[output]\ndir = \"b\"\n");
    cr_assert_eq(daemon_command('c', second, 0), STATUS_OK);
    cr_assert_eq(daemon_job(second)->state, JOB_STATE_CANCELLED);
    int64_t third = submit("[model]\nhidden = 65536\nlayers = 3\n[output]\ndir = \"c\"\n");
    expect_end(third, JOB_STATE_FAILED, JOB_REASON_OUT_OF_MEMORY, 71);
    SAID(third, "the daemon has 1024.0 MiB (daemon.memory)");
    cr_assert_eq(daemon_command('c', first, 0), STATUS_OK);
    expect_end(first, JOB_STATE_CANCELLED, JOB_REASON_USER, 75);
}

Test(supervisor, what_is_wrong_with_a_job_is_found_by_its_plan_where_it_can_be_and_said_word_for_word)
{
    daemon_start();
    int64_t id = submit("[model]\ninit = \"not-there.safetensors\"\n");
    int64_t bad = submit("[train]\nloss = \"bce\"\n");
    expect_end(id, JOB_STATE_FAILED, JOB_REASON_MISSING_INPUT, 66);
    SAID(id, "not-there.safetensors");
    expect_end(bad, JOB_STATE_FAILED, JOB_REASON_BAD_CONFIG, 78);
    SAID(bad, "train.loss = \"bce\"");
    cr_assert_eq(daemon_job(bad)->attempt, 0, "it was not only planned");
}

Test(supervisor, a_checkpoint_is_written_on_demand_and_training_goes_on)
{
    daemon_start();
    int64_t id = submit(TWO_WORKERS ENDLESS "[output]\ndir = \"o\"\n");
    daemon_await_epoch(id, 1, 1);
    cr_assert_not(daemon_job(id)->run.checkpointed);
    cr_assert_eq(daemon_command('k', id, 0), STATUS_OK, "%s", daemon_reason);
    while (!daemon_job(id)->run.checkpointed) {
        cr_assert(daemon_hear());
    }
    cr_assert(results_checkpoint(folder_path("o")) > 0);
    int64_t n_epoch = daemon_job(id)->progress.epoch;
    daemon_await_epoch(id, 1, n_epoch + 10);
    cr_assert_eq(daemon_command('c', id, 0), STATUS_OK);
    daemon_await_end(id);
    cr_assert_eq(daemon_command('k', id, 0), STATUS_USAGE);
    expect_words(daemon_reason, "expected one that is RUNNING");
}

Test(supervisor, a_job_is_scaled_while_it_runs_and_ends_with_the_same_bits)
{
    static const char lines[] = "[workers]\ncount = 4\nthreads = 1\n[train]\nepochs = " DISTURBED
                                "\n[output]\ndir = \"o\"\n";
    start_stopping(1);
    int64_t id = submit(lines);
    daemon_await_stopped(id, 1);
    cr_assert_eq(daemon_job(id)->plan.n_part, 8, "by the graph's size");
    cr_assert_eq(daemon_command('s', id, 9), STATUS_USAGE);
    expect_words(daemon_reason, "expected 1 to 8, a part for each");
    cr_assert_eq(daemon_command('s', id, 1), STATUS_OK, "%s", daemon_reason);
    cr_assert_eq(daemon_job(id)->reason, JOB_REASON_RESCALING);
    cr_assert_eq(daemon_job(id)->n_slot, 4, "its room is given away before it has left it");
    daemon_continue(id);
    daemon_await_epoch(id, 2, 1);
    cr_assert_eq(daemon_job(id)->n_worker, 1);
    cr_assert_eq(daemon_job(id)->n_slot, 1);
    cr_assert_eq(daemon_job(id)->run.n_restart, 0);
    expect_end(id, JOB_STATE_SUCCEEDED, JOB_REASON_NONE, 0);
    expect_same_as_plain(lines);
}

/* Faults are of our jobs alone: other users' jobs do not get our environment. */
Test(supervisor, planning_that_hangs_holds_up_no_other_user_and_fails_at_its_deadline)
{
    need_root();
    enum { USER = 65534 };
    cr_assert_eq(chmod(folder, 0777), 0);
    setenv("TRAINERD_FAULTS", "coordinator.load=stop", 1);
    daemon_options.plan_s = 20;
    daemon_start();
    int64_t hung = submit("[train]\nepochs = 3\n[output]\ndir = \"a\"\n"), behind = submit("[output]\ndir = \"c\"\n");
    int64_t other = daemon_submit(
        &(struct daemon_job){.lines = "[train]\nepochs = 3\n[output]\ndir = \"b\"\n", .uid = USER});
    expect_end(other, JOB_STATE_SUCCEEDED, JOB_REASON_NONE, 0);
    cr_assert_eq(daemon_job(hung)->state, JOB_STATE_QUEUED, "%s", daemon_job(hung)->reason_text);
    cr_assert_eq(daemon_command('c', behind, 0), STATUS_OK);
    expect_end(hung, JOB_STATE_FAILED, JOB_REASON_TIME_LIMIT, 75);
    SAID(hung, "planning it took more than 20 s (daemon.plan_timeout)");
}

Test(supervisor, roots_daemon_runs_a_users_job_with_that_users_rights)
{
    need_root();
    enum { USER = 65534 };
    struct stat about;
    cr_assert_eq(chmod(folder, 0755), 0);
    cr_assert_eq(mkdir(folder_path("home"), 0700), 0);
    cr_assert_eq(chown(folder_path("home"), USER, USER), 0);
    daemon_start();
    static const char lines[] = TWO_WORKERS "[train]\nepochs = 3\n";
    char good[256], bad[256];
    snprintf(good, sizeof good, "%s[output]\ndir = \"home/o\"\n", lines);
    snprintf(bad, sizeof bad, "%s[output]\ndir = \"o\"\n", lines);
    int64_t id = daemon_submit(&(struct daemon_job){.lines = good, .uid = USER});
    int64_t refused = daemon_submit(&(struct daemon_job){.lines = bad, .uid = USER});
    expect_end(id, JOB_STATE_SUCCEEDED, JOB_REASON_NONE, 0);
    expect_end(refused, JOB_STATE_FAILED, JOB_REASON_CANNOT_CREATE, 73);
    cr_assert_eq(stat(folder_path("home/o/model.safetensors"), &about), 0);
    cr_assert_eq(about.st_uid, USER);
    static const char *const files[] = {
        "", "/runs", "/events.jsonl", "/log", "/metrics.jsonl", "/result.json", "/rank-1.log"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[64];
        snprintf(path, sizeof path, "state/jobs/1%s", files[i]);
        cr_assert_eq(stat(folder_path(path), &about), 0, "%s", path);
        cr_assert_eq(about.st_uid, geteuid(), "%s", path);
        cr_assert_eq(about.st_mode & 077, 0, "%s", path);
    }
}

/* Its plan is within the limit on two workers, and on one above it. */
#define FOR_TWO_WORKERS "[memory]\nlimit = 200000\n"

Test(supervisor, a_local_job_that_loses_workers_again_and_again_keeps_their_number_and_its_memory_allows_no_fewer)
{
    char lines[1024];
    snprintf(lines, sizeof lines, "%s%s", kept, FOR_TWO_WORKERS);
    start_stopping(2);
    int64_t id = submit(lines);
    for (int attempt = 1; attempt <= 2; attempt++) {
        daemon_await_stopped(id, attempt);
        cr_assert_eq(daemon_command('s', id, 1), STATUS_USAGE);
        static const char refused[] = "job 1 cannot run on 1 worker: by its plan one of fewer than 2 would need 2";
        cr_assert_eq(strncmp(daemon_reason, refused, strlen(refused)), 0, "%s", daemon_reason);
        expect_words(daemon_reason, "and memory.limit is 200000; expected 2 or more");
        cr_assert(daemon_kill_worker(id, 1));
        daemon_continue(id);
    }
    expect_end(id, JOB_STATE_SUCCEEDED, JOB_REASON_NONE, 0);
    cr_assert_eq(daemon_job(id)->attempt, 3);
    cr_assert_eq(daemon_job(id)->n_worker, 2);
    cr_assert_eq(daemon_job(id)->n_slot, 2);
    cr_assert_eq(daemon_job(id)->plan.n_worker_least, 2);
    expect_same_as_plain(lines);
}

Test(supervisor, a_coordinator_that_others_interrupt_goes_on_from_the_checkpoint_that_it_leaves)
{
    static const char lines[] = TWO_WORKERS "[train]\nepochs = " DISTURBED "\n[output]\ndir = \"o\"\n";
    start_stopping(1);
    int64_t id = submit(lines);
    daemon_await_stopped(id, 1);
    cr_assert_eq(kill(daemon_job(id)->run.pid, SIGTERM), 0);
    daemon_continue(id);
    expect_end(id, JOB_STATE_SUCCEEDED, JOB_REASON_NONE, 0);
    cr_assert_eq(daemon_job(id)->attempt, 2);
    cr_assert(daemon_job(id)->run.checkpointed);
    expect_same_as_plain(lines);
}
