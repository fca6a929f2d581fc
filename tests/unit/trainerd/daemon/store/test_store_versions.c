/* Stores of every version since the first, as the trainerd of that version made them: what arrives in one of today,
 * after an undisturbed upgrade and after one that is killed, and how a newer one is refused. */
#include "protocol/base/fault.h"
#include "protocol/base/memory.h"
#include "protocol/base/version.h"
#include "tests/support/daemon/store_case.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "trainerd/daemon/store/store_audit.h"
#include "trainerd/daemon/store/store_state.h"

#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(store_versions, .init = folder_make, .fini = folder_remove);

/* --- the stores --- */

/* Columns of jobs with their types, and what job 3 has there, where each has a value of its own: a column that
 * arrives in another's place is seen. Those of version 1, then those that later versions have added. */
/* clang-format off */
#define COLUMNS_1(X) \
    X(submission_id, "TEXT", "'night-run'") X(config, "TEXT", "'[dataset]'") \
    X(settings, "BLOB", "x'613d3100623d3200'") X(folder, "TEXT", "'/home/ann'") \
    X(output, "TEXT", "'/home/ann/runs/x'") X(name, "TEXT", "'three'") X(uid, "INTEGER", "1001") \
    X(gid, "INTEGER", "102") X(state, "TEXT", "'RUNNING'") X(reason, "TEXT", "'RESCALING'") \
    X(reason_text, "TEXT", "'it continues'") X(priority, "INTEGER", "-3") X(submitted_at, "REAL", "4.5") \
    X(started_at, "REAL", "5.5") X(ended_at, "REAL", "6.5") X(changed_at, "REAL", "7.5") \
    X(n_worker, "INTEGER", "8") X(n_slot, "INTEGER", "9") X(n_gpu, "INTEGER", "2") \
    X(memory, "INTEGER", "11000000000") X(time_limit_s, "REAL", "12.5") X(max_restarts, "INTEGER", "13") \
    X(attempt, "INTEGER", "14") X(n_restart, "INTEGER", "15") X(pid, "INTEGER", "16") \
    X(pid_start, "INTEGER", "17000000000") X(attempt_at, "REAL", "18.5") X(ran_s, "REAL", "19.5") \
    X(next_attempt_at, "REAL", "20.5") X(n_event_bytes, "INTEGER", "21000000000") X(cancel, "INTEGER", "1") \
    X(checkpointed, "INTEGER", "1") X(exit_code, "INTEGER", "-1") X(epoch, "INTEGER", "25") \
    X(n_epoch, "INTEGER", "26") X(loss, "REAL", "27.5") X(train_metric, "REAL", "NULL") \
    X(valid_metric, "REAL", "29.5") X(test_metric, "REAL", "30.5") X(epoch_s, "REAL", "31.5") \
    X(seconds_left, "REAL", "32.5") X(compute_s, "REAL", "33.5") X(wait_s, "REAL", "34.5") \
    X(evaluate_s, "REAL", "35.5") X(bytes_sent, "REAL", "36.5") X(bytes_received, "REAL", "37.5") \
    X(memory_measured, "REAL", "38.5")
#define COLUMNS_2(X) \
    X(gpus, "INTEGER", "12")
#define COLUMNS_4(X) \
    X(place, "INTEGER NOT NULL DEFAULT 0", "0") X(job_group, "TEXT", "'lr'") X(tags, "TEXT", "'a,b'") \
    X(n_part, "INTEGER", "42") X(metric, "TEXT", "'accuracy'") X(best_valid_metric, "REAL", "44.5") \
    X(best_test_metric, "REAL", "45.5")
#define COLUMNS_6(X) \
    X(slurm, "INTEGER", "46")
#define COLUMNS_7(X) \
    X(n_worker_least, "INTEGER", "47") X(n_byte_fewer, "INTEGER", "48000000000")

#define DECLARED(name, type, value) ", " #name " " type
#define NAMED(name, type, value) ", " #name
#define VALUE(name, type, value) ", " value

#define JOBS(columns) "CREATE TABLE jobs (id INTEGER PRIMARY KEY AUTOINCREMENT" columns(DECLARED) ");" ROWS(columns)
/* Job 1 has ended, jobs 2 and 4 to 6 were removed. */
#define ROWS(columns) \
    "INSERT INTO jobs (id" columns(NAMED) ") VALUES (3" columns(VALUE) "), (6" columns(VALUE) ");" \
    "UPDATE jobs SET id = 1, name = 'one', submission_id = '', state = 'SUCCEEDED', reason = 'NONE', " \
    "loss = 0.25 WHERE id = 6;"
/* clang-format on */
#define UP_TO_2(X) COLUMNS_1(X) COLUMNS_2(X)
#define UP_TO_4(X) UP_TO_2(X) COLUMNS_4(X)
#define UP_TO_6(X) UP_TO_4(X) COLUMNS_6(X)
#define UP_TO_7(X) UP_TO_6(X) COLUMNS_7(X)

#define HISTORY                                                                                                      \
    "CREATE TABLE history (job INTEGER, at REAL, state TEXT, reason TEXT, attempt INTEGER, text TEXT);"              \
    "CREATE INDEX by_job ON history (job);"                                                                          \
    "INSERT INTO history VALUES (3, 1.5, 'QUEUED', 'NONE', 0, ''), (1, 2.5, 'SUCCEEDED', 'NONE', 1, ''), "           \
    "(3, 3.5, 'RUNNING', 'RESCALING', 14, 'it continues');"
#define UNIQUE_1 "CREATE UNIQUE INDEX by_submission ON jobs (uid, submission_id) WHERE submission_id <> '';"
#define UNIQUE_4 "CREATE UNIQUE INDEX by_submission ON jobs (uid, submission_id, place) WHERE submission_id <> '';"
#define INDEXES_8                                                                                                    \
    "CREATE INDEX by_state ON jobs (state, ended_at);"                                                               \
    "CREATE INDEX by_turn ON jobs (uid, state, priority DESC) WHERE state = 'QUEUED';"                               \
    "CREATE INDEX by_name ON jobs (name, uid);"                                                                      \
    "CREATE INDEX by_group ON jobs (uid, job_group, state) WHERE job_group <> '';"                                   \
    "CREATE INDEX by_tags ON jobs (uid, tags, state) WHERE tags <> '';"
#define ID "0123456789abcdef0123456789abcdef"
#define FACTS                                                                                                        \
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT);"                                                        \
    "INSERT INTO facts VALUES ('id', '" ID "'), ('clock', '77.5');"                                                  \
    "CREATE TABLE aside AS SELECT * FROM jobs WHERE id = 1;"
#define AUDIT                                                                                                        \
    "CREATE TABLE audit (id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL, uid INTEGER, peer TEXT, what TEXT, job "     \
    "INTEGER, "                                                                                                      \
    "exit_code INTEGER, text TEXT);"                                                                                 \
    "INSERT INTO audit VALUES (9, 8.5, 1001, 'unix, process 7', 'cancel', 3, 2, 'no');"
#define END(version) "PRAGMA application_id = 0x74726e64; PRAGMA user_version = " #version ";"

static const char *const stores[] = {
    [1] = JOBS(COLUMNS_1) UNIQUE_1 HISTORY END(1),
    [2] = JOBS(UP_TO_2) UNIQUE_1 HISTORY END(2),
    [3] = JOBS(UP_TO_2) UNIQUE_1 HISTORY FACTS END(3),
    [4] = JOBS(UP_TO_4) UNIQUE_4 HISTORY FACTS END(4),
    [5] = JOBS(UP_TO_4) UNIQUE_4 HISTORY FACTS AUDIT END(5),
    [6] = JOBS(UP_TO_6) UNIQUE_4 HISTORY FACTS AUDIT END(6),
    [7] = JOBS(UP_TO_7) UNIQUE_4 HISTORY FACTS AUDIT END(7),
    [8] = JOBS(UP_TO_7) UNIQUE_4 INDEXES_8 HISTORY FACTS AUDIT END(8),
};
enum { N_STORE = sizeof stores / sizeof *stores };

Test(store_versions, there_is_a_store_of_every_version)
{
    cr_assert_eq(N_STORE - 1, STORE_VERSION, "a store of version %d is missing", STORE_VERSION);
}

/* --- files --- */

static sqlite3 *file_open(const char *name)
{
    sqlite3 *base;
    cr_assert_eq(sqlite3_open(folder_path(name), &base), SQLITE_OK);
    return base;
}

static void file_run(const char *name, const char *sql)
{
    sqlite3 *base = file_open(name);
    cr_assert_eq(sqlite3_exec(base, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(base));
    sqlite3_close(base);
}

static void file_put(const char *name, int version)
{
    static const char *const ends[] = {"",           "-wal",       "-shm",       ".version-1",
                                       ".version-2", ".version-3", ".version-4", ".version-5"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s", name, ends[i]);
        unlink(folder_path(path));
    }
    file_run(name, stores[version]);
}

static int row_print(void *file, int n, char **values, char **names)
{
    (void)names;
    for (int i = 0; i < n; i++) {
        fprintf(file, "%s|", values[i] != NULL ? values[i] : "NULL");
    }
    fputc('\n', file);
    return 0;
}

/* All that the file says: its version, tables and rows. */
static char *file_text(const char *name)
{
    char *text = NULL, sql[256];
    size_t n;
    FILE *file = open_memstream(&text, &n);
    sqlite3 *base = file_open(name);
    sqlite3_stmt *tables;
    cr_assert_eq(sqlite3_exec(base, "PRAGMA user_version", row_print, file, NULL), SQLITE_OK, "%s",
                 sqlite3_errmsg(base));
    cr_assert_eq(sqlite3_exec(base, "SELECT type, name, sql FROM sqlite_master ORDER BY name", row_print, file, NULL),
                 SQLITE_OK);
    cr_assert_eq(sqlite3_prepare_v2(base, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name", -1,
                                    &tables, NULL),
                 SQLITE_OK);
    while (sqlite3_step(tables) == SQLITE_ROW) {
        snprintf(sql, sizeof sql, "SELECT * FROM %s ORDER BY rowid", sqlite3_column_text(tables, 0));
        cr_assert_eq(sqlite3_exec(base, sql, row_print, file, NULL), SQLITE_OK, "%s", sqlite3_errmsg(base));
    }
    sqlite3_finalize(tables);
    sqlite3_close(base);
    fclose(file);
    return text;
}

static int64_t file_version(const char *name)
{
    char *text = file_text(name);
    int64_t version = atoi(text);
    free(text);
    return version;
}

/* --- what is expected of a store that has arrived --- */

static struct store_change changes[4];
static size_t n_change;

static bool change_keep(void *context, const struct store_change *change)
{
    (void)context;
    changes[n_change++] = *change;
    return n_change < 4;
}

static bool audit_expect(void *context, const struct store_audit *row)
{
    int *n = context;
    ++*n;
    cr_assert(row->id == 9 && row->at == 8.5 && row->uid == 1001 && row->job == 3 && row->exit_code == 2);
    cr_assert_str_eq(row->from, "unix, process 7");
    cr_assert_str_eq(row->what, "cancel");
    cr_assert_str_eq(row->text, "no");
    return true;
}

static void expect_job(const struct job_record *job, int version)
{
    const struct job_progress *progress = &job->progress;
    cr_assert(job->id == 3 && strcmp(job->name, "three") == 0 && job->uid == 1001 && job->gid == 102);
    cr_assert(job->state == JOB_STATE_RUNNING && job->reason == JOB_REASON_RESCALING);
    cr_assert_str_eq(job->reason_text, "it continues");
    cr_assert(job->priority == -3 && job->times.submitted_at == 4.5 && job->times.started_at == 5.5 &&
              job->times.ended_at == 6.5);
    cr_assert(job->times.changed_at == 7.5 && job->n_worker == 8 && job->n_slot == 9 && job->n_gpu == 2);
    cr_assert(job->memory == 11000000000 && job->time_limit_s == 12.5 && job->max_restarts == 13 &&
              job->attempt == 14);
    cr_assert(job->run.n_restart == 15 && job->run.pid == 16 && job->run.pid_start == 17000000000u &&
              job->run.attempt_at == 18.5);
    cr_assert(job->run.ran_s == 19.5 && job->run.next_attempt_at == 20.5 && job->run.n_event_bytes == 21000000000);
    cr_assert(job->run.cancel && job->run.checkpointed && job->exit_code == -1 && progress->epoch == 25 &&
              progress->n_epoch == 26);
    cr_assert(progress->loss == 27.5 && isnan(progress->train_metric) && progress->valid_metric == 29.5);
    cr_assert(progress->test_metric == 30.5 && progress->epoch_s == 31.5 && progress->seconds_left == 32.5);
    cr_assert(progress->compute_s == 33.5 && progress->wait_s == 34.5 && progress->evaluate_s == 35.5);
    cr_assert(progress->bytes_sent == 36.5 && progress->bytes_received == 37.5 && progress->memory == 38.5);
    cr_assert_eq(job->gpus, version >= 2 ? 12 : 3, "%llx", (unsigned long long)job->gpus);
    cr_assert_str_eq(job->group, version >= 4 ? "lr" : "");
    cr_assert_str_eq(job->tags, version >= 4 ? "a,b" : "");
    cr_assert_eq(job->plan.n_part, version >= 4 ? 42 : 0);
    cr_assert_str_eq(progress->metric, version >= 4 ? "accuracy" : "");
    cr_assert(version >= 4 ? progress->best_valid_metric == 44.5 && progress->best_test_metric == 45.5
                           : isnan(progress->best_valid_metric) && isnan(progress->best_test_metric));
    cr_assert_eq(job->run.slurm, version >= 6 ? 46 : 0);
    cr_assert_eq(job->plan.n_worker_least, version >= 7 ? 47 : 0);
    cr_assert_eq(job->plan.n_byte_fewer, version >= 7 ? 48000000000 : 0);
}

static void expect_submission(struct store *store)
{
    struct store_submission submission;
    expect_done(store_submission_get(store, 3, &submission));
    cr_assert_str_eq(submission.submission_id, "night-run");
    cr_assert_str_eq(submission.config, "[dataset]");
    cr_assert_str_eq(submission.folder, "/home/ann");
    cr_assert_str_eq(submission.output, "/home/ann/runs/x");
    cr_assert_eq(submission.n_set, 2);
    cr_assert_str_eq(submission.set[0], "a=1");
    cr_assert_str_eq(submission.set[1], "b=2");
    store_submission_release(&submission);
    store_case_expect_submitted(store, 1001, "night-run", 3, 1);
}

/* All that was in the store of that version, through today's code. */
static void expect_whole(struct store *store, int version)
{
    store_case_find(store);
    cr_assert_eq(store_case_n, 2);
    expect_job(&store_case_found[1], version);
    const struct job_record *ended = &store_case_found[0];
    cr_assert(ended->id == 1 && strcmp(ended->name, "one") == 0 && ended->state == JOB_STATE_SUCCEEDED);
    cr_assert_eq(ended->gpus, version >= 2 ? 12 : 0, "what has ended holds no GPUs");
    expect_submission(store);
    n_change = 0;
    expect_done(store_history(store, 3, change_keep, NULL));
    cr_assert_eq(n_change, 2);
    cr_assert(changes[0].at == 1.5 && changes[0].state == JOB_STATE_QUEUED && changes[1].attempt == 14);
    cr_assert_str_eq(changes[1].text, "it continues");
    int n_audit = 0;
    expect_done(store_audit_each(store, INT64_MAX, audit_expect, &n_audit));
    cr_assert_eq(n_audit, version >= 5 ? 1 : 0);
    char clock[STORE_FACT_BYTES];
    cr_assert_eq(store_fact_get(store, "clock", clock), STATUS_OK);
    cr_assert_str_eq(clock, version >= 3 ? "77.5" : "");
    cr_assert_eq(strcmp(store_id(store), ID) == 0, version >= 3);
    int64_t highest;
    cr_assert_eq(store_highest(store, &highest), STATUS_OK);
    cr_assert_eq(highest, 6, "numbers of removed jobs are not used again");
}

/* --- the tests --- */

Test(store_versions, every_row_of_every_version_arrives_and_new_ones_are_taken)
{
    for (int version = 1; version < N_STORE; version++) {
        file_put("jobs.sqlite", version);
        for (int opened = 0; opened < 2; opened++) { /* by the daemon that brings it up to date, and by its next */
            struct store *store = store_case_open();
            expect_whole(store, version);
            store_close(store);
        }
        struct store *store = store_case_open();
        struct job_record records[2] = {store_case_record("new"), store_case_record("newer")};
        struct store_submission both[2] = {store_case_submission, store_case_submission};
        int64_t existing;
        both[0].submission_id = both[1].submission_id = "sweep";
        expect_done(store_insert(store, records, both, 2, &existing));
        cr_assert(existing == 0 && records[0].id == 7 && records[1].id == 8);
        struct store_audit row = {.from = "", .what = "submit", .text = ""};
        expect_done(store_audit_put(store, &row));
        store_close(store);
        cr_assert_eq(file_version("jobs.sqlite"), STORE_VERSION);
        char kept[64];
        snprintf(kept, sizeof kept, "SELECT name FROM aside%s",
                 version == 3  ? "_3"
                 : version < 6 ? "_5"
                 : version < 7 ? "_6"
                               : "");
        if (version >= 3) { /* rows that a repair has set aside are still to be found */
            file_run("jobs.sqlite", kept);
        }
    }
}

Test(store_versions, what_runs_in_a_store_of_version_1_holds_the_first_gpus_up_to_all)
{
    static const struct {
        const char *sql;
        uint64_t gpus;
    } cases[] = {{"UPDATE jobs SET n_gpu = 63", UINT64_MAX},
                 {"UPDATE jobs SET n_gpu = 0", 0},
                 {"UPDATE jobs SET state = 'QUEUED'", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file_put("jobs.sqlite", 1);
        file_run("jobs.sqlite", cases[i].sql);
        struct store *store = store_case_open();
        store_case_find(store);
        cr_assert_eq(store_case_found[1].gpus, cases[i].gpus, "%s", cases[i].sql);
        store_close(store);
    }
}

Test(store_versions, a_copy_of_an_older_store_stays_and_its_trainerd_can_take_it_back)
{
    for (int version = 1; version < STORE_VERSION; version++) {
        char copy[64];
        snprintf(copy, sizeof copy, "jobs.sqlite.version-%d", version);
        file_put("jobs.sqlite", version);
        char *before = file_text("jobs.sqlite");
        store_close(store_case_open());
        char *kept = file_text(copy), *after = file_text("jobs.sqlite");
        cr_assert_str_eq(kept, before);
        cr_assert_str_neq(after, before);
        struct store_repaired restored;
        expect_done(store_restore(folder, folder_path(copy), 0, &restored));
        cr_assert_eq(restored.n_job, 2);
        free(before);
        free(kept);
        free(after);
    }
    file_put("jobs.sqlite", STORE_VERSION);
    store_close(store_case_open());
    cr_assert_neq(access(folder_path("jobs.sqlite.version-8"), F_OK), 0, "a store of this version needs no copy");
}

/* Open the store in a process that is killed at the n-th place of the upgrade; false: there are fewer. */
static bool upgrade_is_killed(int n)
{
    char faults[64];
    snprintf(faults, sizeof faults, "daemon.upgrade=kill@%d", n);
    pid_t child = fork();
    if (child == 0) {
        struct store *store;
        setenv("TRAINERD_FAULTS", faults, 1);
        _exit(fault_arm("daemon", 0) == STATUS_OK && store_open(folder, &store) == STATUS_OK ? 0 : 1);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0, "%d", status);
    return WIFSIGNALED(status);
}

Test(store_versions, an_upgrade_that_is_killed_between_any_two_steps_leaves_the_old_store_or_the_new)
{
    for (int version = 1; version < STORE_VERSION; version++) {
        int n_killed = 0, n_old = 0;
        for (bool was_killed = true; was_killed; n_killed += was_killed) {
            file_put("jobs.sqlite", version);
            char *before = file_text("jobs.sqlite");
            was_killed = upgrade_is_killed(n_killed + 1);
            char *after = file_text("jobs.sqlite");
            bool is_old = strcmp(before, after) == 0;
            cr_assert(is_old || file_version("jobs.sqlite") == STORE_VERSION, "version %d, killed at %d", version,
                      n_killed + 1);
            n_old += is_old;
            struct store *store = store_case_open();
            expect_whole(store, version);
            store_close(store);
            free(before);
            free(after);
        }
        /* Before the first change, after each, with the new version's number, and once it is saved. */
        cr_assert_eq(n_killed, STORE_VERSION - version + 3, "%d", n_killed);
        cr_assert_eq(n_old, n_killed - 1, "%d", n_old);
    }
}

static void expect_refused(const char *const *texts, size_t n)
{
    struct store *store;
    char *before = file_text("jobs.sqlite");
    cr_assert_eq(store_open(folder, &store), STATUS_DATA);
    for (size_t i = 0; i < n; i++) {
        cr_assert_not_null(strstr(status_reason(), texts[i]), "'%s' is not in: %s", texts[i], status_reason());
    }
    char *after = file_text("jobs.sqlite");
    cr_assert_str_eq(before, after, "what is refused is left as it is");
    free(before);
    free(after);
}

#define EXPECT_REFUSED(...)                                                                                          \
    expect_refused((const char *const[]){__VA_ARGS__},                                                               \
                   sizeof(const char *const[]){__VA_ARGS__} / sizeof(const char *))

Test(store_versions, a_newer_store_is_refused_with_its_trainerd_and_the_ways_out)
{
    file_put("jobs.sqlite", STORE_VERSION);
    store_close(store_case_open());
    file_run("jobs.sqlite", "PRAGMA user_version = 99;");
    EXPECT_REFUSED("jobs.sqlite' has version 99, written by trainerd " TRAINERD_VERSION,
                   "this is trainerd " TRAINERD_VERSION, "expected version 8 or older", "trainctl restore FILE");
    file_run("jobs.sqlite", "UPDATE facts SET value = '9.8.7' WHERE name = 'trainerd'");
    EXPECT_REFUSED("version 99, written by trainerd 9.8.7; this is trainerd " TRAINERD_VERSION,
                   "Start trainerd 9.8.7 again");
    file_run("jobs.sqlite", "UPDATE facts SET value = 'a\nb' WHERE name = 'trainerd'");
    EXPECT_REFUSED("version 99, written by a newer trainerd; this is", "Start that trainerd again");
    file_run("jobs.sqlite", "DROP TABLE facts");
    EXPECT_REFUSED("version 99, written by a newer trainerd; this is");
}

Test(store_versions, the_copy_from_before_the_upgrade_is_named_to_a_trainerd_that_goes_back)
{
    file_put("jobs.sqlite", 4);
    store_close(store_case_open());
    file_run("jobs.sqlite", "PRAGMA user_version = 9; UPDATE facts SET value = '0.2.0' WHERE name = 'trainerd'");
    char way[512];
    snprintf(way, sizeof way, "trainctl restore %s", folder_path("jobs.sqlite.version-4"));
    EXPECT_REFUSED("written by trainerd 0.2.0", way);
    struct store_repaired restored;
    expect_done(store_restore(folder, folder_path("jobs.sqlite.version-4"), 0, &restored));
    struct store *store = store_case_open();
    expect_whole(store, 4);
    store_close(store);
}

Test(store_versions, a_backup_of_a_newer_store_is_refused_before_anything_is_replaced)
{
    file_put("backup", STORE_VERSION);
    file_run("backup", "PRAGMA user_version = 9; INSERT INTO facts VALUES ('trainerd', '0.2.0')");
    file_put("jobs.sqlite", STORE_VERSION);
    char *before = file_text("jobs.sqlite");
    struct store_repaired restored;
    cr_assert_eq(store_restore(folder, folder_path("backup"), 0, &restored), STATUS_DATA);
    cr_assert(strstr(status_reason(), "has version 9, written by trainerd 0.2.0"), "%s", status_reason());
    char *after = file_text("jobs.sqlite");
    cr_assert_str_eq(before, after);
    free(before);
    free(after);
}
