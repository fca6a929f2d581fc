/* The store's file: who may open it, its versions, damage, full disks. */
#include "tests/support/daemon/store_case.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(store_file, .init = folder_make, .fini = folder_remove);

Test(store_file, only_the_owner_can_read_the_file)
{
    struct store *store = store_case_open();
    store_case_insert(store, "a", "");
    static const char *const names[] = {"jobs.sqlite", "jobs.sqlite-wal", "lock"};
    for (size_t i = 0; i < 3; i++) {
        struct stat about;
        cr_assert_eq(stat(folder_path(names[i]), &about), 0, "%s", names[i]);
        cr_assert_eq(about.st_mode & 0777, 0600, "%s", names[i]);
    }
    store_close(store);
}

Test(store_file, a_second_daemon_is_refused)
{
    struct store *first = store_case_open(), *second = NULL;
    pid_t child = fork();
    if (child == 0) {
        bool refused = store_open(folder, &second) == STATUS_PEER && second == NULL &&
                       strstr(status_reason(), "another daemon serves") != NULL &&
                       strstr(status_reason(), folder) != NULL;
        _exit(refused ? 0 : 1);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0, "%d", status);
    store_close(first);
    second = store_case_open();
    store_close(second);
}

Test(store_file, a_child_that_outlives_the_daemon_does_not_keep_the_next_one_out)
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
    struct store *store = store_case_open();
    store_close(store);
    close(ends[1]);
}

Test(store_file, a_file_that_is_no_store_is_refused_with_its_name)
{
    folder_write("jobs.sqlite", "these are the words of a text file, long enough to be no SQLite header at all\n");
    struct store *store;
    cr_assert_eq(store_open(folder, &store), STATUS_DATA);
    cr_assert(strstr(status_reason(), "jobs.sqlite") && strstr(status_reason(), "expected a job store"), "%s",
              status_reason());
}

static void run_sql(const char *sql)
{
    sqlite3 *base;
    cr_assert_eq(sqlite3_open(folder_path("jobs.sqlite"), &base), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(base, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(base));
    sqlite3_close(base);
}

Test(store_file, another_programs_file_is_refused)
{
    run_sql("CREATE TABLE songs (name TEXT)");
    struct store *store;
    cr_assert_eq(store_open(folder, &store), STATUS_DATA);
    cr_assert_not_null(strstr(status_reason(), "another program's"), "%s", status_reason());
}

Test(store_file, a_newer_version_is_refused_with_both_numbers)
{
    store_close(store_case_open());
    run_sql("PRAGMA user_version = 99");
    struct store *store;
    cr_assert_eq(store_open(folder, &store), STATUS_DATA);
    cr_assert(strstr(status_reason(), "version 99") && strstr(status_reason(), "expected version 7"), "%s",
              status_reason());
}

/* The tables of version 1, and jobs of its daemon: one that runs on two GPUs, one on none, one that waits and one that has ended. */
static const char version_1[] =
    "CREATE TABLE jobs (id INTEGER PRIMARY KEY AUTOINCREMENT, submission_id TEXT, config TEXT, settings BLOB, folder "
    "TEXT, "
    "output TEXT, name TEXT, uid INTEGER, gid INTEGER, state TEXT, reason TEXT, reason_text TEXT, priority INTEGER, "
    "submitted_at REAL, started_at REAL, ended_at REAL, changed_at REAL, n_worker INTEGER, n_slot INTEGER, n_gpu "
    "INTEGER, "
    "memory INTEGER, time_limit_s REAL, max_restarts INTEGER, attempt INTEGER, n_restart INTEGER, pid INTEGER, "
    "pid_start INTEGER, attempt_at REAL, ran_s REAL, next_attempt_at REAL, n_event_bytes INTEGER, cancel INTEGER, "
    "checkpointed INTEGER, exit_code INTEGER, epoch INTEGER, n_epoch INTEGER, loss REAL, train_metric REAL, "
    "valid_metric "
    "REAL, test_metric REAL, epoch_s REAL, seconds_left REAL, compute_s REAL, wait_s REAL, evaluate_s REAL, "
    "bytes_sent REAL, "
    "bytes_received REAL, memory_measured REAL);"
    "CREATE UNIQUE INDEX by_submission ON jobs (uid, submission_id) WHERE submission_id <> '';"
    "CREATE TABLE history (job INTEGER, at REAL, state TEXT, reason TEXT, attempt INTEGER, text TEXT);"
    "CREATE INDEX by_job ON history (job);"
    "INSERT INTO jobs (submission_id, config, settings, folder, output, name, state, reason, n_gpu, pid, "
    "memory_measured) "
    "VALUES "
    "('', 'c', x'', '/f', '/o', 'two', 'RUNNING', 'NONE', 2, 7, 2.5), ('', 'c', x'', '/f', '/o', 'none', 'STARTING', "
    "'NONE', "
    "0, 8, 1),"
    "('', 'c', x'', '/f', '/o', 'waits', 'QUEUED', 'NONE', 2, 0, 1), ('', 'c', x'', '/f', '/o', 'ended', "
    "'SUCCEEDED', 'NONE', "
    "1, 0, 1),"
    "('', 'c', x'', '/f', '/o', 'many', 'PREPARING', 'NONE', 63, 9, 1);"
    "PRAGMA application_id = 0x74726e64; PRAGMA user_version = 1;";

Test(store_file, version_1_is_brought_up_to_date_and_what_runs_there_holds_the_first_gpus)
{
    run_sql(version_1);
    for (int opened = 0; opened < 2; opened++) { /* by the daemon that updates it, and by its next */
        struct store *store = store_case_open();
        store_case_find(store);
        cr_assert_eq(store_case_n, opened == 0 ? 5 : 6);
        static const uint64_t gpus[] = {0x3, 0, 0, 0, UINT64_MAX};
        for (int i = 0; i < 5; i++) {
            cr_assert_eq(store_case_found[i].gpus, gpus[i], "%s", store_case_found[i].name);
        }
        cr_assert_eq(store_case_found[0].state, JOB_STATE_RUNNING);
        cr_assert_eq(store_case_found[0].n_gpu, 2);
        cr_assert_eq(store_case_found[0].pid, 7);
        cr_assert_eq(store_case_found[0].progress.memory, 2.5);
        if (opened == 0) {
            cr_assert_eq(store_case_insert(store, "new", ""), 6);
        }
        store_close(store);
    }
}

Test(store_file, version_3_is_brought_up_to_date_and_its_submissions_are_still_known)
{
    struct store *store = store_case_open();
    store_case_insert(store, "old", "night-run");
    store_close(store);
    run_sql(
        "DROP TABLE audit; DROP INDEX by_submission; ALTER TABLE jobs DROP COLUMN place; ALTER TABLE jobs DROP "
        "COLUMN "
        "job_group;"
        "ALTER TABLE jobs DROP COLUMN tags; ALTER TABLE jobs DROP COLUMN n_part; ALTER TABLE jobs DROP COLUMN metric;"
        "ALTER TABLE jobs DROP COLUMN best_valid_metric; ALTER TABLE jobs DROP COLUMN best_test_metric;"
        "ALTER TABLE jobs DROP COLUMN slurm; ALTER TABLE jobs DROP COLUMN n_worker_least; ALTER TABLE jobs DROP "
        "COLUMN "
        "n_byte_fewer;"
        "CREATE UNIQUE INDEX by_submission ON jobs (uid, submission_id) WHERE submission_id <> '';"
        "CREATE TABLE aside AS SELECT * FROM jobs; PRAGMA user_version = 3;");
    for (int opened = 0; opened < 2; opened++) {
        store = store_case_open();
        store_case_find(store);
        cr_assert_eq(store_case_n, opened == 0 ? 1 : 3);
        cr_assert_str_eq(store_case_found[0].name, "old");
        cr_assert(store_case_found[0].group[0] == '\0' && store_case_found[0].tags[0] == '\0');
        cr_assert_eq(store_case_insert(store, "again", "night-run"), -1);
        struct job_record records[2] = {store_case_record("a"), store_case_record("b")};
        struct store_submission all[2] = {store_case_submission, store_case_submission};
        int64_t existing;
        all[0].submission_id = all[1].submission_id = "sweep";
        cr_assert_eq(store_insert(store, records, all, 2, &existing), STATUS_OK, "%s", status_reason());
        cr_assert_eq(existing, opened == 0 ? 0 : 2);
        store_close(store);
    }
    run_sql("SELECT * FROM aside_3");
    run_sql(
        "UPDATE jobs SET state = 'DREAMING' WHERE id = 3"); /* a repair makes a table of rows set aside of its own */
    struct store_repaired repaired;
    cr_assert_eq(store_repair(folder, 0, &repaired), STATUS_OK, "%s", status_reason());
    cr_assert(repaired.n_job == 2 && repaired.n_aside == 1);
    store = store_case_open();
    store_case_expect_submitted(store, 1000, "sweep", 2, 1);
    store_close(store);
}

Test(store_file, a_row_that_cannot_be_a_jobs_costs_no_other_job)
{
    struct store *store = store_case_open();
    store_case_insert(store, "a", "");
    store_case_insert(store, "b", "");
    store_case_insert(store, "c", "");
    store_close(store);
    run_sql("UPDATE jobs SET state = 'DREAMING' WHERE id = 2");
    store = store_case_open();
    store_case_find(store);
    cr_assert_eq(store_case_n, 2);
    cr_assert(store_case_found[0].id == 1 && store_case_found[1].id == 3);
    store_close(store);
}

Test(store_file, every_store_has_an_id_of_its_own_that_stays)
{
    char id[STORE_ID_BYTES];
    struct store *store = store_case_open();
    snprintf(id, sizeof id, "%s", store_id(store));
    cr_assert_eq(strspn(id, "0123456789abcdef"), 32, "%s", id);
    store_close(store);
    store = store_case_open();
    cr_assert_str_eq(store_id(store), id);
    store_close(store);
    cr_assert_eq(unlink(folder_path("jobs.sqlite")), 0);
    store = store_case_open();
    cr_assert_str_neq(store_id(store), id);
    store_close(store);
}

Test(store_file, damage_is_noticed_when_it_is_opened)
{
    struct store *store = store_case_open();
    for (int i = 0; i < 40; i++) {
        store_case_insert(store, "a job with a name that takes room", "");
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
    cr_assert(strstr(status_reason(), "jobs.sqlite") && strstr(status_reason(), "expected a job store"), "%s",
              status_reason());
}

Test(store_file, on_a_full_disk_nothing_is_kept_by_halves_and_later_all_goes_on)
{
    struct store *store = store_case_open();
    store_case_insert(store, "before", "");
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
        records[i] = store_case_record("meanwhile");
        all[i] = store_case_submission;
    }
    int64_t existing;
    enum status status = store_insert(store, records, all, N, &existing);
    struct job_record first = store_case_record("before");
    first.id = 1;
    first.state = JOB_STATE_FAILED;
    enum status changed = store_update(store, &first, NULL);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &was), 0);
    cr_assert_eq(status, STATUS_IO);
    cr_assert_eq(changed, STATUS_IO);
    cr_assert(strstr(status_reason(), "cannot save a change of a job") && strstr(status_reason(), "jobs.sqlite"),
              "%s", status_reason());
    store_case_find(store);
    cr_assert_eq(store_case_n, 1);
    cr_assert_eq(store_case_found[0].state, JOB_STATE_QUEUED);
    cr_assert_eq(store_case_insert(store, "after", ""), 2);
    store_close(store);
    store = store_case_open();
    store_case_find(store);
    cr_assert_eq(store_case_n, 2);
    cr_assert_str_eq(store_case_found[1].name, "after");
    store_close(store);
}

Test(store_file, a_folder_that_cannot_be_made_is_named)
{
    folder_write("file", "");
    struct store *store;
    cr_assert_eq(store_open(folder_path("file/state"), &store), STATUS_CREATE);
    cr_assert_not_null(strstr(status_reason(), "file/state"), "%s", status_reason());
}
