/* Jobs in the store: their records, submissions and history. */
#include "tests/support/daemon/store_case.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(store, .init = folder_make, .fini = folder_remove);

static const struct job_record every_field = {.name = "other",
                                              .uid = 4294967294u,
                                              .gid = 7,
                                              .state = JOB_STATE_FAILED,
                                              .reason = JOB_REASON_WORKER_LOST,
                                              .reason_text = "worker 1 was killed",
                                              .priority = -3,
                                              .times = {1.25, 2.5, 3.75, 1e9 + 0.125},
                                              .n_worker = 4,
                                              .n_slot = 8,
                                              .n_gpu = 2,
                                              .plan = {16, 3, INT64_C(1) << 35},
                                              .memory = INT64_C(1) << 40,
                                              .time_limit_s = 0.5,
                                              .max_restarts = 3,
                                              .gpus = UINT64_C(1) << 63 | 1,
                                              .attempt = 2,
                                              .run = {.n_restart = 1,
                                                      .pid = 99,
                                                      .pid_start = UINT64_C(1) << 50,
                                                      .slurm = 46,
                                                      .attempt_at = 17.0,
                                                      .ran_s = 4.5,
                                                      .next_attempt_at = 18.0,
                                                      .n_event_bytes = 1234567890123,
                                                      .cancel = true,
                                                      .checkpointed = true},
                                              .group = "sweep-1",
                                              .tags = "paper,night",
                                              .exit_code = 69,
                                              .progress = {.epoch = 5,
                                                           .n_epoch = 10,
                                                           .loss = 0.1,
                                                           .train_metric = 0.2,
                                                           .valid_metric = 0.3,
                                                           .test_metric = 0.4,
                                                           .best_valid_metric = 0.35,
                                                           .best_test_metric = 0.45,
                                                           .metric = "micro_f1",
                                                           .epoch_s = 0.5,
                                                           .seconds_left = 0.6,
                                                           .compute_s = 0.3,
                                                           .wait_s = 0.15,
                                                           .evaluate_s = 0.05,
                                                           .bytes_sent = 1e6,
                                                           .bytes_received = 2e6,
                                                           .memory = 3e9}};

Test(store, a_record_comes_back_as_it_was_every_field)
{
    struct store *store = store_case_open();
    struct job_record record = store_case_record("other"), changed = every_field;
    record.uid = changed.uid;
    record.gid = changed.gid;
    record.times.submitted_at = changed.times.submitted_at;
    memcpy(record.group, changed.group, sizeof record.group);
    memcpy(record.tags, changed.tags, sizeof record.tags);
    int64_t existing;
    cr_assert_eq(store_insert(store, &record, &store_case_submission, 1, &existing), STATUS_OK);
    changed.id = record.id;
    expect_done(store_update(store, &changed, NULL));
    store_case_find(store);
    cr_assert_eq(memcmp(&store_case_found[0], &changed, sizeof changed), 0, "a field differs");
    store_close(store);
}

Test(store, what_is_not_known_comes_back_as_not_known)
{
    struct store *store = store_case_open();
    store_case_insert(store, "x", "");
    store_case_find(store);
    cr_assert(isnan(store_case_found[0].progress.loss));
    cr_assert_eq(store_case_found[0].progress.train_metric, 0.25);
    store_close(store);
}

Test(store, its_folder_is_closed_to_other_users_also_one_that_was_open)
{
    static const char *const names[] = {"new", "open"};
    cr_assert_eq(mkdir(folder_path("open"), 0777), 0);
    cr_assert_eq(chmod(folder_path("open"), 0777), 0);
    for (size_t i = 0; i < 2; i++) {
        struct store *store = NULL;
        struct stat about;
        expect_done(store_open(folder_path(names[i]), &store));
        cr_assert_eq(stat(folder_path(names[i]), &about), 0);
        cr_assert_eq(about.st_mode & 0777, geteuid() == 0 ? 0711 : 0700, "%s: %o", names[i], about.st_mode & 0777);
        store_close(store);
    }
}

Test(store, numbers_go_up_and_are_never_used_again)
{
    struct store *store = store_case_open();
    cr_assert_eq(store_case_insert(store, "a", ""), 1);
    cr_assert_eq(store_case_insert(store, "b", ""), 2);
    store_close(store);
    sqlite3 *base;
    cr_assert_eq(sqlite3_open(folder_path("jobs.sqlite"), &base), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(base, "DELETE FROM jobs WHERE id = 2", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(base);
    store = store_case_open();
    cr_assert_eq(store_case_insert(store, "c", ""), 3);
    store_close(store);
}

Test(store, a_submission_id_is_taken_once_for_each_owner)
{
    struct store *store = store_case_open();
    cr_assert_eq(store_case_insert(store, "a", "night-run"), 1);
    cr_assert_eq(store_case_insert(store, "b", "night-run"), -1);
    cr_assert_eq(store_case_insert(store, "c", ""), 2);
    cr_assert_eq(store_case_insert(store, "d", ""), 3);
    struct job_record other = store_case_record("e");
    struct store_submission mine = store_case_submission;
    mine.submission_id = "night-run";
    other.uid = 2000;
    int64_t existing;
    cr_assert_eq(store_insert(store, &other, &mine, 1, &existing), STATUS_OK);
    cr_assert_eq(existing, 0);
    cr_assert_eq(other.id, 4);
    store_close(store);
}

Test(store, the_jobs_of_a_submission_follow_each_other_and_are_found_again)
{
    struct store *store = store_case_open();
    store_case_insert(store, "before", "");
    struct job_record records[3] = {store_case_record("a"), store_case_record("b"), store_case_record("c")};
    struct store_submission all[3] = {store_case_submission, store_case_submission, store_case_submission};
    int64_t existing;
    for (int i = 0; i < 3; i++) {
        all[i].submission_id = "sweep";
        snprintf(records[i].group, sizeof records[i].group, "g");
    }
    expect_done(store_insert(store, records, all, 3, &existing));
    cr_assert(existing == 0 && records[0].id == 2 && records[2].id == 4);
    for (int again = 0; again < 2; again++) { /* by this daemon, and by its next */
        cr_assert_eq(store_insert(store, records, all, 3, &existing), STATUS_OK);
        cr_assert_eq(existing, 2);
        store_case_expect_submitted(store, 1000, "sweep", 2, 3);
        store_case_expect_submitted(store, 2000, "sweep", 0, 0);
        store_case_expect_submitted(store, 1000, "other", 0, 0);
        store_case_find(store);
        cr_assert_eq(store_case_n, 4);
        cr_assert_str_eq(store_case_found[3].group, "g");
        store_close(store);
        store = store_case_open();
    }
    store_close(store);
}

Test(store, a_submission_comes_back_word_for_word)
{
    struct store *store = store_case_open();
    store_case_insert(store, "a", "mine");
    struct store_submission got;
    expect_done(store_submission_get(store, 1, &got));
    cr_assert_str_eq(got.submission_id, "mine");
    cr_assert_str_eq(got.config, store_case_submission.config);
    cr_assert_str_eq(got.folder, "/home/ann");
    cr_assert_str_eq(got.output, "/home/ann/runs/x");
    cr_assert_eq(got.n_set, 2);
    cr_assert_str_eq(got.set[0], "train.epochs=3");
    cr_assert_str_eq(got.set[1], "name=a b");
    store_submission_release(&got);
    expect_fails(store_submission_get(store, 7, &got), STATUS_NO_INPUT, "no job 7");
    store_close(store);
}

static char line_of[8][200];
static size_t n_line;

static bool keep_change(void *context, const struct store_change *change)
{
    (void)context;
    snprintf(line_of[n_line++], sizeof *line_of, "%g %s %s %d %.100s", change->at, job_state_name(change->state),
             job_reason_name(change->reason), (int)change->attempt, change->text);
    return true;
}

Test(store, history_has_a_line_for_each_change_of_state_reason_or_attempt)
{
    struct store *store = store_case_open();
    struct job_record record = store_case_record("a");
    int64_t existing;
    cr_assert_eq(store_insert(store, &record, &store_case_submission, 1, &existing), STATUS_OK);
    record.times.changed_at = 6;
    record.run.n_event_bytes = 10;
    cr_assert_eq(store_update(store, &record, NULL), STATUS_OK);
    record.times.changed_at = 7;
    record.state = JOB_STATE_RUNNING;
    record.attempt = 1;
    cr_assert_eq(store_update(store, &record, NULL), STATUS_OK);
    record.times.changed_at = 8;
    record.reason = JOB_REASON_CANCELLING;
    strcpy(record.reason_text, "ann asked");
    cr_assert_eq(store_update(store, &record, NULL), STATUS_OK);
    expect_done(store_history(store, 1, keep_change, NULL));
    cr_assert_eq(n_line, 3, "%zu", n_line);
    cr_assert_str_eq(line_of[0], "5.5 QUEUED NONE 0 ");
    cr_assert_str_eq(line_of[1], "7 RUNNING NONE 1 ");
    cr_assert_str_eq(line_of[2], "8 RUNNING CANCELLING 1 ann asked");
    store_close(store);
}
