#include "protocol/base/fault.h"
#include "tests/support/daemon/jobs_submit.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "trainerd/daemon/jobs/jobs.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct jobs *jobs;

static void begin(void)
{
    folder_make();
    expect_done(jobs_open(folder, NULL, &jobs));
}

static void end(void)
{
    jobs_close(jobs);
    folder_remove();
}

TestSuite(jobs, .init = begin, .fini = end);

#define GOOD "name = \"good\"\n[dataset]\ngenerator = \"karate\"\n[workers]\ncount = 2\nthreads = 3\n"

static enum status submit(const char *name, uid_t uid, const char *config, const char *setting, int64_t *id_out)
{
    struct job_record record = {.uid = uid, .gid = 100, .max_restarts = 3};
    snprintf(record.name, sizeof record.name, "%s", name);
    const struct store_submission submission = {.submission_id = "",
                                                .config = config,
                                                .set = &setting,
                                                .n_set = setting == NULL ? 0 : 1,
                                                .folder = "/home/ann"};
    int64_t existing;
    enum status status = jobs_submit(jobs, &record, &submission, 1, &existing);
    *id_out = record.id;
    return status;
}

static int64_t good(const char *name, uid_t uid)
{
    int64_t id;
    expect_done(submit(name, uid, GOOD, NULL, &id));
    return id;
}

static void reopen(void)
{
    jobs_close(jobs);
    jobs = NULL;
    expect_done(jobs_open(folder, NULL, &jobs));
}

Test(jobs, a_submitted_job_is_queued_with_what_its_file_asks_for)
{
    int64_t id = good("", 1000);
    const struct job_record *job = jobs_get(jobs, id);
    cr_assert_eq(job->state, JOB_STATE_QUEUED);
    cr_assert_str_eq(job->name, "good");
    cr_assert_eq(job->n_worker, 2);
    cr_assert_eq(job->n_slot, 6);
    cr_assert_eq(job->n_gpu, 0);
    cr_assert_eq(job->memory, -1);
    cr_assert_eq(job->exit_code, -1);
    cr_assert_eq(job->progress.n_epoch, 200);
    cr_assert(isnan(job->progress.loss));
    cr_assert_gt(job->times.submitted_at, 1e9);
    struct store_submission kept;
    cr_assert_eq(store_submission_get(jobs_store(jobs), id, &kept), STATUS_OK);
    cr_assert_str_eq(kept.output, "/home/ann/runs/good");
    store_submission_release(&kept);
}

Test(jobs, a_bad_job_file_is_refused_with_its_place_and_nothing_is_made)
{
    int64_t id;
    expect_fails(submit("", 1000, "[train]\nepoch = 3\n", NULL, &id), STATUS_CONFIG,
                 "job.toml:2:1: unknown key 'epoch'");
    expect_fails(submit("", 1000, GOOD, "train.lr=-1", &id), STATUS_CONFIG, "--set train.lr");
    cr_assert_eq(jobs_n(jobs), 0);
}

Test(jobs, all_jobs_are_there_again_after_a_restart)
{
    good("a", 1000);
    int64_t id = good("b", 1000);
    struct job_record changed = *jobs_get(jobs, id);
    changed.state = JOB_STATE_CANCELLED;
    cr_assert_eq(jobs_change(jobs, &changed), STATUS_OK);
    reopen();
    cr_assert_eq(jobs_n(jobs), 2);
    cr_assert_str_eq(jobs_get(jobs, 1)->name, "a");
    cr_assert_eq(jobs_get(jobs, 2)->state, JOB_STATE_CANCELLED);
}

Test(jobs, each_step_of_the_state_machine_is_allowed_or_refused_as_it_says)
{
    /* Columns in the order of the states: QUEUED SUBMITTED PREPARING STARTING RUNNING SUCCEEDED FAILED CANCELLED. */
    static const char *const allowed[JOB_STATE_N] = {
        [JOB_STATE_QUEUED] = "yyy...yy",   [JOB_STATE_SUBMITTED] = "yyyyyyyy", [JOB_STATE_PREPARING] = "y.yyyyyy",
        [JOB_STATE_STARTING] = "y..yyyyy", [JOB_STATE_RUNNING] = "y...yyyy",   [JOB_STATE_SUCCEEDED] = "........",
        [JOB_STATE_FAILED] = "y.......",   [JOB_STATE_CANCELLED] = "y.......",
    };
    static const enum job_state way[JOB_STATE_N][4] = {
        [JOB_STATE_QUEUED] = {JOB_STATE_QUEUED},
        [JOB_STATE_SUBMITTED] = {JOB_STATE_SUBMITTED},
        [JOB_STATE_PREPARING] = {JOB_STATE_PREPARING},
        [JOB_STATE_STARTING] = {JOB_STATE_PREPARING, JOB_STATE_STARTING},
        [JOB_STATE_RUNNING] = {JOB_STATE_PREPARING, JOB_STATE_RUNNING},
        [JOB_STATE_SUCCEEDED] = {JOB_STATE_PREPARING, JOB_STATE_RUNNING, JOB_STATE_SUCCEEDED},
        [JOB_STATE_FAILED] = {JOB_STATE_FAILED},
        [JOB_STATE_CANCELLED] = {JOB_STATE_CANCELLED},
    };
    for (int from = 0; from < JOB_STATE_N; from++) {
        for (int to = 0; to < JOB_STATE_N; to++) {
            struct job_record job = *jobs_get(jobs, good("x", 1000));
            for (int i = 0; i < 4 && job.state != (enum job_state)from; i++) {
                job.state = way[from][i];
                expect_done(jobs_change(jobs, &job));
            }
            job.state = (enum job_state)to;
            enum status status = jobs_change(jobs, &job);
            bool may = allowed[from][to] == 'y';
            cr_assert_eq(status, may ? STATUS_OK : STATUS_USAGE, "%s to %s", job_state_name((enum job_state)from),
                         job_state_name((enum job_state)to));
            cr_assert_eq(jobs_get(jobs, job.id)->state, (enum job_state)(may ? to : from));
            if (!may) {
                cr_assert(strstr(status_reason(), job_state_name((enum job_state)from)) &&
                              strstr(status_reason(), job_state_name((enum job_state)to)),
                          "%s", status_reason());
            }
        }
    }
}

static int n_told;
static struct job_record told;

static void listen(void *context, const struct job_record *record)
{
    (void)context;
    n_told++;
    told = *record;
}

Test(jobs, the_time_of_a_jobs_end_is_kept_once)
{
    int64_t id = good("x", geteuid());
    struct job_record next = *jobs_get(jobs, id);
    cr_assert_eq(next.times.ended_at, 0.0);
    next.state = JOB_STATE_CANCELLED;
    cr_assert_eq(jobs_change(jobs, &next), STATUS_OK);
    cr_assert_gt(jobs_get(jobs, id)->times.ended_at, 1e9);
    reopen();
    cr_assert_eq(jobs_get(jobs, id)->times.ended_at, jobs_get(jobs, id)->times.changed_at);
}

Test(jobs, listeners_hear_of_what_was_kept_and_of_nothing_else)
{
    jobs_listen(jobs, listen, NULL);
    int64_t id = good("x", 1000);
    cr_assert_eq(n_told, 1);
    struct job_record changed = *jobs_get(jobs, id);
    changed.state = JOB_STATE_RUNNING;
    cr_assert_eq(jobs_change(jobs, &changed), STATUS_USAGE);
    cr_assert_eq(n_told, 1);
    changed.state = JOB_STATE_PREPARING;
    cr_assert_eq(jobs_change(jobs, &changed), STATUS_OK);
    cr_assert_eq(n_told, 2);
    cr_assert_eq(told.state, JOB_STATE_PREPARING);
    struct job_progress progress = told.progress;
    progress.epoch = 7;
    jobs_progress(jobs, id, &progress, 100);
    cr_assert_eq(n_told, 3);
    cr_assert_eq(told.progress.epoch, 7);
}

Test(jobs, progress_and_waiting_are_in_memory_until_the_next_change)
{
    int64_t id = good("x", 1000);
    jobs_wait(jobs, id, JOB_REASON_WAITING_SLOTS, "0 of 2 slots are free, it needs 1");
    cr_assert_eq(jobs_get(jobs, id)->reason, JOB_REASON_WAITING_SLOTS);
    struct job_progress progress = jobs_get(jobs, id)->progress;
    progress.epoch = 7;
    jobs_progress(jobs, id, &progress, 100);
    reopen();
    cr_assert_eq(jobs_get(jobs, id)->progress.epoch, 0);
    cr_assert_eq(jobs_get(jobs, id)->run.n_event_bytes, 0);
    cr_assert_neq(jobs_get(jobs, id)->reason, JOB_REASON_WAITING_SLOTS);
    jobs_progress(jobs, id, &progress, 100);
    struct job_record changed = *jobs_get(jobs, id);
    changed.state = JOB_STATE_PREPARING;
    cr_assert_eq(jobs_change(jobs, &changed), STATUS_OK);
    reopen();
    cr_assert_eq(jobs_get(jobs, id)->progress.epoch, 7);
    cr_assert_eq(jobs_get(jobs, id)->run.n_event_bytes, 100);
}

Test(jobs, a_job_is_found_by_number_or_by_the_newest_of_its_name_that_one_may_see)
{
    int64_t first = good("same", 1000), second = good("same", 1000), others = good("same", 2000);
    cr_assert_eq(jobs_find(jobs, "1", 1000, false)->id, first);
    cr_assert_eq(jobs_find(jobs, "same", 1000, false)->id, second);
    cr_assert_eq(jobs_find(jobs, "same", 2000, false)->id, others);
    cr_assert_eq(jobs_find(jobs, "same", 0, true)->id, others);
    cr_assert_null(jobs_find(jobs, "same", 3000, false));
    cr_assert_null(jobs_find(jobs, "99", 1000, false));
    cr_assert_null(jobs_find(jobs, "99999999999999999999999", 1000, false));
    cr_assert_null(jobs_find(jobs, "-1", 1000, false));
    cr_assert_null(jobs_find(jobs, "", 1000, false));
}

Test(jobs, a_jobs_folder_is_the_daemons_alone)
{
    int64_t id = good("x", geteuid());
    char path[PATH_MAX];
    struct stat about;
    for (int round = 0; round < 2; round++) {
        expect_done(jobs_folder_make(jobs, id));
        jobs_folder(jobs, id, path);
        cr_assert_eq(path[0], '/');
        cr_assert_eq(stat(path, &about), 0);
        cr_assert_eq(about.st_mode & 07777, 0700);
    }
}

Test(jobs, a_folder_that_an_older_daemon_gave_to_the_owner_stays_the_owners)
{
    need_root();
    int64_t id = good("x", 12345);
    struct stat about;
    expect_done(jobs_folder_make(jobs, id));
    cr_assert_eq(stat(folder_path("jobs/1"), &about), 0);
    cr_assert_eq(about.st_uid, geteuid(), "another user's job has a folder of the daemon's");
    cr_assert_eq(chown(folder_path("jobs/1"), 12345, 100), 0);
    expect_done(jobs_folder_make(jobs, id));
    cr_assert_eq(stat(folder_path("jobs/1"), &about), 0);
    cr_assert_eq(about.st_uid, 12345);
}

static void reopen_in_slurm(void)
{
    jobs_close(jobs);
    jobs = NULL;
    expect_done(jobs_open(folder, &(struct jobs_options){.in_slurm = true}, &jobs));
}

static void expect_owner(const char *name, uid_t uid)
{
    struct stat about;
    cr_assert_eq(lstat(folder_path(name), &about), 0, "%s", name);
    cr_assert_eq(about.st_uid, uid, "%s", name);
}

Test(jobs, in_slurm_a_jobs_folder_is_its_owners)
{
    need_root();
    struct stat about;
    int64_t id = good("x", 12345);
    reopen_in_slurm();
    for (int round = 0; round < 2; round++) {
        expect_done(jobs_folder_make(jobs, id));
        cr_assert_eq(stat(folder_path("jobs/1"), &about), 0);
        cr_assert(about.st_uid == 12345 && about.st_gid == 100 && (about.st_mode & 07777) == 0700);
    }
}

Test(jobs, what_attempts_on_this_machine_have_left_is_found_by_those_in_slurm)
{
    uid_t uid = geteuid() == 0 ? 12345 : geteuid();
    static const char *const given[] = {"log", "events.jsonl", "rank-0.log", "runs", "result.json"};
    char path[PATH_MAX];
    int64_t id = good("x", uid);
    cr_assert_eq(jobs_folder_make(jobs, id), STATUS_OK);
    folder_write("jobs/1/log", "said");
    folder_write("jobs/1/events.jsonl", "{}");
    folder_write("jobs/1/rank-0.log", "");
    folder_write("jobs/1/result.json", "{}");
    folder_write("jobs/1/metrics.jsonl", "{}");
    folder_write("jobs/1/runs", "/home/ann/runs/x.1\n/home/ann/runs/x.2\ncut sho");
    reopen_in_slurm();
    expect_done(jobs_folder_make(jobs, id));
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        snprintf(path, sizeof path, "jobs/1/%s", given[i]);
        expect_owner(path, uid);
    }
    expect_owner("jobs/1", uid);
}

Test(jobs, a_long_name_is_cut_between_two_characters)
{
    char config[512] = "name = \"", long_name[200] = "";
    for (int i = 0; i < 40; i++) {
        strcat(long_name, "€");
    }
    strcat(config, long_name);
    strcat(config, "\"\n[dataset]\ngenerator = \"karate\"\n");
    int64_t id;
    expect_done(submit("", 1000, config, NULL, &id));
    cr_assert_eq(strlen(jobs_get(jobs, id)->name), 63, "%s", jobs_get(jobs, id)->name);
    cr_assert_eq(strncmp(jobs_get(jobs, id)->name, long_name, 63), 0);
}

static void end_job(int64_t id)
{
    struct job_record next = *jobs_get(jobs, id);
    next.state = JOB_STATE_CANCELLED;
    expect_done(jobs_change(jobs, &next));
}

static bool count_change(void *context, const struct store_change *change)
{
    (void)change;
    (*(int *)context)++;
    return true;
}

/* A clock that goes on by this with each look at it. */
static uint64_t clock_at_ns, clock_step_ns;

static uint64_t clock_now_ns(void)
{
    return clock_at_ns += clock_step_ns;
}

static bool retain(const struct retention *retention)
{
    const struct slice slice = slice_begin(clock_now_ns);
    return jobs_retain(jobs, retention, &slice);
}

Test(jobs, one_that_is_kept_no_longer_is_gone_with_its_folder_and_its_number_is_not_used_again)
{
    static const struct retention one = {.n_job = 1};
    int64_t old = good("old", geteuid()), runs = good("runs", geteuid()), newer = good("newer", geteuid());
    int n_change = 0;
    cr_assert_eq(jobs_folder_make(jobs, old), STATUS_OK);
    folder_write("jobs/1/events.jsonl", "");
    folder_write("jobs/1/rank-12.log", "");
    cr_assert_eq(mkdir(folder_path("jobs/1/results"), 0700), 0);
    folder_write("jobs/1/results/result.json", "");
    cr_assert_eq(symlink("/home/ann/runs/x", folder_path("jobs/1/run")), 0);
    end_job(old);
    end_job(newer);
    retain(&one);
    cr_assert_null(jobs_get(jobs, old));
    cr_assert_not(folder_has("jobs/1"));
    cr_assert_eq(store_history(jobs_store(jobs), old, count_change, &n_change), STATUS_OK);
    cr_assert_eq(n_change, 0);
    for (int round = 0; round < 2; round++) {
        cr_assert(jobs_n(jobs) == 2 && jobs_get(jobs, runs) != NULL && jobs_get(jobs, newer) != NULL);
        reopen();
    }
    end_job(runs);
    retain(&one);
    cr_assert_null(jobs_get(jobs, newer));
    cr_assert_eq(good("next", geteuid()), newer + 1);
}

Test(jobs, a_folder_with_a_file_of_another_kind_stays_when_its_job_does_not)
{
    static const struct retention one = {.n_job = 1};
    int64_t first = good("a", geteuid());
    cr_assert_eq(jobs_folder_make(jobs, first), STATUS_OK);
    folder_write("jobs/1/log", "");
    folder_write("jobs/1/notes", "of a person");
    end_job(first);
    end_job(good("b", geteuid()));
    retain(&one);
    cr_assert_null(jobs_get(jobs, first));
    cr_assert(folder_has("jobs/1/notes"));
    cr_assert_not(folder_has("jobs/1/log"));
}

Test(jobs, those_that_are_kept_no_longer_are_removed_in_slices_and_one_that_begins_again_meanwhile_stays)
{
    static const struct retention one = {.n_job = 1};
    for (int i = 0; i < 11; i++) {
        end_job(good("a", geteuid()));
    }
    clock_step_ns = SLICE_NS / 3;
    cr_assert(retain(&one));
    cr_assert(jobs_get(jobs, 3) == NULL && jobs_get(jobs, 4) != NULL, "a slice is not a slice");
    struct job_record next = *jobs_get(jobs, 10);
    next.state = JOB_STATE_QUEUED;
    cr_assert_eq(jobs_change(jobs, &next), STATUS_OK);
    int n = 1;
    while (retain(&one)) {
        n++;
    }
    cr_assert_eq(n, 2);
    cr_assert(jobs_n(jobs) == 2 && jobs_get(jobs, 10) != NULL && jobs_get(jobs, 11) != NULL);
}

Test(jobs, many_are_changed_in_slices_each_of_which_is_saved_as_a_whole)
{
    struct job_record next[7];
    size_t n;
    for (int i = 0; i < 7; i++) {
        next[i] = *jobs_get(jobs, good("a", 1000));
        next[i].state = JOB_STATE_CANCELLED;
    }
    next[6].state = JOB_STATE_RUNNING;
    clock_step_ns = SLICE_NS / 3;
    struct slice slice = slice_begin(clock_now_ns);
    cr_assert_eq(jobs_change_some(jobs, next, 7, &slice, &n), STATUS_USAGE);
    cr_assert(n == 0 && jobs_get(jobs, 1)->state == JOB_STATE_QUEUED, "a part of those that cannot be is changed");
    slice = slice_begin(clock_now_ns);
    expect_done(jobs_change_some(jobs, next, 6, &slice, &n));
    cr_assert_eq(n, 3);
    reopen();
    for (int64_t id = 1; id <= 7; id++) {
        cr_assert_eq(jobs_get(jobs, id)->state, id <= 3 ? JOB_STATE_CANCELLED : JOB_STATE_QUEUED);
    }
}

Test(jobs, a_daemon_that_is_killed_within_a_slice_has_changed_those_of_the_slices_before_and_loses_none)
{
    struct job_record next[7];
    for (int i = 0; i < 7; i++) {
        next[i] = *jobs_get(jobs, good("a", 1000));
        next[i].state = JOB_STATE_CANCELLED;
    }
    jobs_close(jobs);
    jobs = NULL;
    pid_t child = fork();
    if (child == 0) {
        setenv("TRAINERD_FAULTS", "daemon.change=kill@5", 1);
        clock_step_ns = SLICE_NS / 3;
        size_t n = 0;
        if (fault_arm("daemon", 0) != STATUS_OK || jobs_open(folder, NULL, &jobs) != STATUS_OK) {
            _exit(1);
        }
        for (size_t at = 0; at < 7; at += n) {
            const struct slice slice = slice_begin(clock_now_ns);
            if (jobs_change_some(jobs, &next[at], 7 - at, &slice, &n) != STATUS_OK) {
                _exit(2);
            }
        }
        _exit(3);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%d", status);
    expect_done(jobs_open(folder, NULL, &jobs));
    for (int64_t id = 1; id <= 7; id++) {
        cr_assert_eq(jobs_get(jobs, id)->state, id <= 3 ? JOB_STATE_CANCELLED : JOB_STATE_QUEUED);
    }
}
