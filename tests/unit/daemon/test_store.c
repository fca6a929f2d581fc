#include "tests/support/process/folder.h"
#include "trainerd/daemon/jobs/store.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(store, .init = folder_make, .fini = folder_remove);

static const char *const set[] = {"train.epochs=3", "name=a b"};
static const struct store_submission submission = {.submission_id = "",
                                                   .config = "[dataset]\ngenerator = \"karate\"\n",
                                                   .set = set,
                                                   .n_set = 2,
                                                   .folder = "/home/ann",
                                                   .output = "/home/ann/runs/x"};

static struct store *open_store(void)
{
    struct store *store = NULL;
    cr_assert_eq(store_open(folder, &store), STATUS_OK, "%s", status_reason());
    return store;
}

static struct job_record record_of(const char *name)
{
    struct job_record record = {.uid = 1000,
                                .gid = 100,
                                .state = JOB_STATE_QUEUED,
                                .memory = -1,
                                .exit_code = -1,
                                .changed_at = 5.5,
                                .progress = {.loss = NAN, .train_metric = 0.25}};
    snprintf(record.name, sizeof record.name, "%s", name);
    return record;
}

static int64_t insert(struct store *store, const char *name, const char *submission_id)
{
    struct job_record record = record_of(name);
    struct store_submission mine = submission;
    int64_t existing;
    mine.submission_id = submission_id;
    cr_assert_eq(store_insert(store, &record, &mine, 1, &existing), STATUS_OK, "%s", status_reason());
    return existing != 0 ? -existing : record.id;
}

static struct job_record found[16];
static size_t n_found;

static bool keep(void *context, const struct job_record *record)
{
    (void)context;
    found[n_found++] = *record;
    return n_found < sizeof found / sizeof *found;
}

static void find_all(struct store *store)
{
    n_found = 0;
    cr_assert_eq(store_each(store, keep, NULL), STATUS_OK, "%s", status_reason());
}

Test(store, what_was_acknowledged_is_there_after_the_process_is_killed)
{
    pid_t child = fork();
    if (child == 0) {
        struct store *store;
        if (store_open(folder, &store) != STATUS_OK) {
            _exit(1);
        }
        struct job_record record = record_of("first");
        int64_t existing;
        if (store_insert(store, &record, &submission, 1, &existing) != STATUS_OK) {
            _exit(2);
        }
        record.state = JOB_STATE_RUNNING;
        record.pid = 4321;
        if (store_update(store, &record) != STATUS_OK) {
            _exit(3);
        }
        raise(SIGKILL);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status), "exit %d", WEXITSTATUS(status));
    struct store *store = open_store();
    find_all(store);
    cr_assert_eq(n_found, 1);
    cr_assert_eq(found[0].state, JOB_STATE_RUNNING);
    cr_assert_eq(found[0].pid, 4321);
    store_close(store);
}

Test(store, a_record_comes_back_as_it_was_every_field)
{
    struct store *store = open_store();
    struct job_record record = record_of("every field");
    int64_t existing;
    cr_assert_eq(store_insert(store, &record, &submission, 1, &existing), STATUS_OK);
    struct job_record changed = {.id = record.id,
                                 .name = "other",
                                 .uid = 4294967294u,
                                 .gid = 7,
                                 .state = JOB_STATE_FAILED,
                                 .reason = JOB_REASON_WORKER_LOST,
                                 .reason_text = "worker 1 was killed",
                                 .priority = -3,
                                 .submitted_at = 1.25,
                                 .started_at = 2.5,
                                 .ended_at = 3.75,
                                 .changed_at = 1e9 + 0.125,
                                 .n_worker = 4,
                                 .n_slot = 8,
                                 .n_gpu = 2,
                                 .n_part = 16,
                                 .memory = INT64_C(1) << 40,
                                 .time_limit_s = 0.5,
                                 .max_restarts = 3,
                                 .gpus = UINT64_C(1) << 63 | 1,
                                 .attempt = 2,
                                 .n_restart = 1,
                                 .pid = 99,
                                 .pid_start = UINT64_C(1) << 50,
                                 .attempt_at = 17.0,
                                 .ran_s = 4.5,
                                 .next_attempt_at = 18.0,
                                 .n_event_bytes = 1234567890123,
                                 .group = "sweep-1",
                                 .tags = "paper,night",
                                 .cancel = true,
                                 .checkpointed = true,
                                 .exit_code = 69,
                                 .progress = {.epoch = 5,
                                              .n_epoch = 10,
                                              .loss = 0.1,
                                              .train_metric = 0.2,
                                              .valid_metric = 0.3,
                                              .test_metric = 0.4,
                                              .epoch_s = 0.5,
                                              .seconds_left = 0.6,
                                              .compute_s = 0.3,
                                              .wait_s = 0.15,
                                              .evaluate_s = 0.05,
                                              .bytes_sent = 1e6,
                                              .bytes_received = 2e6,
                                              .memory = 3e9}};
    cr_assert_eq(store_update(store, &changed), STATUS_OK, "%s", status_reason());
    find_all(store);
    cr_assert_str_eq(found[0].name, changed.name);
    cr_assert_str_eq(found[0].reason_text, changed.reason_text);
    cr_assert_str_eq(found[0].group, changed.group);
    cr_assert_str_eq(found[0].tags, changed.tags);
#define SAME(field) cr_assert_eq(found[0].field, changed.field, #field)
    SAME(uid);
    SAME(gid);
    SAME(state);
    SAME(reason);
    SAME(priority);
    SAME(submitted_at);
    SAME(started_at);
    SAME(ended_at);
    SAME(changed_at);
    SAME(n_worker);
    SAME(n_slot);
    SAME(n_gpu);
    SAME(n_part);
    SAME(gpus);
    SAME(memory);
    SAME(time_limit_s);
    SAME(max_restarts);
    SAME(attempt);
    SAME(n_restart);
    SAME(pid);
    SAME(pid_start);
    SAME(attempt_at);
    SAME(ran_s);
    SAME(next_attempt_at);
    SAME(n_event_bytes);
    SAME(cancel);
    SAME(checkpointed);
    SAME(exit_code);
    SAME(progress.epoch);
    SAME(progress.n_epoch);
    SAME(progress.loss);
    SAME(progress.train_metric);
    SAME(progress.valid_metric);
    SAME(progress.test_metric);
    SAME(progress.epoch_s);
    SAME(progress.seconds_left);
    SAME(progress.compute_s);
    SAME(progress.wait_s);
    SAME(progress.evaluate_s);
    SAME(progress.bytes_sent);
    SAME(progress.bytes_received);
    SAME(progress.memory);
#undef SAME
    store_close(store);
}

Test(store, what_is_not_known_comes_back_as_not_known)
{
    struct store *store = open_store();
    insert(store, "x", "");
    find_all(store);
    cr_assert(isnan(found[0].progress.loss));
    cr_assert_eq(found[0].progress.train_metric, 0.25);
    store_close(store);
}

Test(store, numbers_go_up_and_are_never_used_again)
{
    struct store *store = open_store();
    cr_assert_eq(insert(store, "a", ""), 1);
    cr_assert_eq(insert(store, "b", ""), 2);
    store_close(store);
    sqlite3 *base;
    cr_assert_eq(sqlite3_open(folder_path("jobs.sqlite"), &base), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(base, "DELETE FROM jobs WHERE id = 2", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(base);
    store = open_store();
    cr_assert_eq(insert(store, "c", ""), 3);
    store_close(store);
}

Test(store, a_submission_id_is_taken_once_for_each_owner)
{
    struct store *store = open_store();
    cr_assert_eq(insert(store, "a", "night-run"), 1);
    cr_assert_eq(insert(store, "b", "night-run"), -1);
    cr_assert_eq(insert(store, "c", ""), 2);
    cr_assert_eq(insert(store, "d", ""), 3);
    struct job_record other = record_of("e");
    struct store_submission mine = submission;
    mine.submission_id = "night-run";
    other.uid = 2000;
    int64_t existing;
    cr_assert_eq(store_insert(store, &other, &mine, 1, &existing), STATUS_OK);
    cr_assert_eq(existing, 0);
    cr_assert_eq(other.id, 4);
    store_close(store);
}

static int64_t listed[8];
static size_t n_listed;

static void list(void *context, int64_t id)
{
    (void)context;
    listed[n_listed++] = id;
}

static void expect_listed(struct store *store, uid_t uid, const char *submission_id, int64_t first, size_t n)
{
    n_listed = 0;
    cr_assert_eq(store_submitted(store, uid, submission_id, list, NULL), STATUS_OK);
    cr_assert_eq(n_listed, n);
    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(listed[i], first + (int64_t)i);
    }
}

Test(store, the_jobs_of_a_submission_follow_each_other_and_are_found_again)
{
    struct store *store = open_store();
    insert(store, "before", "");
    struct job_record records[3] = {record_of("a"), record_of("b"), record_of("c")};
    struct store_submission all[3] = {submission, submission, submission};
    int64_t existing;
    for (int i = 0; i < 3; i++) {
        all[i].submission_id = "sweep";
        snprintf(records[i].group, sizeof records[i].group, "g");
    }
    cr_assert_eq(store_insert(store, records, all, 3, &existing), STATUS_OK, "%s", status_reason());
    cr_assert(existing == 0 && records[0].id == 2 && records[2].id == 4);
    for (int again = 0; again < 2; again++) { /* by this daemon, and by its next */
        cr_assert_eq(store_insert(store, records, all, 3, &existing), STATUS_OK);
        cr_assert_eq(existing, 2);
        expect_listed(store, 1000, "sweep", 2, 3);
        expect_listed(store, 2000, "sweep", 0, 0);
        expect_listed(store, 1000, "other", 0, 0);
        find_all(store);
        cr_assert_eq(n_found, 4);
        cr_assert_str_eq(found[3].group, "g");
        store_close(store);
        store = open_store();
    }
    store_close(store);
}

Test(store, a_submission_comes_back_word_for_word)
{
    struct store *store = open_store();
    insert(store, "a", "mine");
    struct store_submission got;
    cr_assert_eq(store_submission_get(store, 1, &got), STATUS_OK, "%s", status_reason());
    cr_assert_str_eq(got.submission_id, "mine");
    cr_assert_str_eq(got.config, submission.config);
    cr_assert_str_eq(got.folder, "/home/ann");
    cr_assert_str_eq(got.output, "/home/ann/runs/x");
    cr_assert_eq(got.n_set, 2);
    cr_assert_str_eq(got.set[0], "train.epochs=3");
    cr_assert_str_eq(got.set[1], "name=a b");
    store_submission_release(&got);
    cr_assert_eq(store_submission_get(store, 7, &got), STATUS_NO_INPUT);
    cr_assert_not_null(strstr(status_reason(), "no job 7"));
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
    struct store *store = open_store();
    struct job_record record = record_of("a");
    int64_t existing;
    cr_assert_eq(store_insert(store, &record, &submission, 1, &existing), STATUS_OK);
    record.changed_at = 6;
    record.n_event_bytes = 10;
    cr_assert_eq(store_update(store, &record), STATUS_OK);
    record.changed_at = 7;
    record.state = JOB_STATE_RUNNING;
    record.attempt = 1;
    cr_assert_eq(store_update(store, &record), STATUS_OK);
    record.changed_at = 8;
    record.reason = JOB_REASON_CANCELLING;
    strcpy(record.reason_text, "ann asked");
    cr_assert_eq(store_update(store, &record), STATUS_OK);
    cr_assert_eq(store_history(store, 1, keep_change, NULL), STATUS_OK, "%s", status_reason());
    cr_assert_eq(n_line, 3, "%zu", n_line);
    cr_assert_str_eq(line_of[0], "5.5 QUEUED NONE 0 ");
    cr_assert_str_eq(line_of[1], "7 RUNNING NONE 1 ");
    cr_assert_str_eq(line_of[2], "8 RUNNING CANCELLING 1 ann asked");
    store_close(store);
}

Test(store, only_the_owner_can_read_the_file)
{
    struct store *store = open_store();
    insert(store, "a", "");
    static const char *const names[] = {"jobs.sqlite", "jobs.sqlite-wal", "lock"};
    for (size_t i = 0; i < 3; i++) {
        struct stat about;
        cr_assert_eq(stat(folder_path(names[i]), &about), 0, "%s", names[i]);
        cr_assert_eq(about.st_mode & 0777, 0600, "%s", names[i]);
    }
    store_close(store);
}

Test(store, a_second_daemon_is_refused)
{
    struct store *first = open_store(), *second = NULL;
    pid_t child = fork();
    if (child == 0) {
        bool refused = store_open(folder, &second) == STATUS_PEER && second == NULL &&
                       strstr(status_reason(), "another daemon serves") != NULL && strstr(status_reason(), folder) != NULL;
        _exit(refused ? 0 : 1);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0, "%d", status);
    store_close(first);
    second = open_store();
    store_close(second);
}

Test(store, a_child_that_outlives_the_daemon_does_not_keep_the_next_one_out)
{
    int ends[2];
    char byte;
    cr_assert_eq(pipe(ends), 0);
    pid_t daemon = fork();
    if (daemon == 0) {
        struct store *store;
        bool opened = store_open(folder, &store) == STATUS_OK;
        if (fork() == 0) { /* until the test has ended */
            close(ends[1]);
            _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
        }
        _exit(opened ? 0 : 1);
    }
    int status = 0;
    cr_assert_eq(waitpid(daemon, &status, 0), daemon);
    cr_assert_eq(status, 0);
    struct store *store = open_store();
    store_close(store);
    close(ends[1]);
}

Test(store, a_file_that_is_no_store_is_refused_with_its_name)
{
    folder_write("jobs.sqlite", "these are the words of a text file, long enough to be no SQLite header at all\n");
    struct store *store;
    cr_assert_eq(store_open(folder, &store), STATUS_DATA);
    cr_assert(strstr(status_reason(), "jobs.sqlite") && strstr(status_reason(), "expected a job store"), "%s", status_reason());
}

static void run_sql(const char *sql)
{
    sqlite3 *base;
    cr_assert_eq(sqlite3_open(folder_path("jobs.sqlite"), &base), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(base, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(base));
    sqlite3_close(base);
}

Test(store, another_programs_file_is_refused)
{
    run_sql("CREATE TABLE songs (name TEXT)");
    struct store *store;
    cr_assert_eq(store_open(folder, &store), STATUS_DATA);
    cr_assert_not_null(strstr(status_reason(), "another program's"), "%s", status_reason());
}

Test(store, a_newer_version_is_refused_with_both_numbers)
{
    store_close(open_store());
    run_sql("PRAGMA user_version = 99");
    struct store *store;
    cr_assert_eq(store_open(folder, &store), STATUS_DATA);
    cr_assert(strstr(status_reason(), "version 99") && strstr(status_reason(), "expected version 4"), "%s", status_reason());
}

/* The tables of version 1, and jobs of its daemon: one that runs on two GPUs, one on none, one that waits and one that has ended. */
static const char version_1[] =
    "CREATE TABLE jobs (id INTEGER PRIMARY KEY AUTOINCREMENT, submission_id TEXT, config TEXT, settings BLOB, folder TEXT, "
    "output TEXT, name TEXT, uid INTEGER, gid INTEGER, state TEXT, reason TEXT, reason_text TEXT, priority INTEGER, "
    "submitted_at REAL, started_at REAL, ended_at REAL, changed_at REAL, n_worker INTEGER, n_slot INTEGER, n_gpu INTEGER, "
    "memory INTEGER, time_limit_s REAL, max_restarts INTEGER, attempt INTEGER, n_restart INTEGER, pid INTEGER, "
    "pid_start INTEGER, attempt_at REAL, ran_s REAL, next_attempt_at REAL, n_event_bytes INTEGER, cancel INTEGER, "
    "checkpointed INTEGER, exit_code INTEGER, epoch INTEGER, n_epoch INTEGER, loss REAL, train_metric REAL, valid_metric "
    "REAL, test_metric REAL, epoch_s REAL, seconds_left REAL, compute_s REAL, wait_s REAL, evaluate_s REAL, bytes_sent REAL, "
    "bytes_received REAL, memory_measured REAL);"
    "CREATE UNIQUE INDEX by_submission ON jobs (uid, submission_id) WHERE submission_id <> '';"
    "CREATE TABLE history (job INTEGER, at REAL, state TEXT, reason TEXT, attempt INTEGER, text TEXT);"
    "CREATE INDEX by_job ON history (job);"
    "INSERT INTO jobs (submission_id, config, settings, folder, output, name, state, reason, n_gpu, pid, memory_measured) "
    "VALUES "
    "('', 'c', x'', '/f', '/o', 'two', 'RUNNING', 'NONE', 2, 7, 2.5), ('', 'c', x'', '/f', '/o', 'none', 'STARTING', 'NONE', "
    "0, 8, 1),"
    "('', 'c', x'', '/f', '/o', 'waits', 'QUEUED', 'NONE', 2, 0, 1), ('', 'c', x'', '/f', '/o', 'ended', 'SUCCEEDED', 'NONE', "
    "1, 0, 1),"
    "('', 'c', x'', '/f', '/o', 'many', 'PREPARING', 'NONE', 63, 9, 1);"
    "PRAGMA application_id = 0x74726e64; PRAGMA user_version = 1;";

Test(store, version_1_is_brought_up_to_date_and_what_runs_there_holds_the_first_gpus)
{
    run_sql(version_1);
    for (int opened = 0; opened < 2; opened++) { /* by the daemon that updates it, and by its next */
        struct store *store = open_store();
        find_all(store);
        cr_assert_eq(n_found, opened == 0 ? 5 : 6);
        static const uint64_t gpus[] = {0x3, 0, 0, 0, UINT64_MAX};
        for (int i = 0; i < 5; i++) {
            cr_assert_eq(found[i].gpus, gpus[i], "%s", found[i].name);
        }
        cr_assert_eq(found[0].state, JOB_STATE_RUNNING);
        cr_assert_eq(found[0].n_gpu, 2);
        cr_assert_eq(found[0].pid, 7);
        cr_assert_eq(found[0].progress.memory, 2.5);
        if (opened == 0) {
            cr_assert_eq(insert(store, "new", ""), 6);
        }
        store_close(store);
    }
}

Test(store, version_3_is_brought_up_to_date_and_its_submissions_are_still_known)
{
    struct store *store = open_store();
    insert(store, "old", "night-run");
    store_close(store);
    run_sql("DROP INDEX by_submission; ALTER TABLE jobs DROP COLUMN place; ALTER TABLE jobs DROP COLUMN job_group;"
            "ALTER TABLE jobs DROP COLUMN tags; ALTER TABLE jobs DROP COLUMN n_part;"
            "CREATE UNIQUE INDEX by_submission ON jobs (uid, submission_id) WHERE submission_id <> '';"
            "CREATE TABLE aside AS SELECT * FROM jobs; PRAGMA user_version = 3;");
    for (int opened = 0; opened < 2; opened++) {
        store = open_store();
        find_all(store);
        cr_assert_eq(n_found, opened == 0 ? 1 : 3);
        cr_assert_str_eq(found[0].name, "old");
        cr_assert(found[0].group[0] == '\0' && found[0].tags[0] == '\0');
        cr_assert_eq(insert(store, "again", "night-run"), -1);
        struct job_record records[2] = {record_of("a"), record_of("b")};
        struct store_submission all[2] = {submission, submission};
        int64_t existing;
        all[0].submission_id = all[1].submission_id = "sweep";
        cr_assert_eq(store_insert(store, records, all, 2, &existing), STATUS_OK, "%s", status_reason());
        cr_assert_eq(existing, opened == 0 ? 0 : 2);
        store_close(store);
    }
    run_sql("SELECT * FROM aside_3");
    run_sql("UPDATE jobs SET state = 'DREAMING' WHERE id = 3"); /* a repair makes a table of rows set aside of its own */
    struct store_repaired repaired;
    cr_assert_eq(store_repair(folder, 0, &repaired), STATUS_OK, "%s", status_reason());
    cr_assert(repaired.n_job == 2 && repaired.n_aside == 1);
    store = open_store();
    expect_listed(store, 1000, "sweep", 2, 1);
    store_close(store);
}

Test(store, a_row_that_cannot_be_a_jobs_costs_no_other_job)
{
    struct store *store = open_store();
    insert(store, "a", "");
    insert(store, "b", "");
    insert(store, "c", "");
    store_close(store);
    run_sql("UPDATE jobs SET state = 'DREAMING' WHERE id = 2");
    store = open_store();
    find_all(store);
    cr_assert_eq(n_found, 2);
    cr_assert(found[0].id == 1 && found[1].id == 3);
    store_close(store);
}

Test(store, every_store_has_an_id_of_its_own_that_stays)
{
    char id[STORE_ID_BYTES];
    struct store *store = open_store();
    snprintf(id, sizeof id, "%s", store_id(store));
    cr_assert_eq(strspn(id, "0123456789abcdef"), 32, "%s", id);
    store_close(store);
    store = open_store();
    cr_assert_str_eq(store_id(store), id);
    store_close(store);
    cr_assert_eq(unlink(folder_path("jobs.sqlite")), 0);
    store = open_store();
    cr_assert_str_neq(store_id(store), id);
    store_close(store);
}

Test(store, damage_is_noticed_when_it_is_opened)
{
    struct store *store = open_store();
    for (int i = 0; i < 40; i++) {
        insert(store, "a job with a name that takes room", "");
    }
    store_close(store);
    struct stat about;
    cr_assert_eq(stat(folder_path("jobs.sqlite"), &about), 0);
    int file = open(folder_path("jobs.sqlite"), O_RDWR);
    char junk[256];
    memset(junk, 0x5a, sizeof junk);
    for (off_t at = 4096; at < about.st_size; at += 4096) {
        cr_assert_eq(pwrite(file, junk, sizeof junk, at), (ssize_t)sizeof junk);
    }
    close(file);
    cr_assert_eq(store_open(folder, &store), STATUS_DATA);
    cr_assert(strstr(status_reason(), "jobs.sqlite") && strstr(status_reason(), "expected a job store"), "%s", status_reason());
}

Test(store, on_a_full_disk_nothing_is_kept_by_halves_and_later_all_goes_on)
{
    struct store *store = open_store();
    insert(store, "before", "");
    signal(SIGXFSZ, SIG_IGN);
    struct stat about;
    cr_assert_eq(stat(folder_path("jobs.sqlite-wal"), &about), 0);
    struct rlimit was, limit;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &was), 0);
    limit = (struct rlimit){.rlim_cur = (rlim_t)about.st_size, .rlim_max = was.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    enum { N = 40 }; /* more than one page of the file */
    struct job_record records[N];
    struct store_submission all[N];
    for (int i = 0; i < N; i++) {
        records[i] = record_of("meanwhile");
        all[i] = submission;
    }
    int64_t existing;
    enum status status = store_insert(store, records, all, N, &existing);
    struct job_record first = record_of("before");
    first.id = 1;
    first.state = JOB_STATE_FAILED;
    enum status changed = store_update(store, &first);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &was), 0);
    cr_assert_eq(status, STATUS_IO);
    cr_assert_eq(changed, STATUS_IO);
    cr_assert(strstr(status_reason(), "cannot save a change of a job") && strstr(status_reason(), "jobs.sqlite"), "%s",
              status_reason());
    find_all(store);
    cr_assert_eq(n_found, 1);
    cr_assert_eq(found[0].state, JOB_STATE_QUEUED);
    cr_assert_eq(insert(store, "after", ""), 2);
    store_close(store);
    store = open_store();
    find_all(store);
    cr_assert_eq(n_found, 2);
    cr_assert_str_eq(found[1].name, "after");
    store_close(store);
}

Test(store, a_folder_that_cannot_be_made_is_named)
{
    folder_write("file", "");
    struct store *store;
    cr_assert_eq(store_open(folder_path("file/state"), &store), STATUS_CREATE);
    cr_assert_not_null(strstr(status_reason(), "file/state"), "%s", status_reason());
}
