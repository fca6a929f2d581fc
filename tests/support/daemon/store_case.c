#include "tests/support/daemon/store_case.h"

#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>

static const char *const set[] = {"train.epochs=3", "name=a b"};
const struct store_submission store_case_submission = {.submission_id = "",
                                                       .config = "[dataset]\ngenerator = \"karate\"\n",
                                                       .set = set,
                                                       .n_set = 2,
                                                       .folder = "/home/ann",
                                                       .output = "/home/ann/runs/x"};

struct store *store_case_open(void)
{
    struct store *store = NULL;
    cr_assert_eq(store_open(folder, &store), STATUS_OK, "%s", status_reason());
    return store;
}

struct job_record store_case_record(const char *name)
{
    struct job_record record = {.uid = 1000,
                                .gid = 100,
                                .state = JOB_STATE_QUEUED,
                                .memory = -1,
                                .exit_code = -1,
                                .times.changed_at = 5.5,
                                .progress = {.loss = NAN, .train_metric = 0.25}};
    snprintf(record.name, sizeof record.name, "%s", name);
    return record;
}

int64_t store_case_insert(struct store *store, const char *name, const char *submission_id)
{
    struct job_record record = store_case_record(name);
    struct store_submission mine = store_case_submission;
    int64_t existing;
    mine.submission_id = submission_id;
    cr_assert_eq(store_insert(store, &record, &mine, 1, &existing), STATUS_OK, "%s", status_reason());
    return existing != 0 ? -existing : record.id;
}

struct job_record store_case_found[STORE_CASE_MOST];
size_t store_case_n;

void store_case_find(struct store *store)
{
    int64_t highest = 0;
    store_case_n = 0;
    cr_assert_eq(store_highest(store, &highest), STATUS_OK, "%s", status_reason());
    for (int64_t id = 1; id <= highest && store_case_n < STORE_CASE_MOST; id++) {
        store_case_n += store_get(store, id, &store_case_found[store_case_n]);
    }
}

static int64_t listed[8];
static size_t n_listed;

static void list(void *context, int64_t id)
{
    (void)context;
    listed[n_listed++] = id;
}

void store_case_expect_submitted(struct store *store, uid_t uid, const char *submission_id, int64_t first, size_t n)
{
    n_listed = 0;
    cr_assert_eq(store_submitted(store, uid, submission_id, list, NULL), STATUS_OK);
    cr_assert_eq(n_listed, n);
    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(listed[i], first + (int64_t)i);
    }
}

void store_case_sql(const char *sql)
{
    sqlite3 *base;
    cr_assert_eq(sqlite3_open(folder_path("jobs.sqlite"), &base), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(base, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(base));
    sqlite3_close(base);
}
