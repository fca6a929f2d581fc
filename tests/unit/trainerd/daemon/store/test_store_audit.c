#include "tests/support/daemon/store_case.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "trainerd/daemon/store/store_audit.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(store_audit, .init = folder_make, .fini = folder_remove);

static const struct store_audit request = {.uid = 1000, .from = "unix, process 7", .what = "cancel", .job = 1};

/* The newest rows, a line each. */
static char lines[4096];

static bool print_row(void *context, const struct store_audit *row)
{
    int64_t *n = context;
    size_t at = strlen(lines);
    if ((*n)++ < 16) {
        snprintf(lines + at, sizeof lines - at, "%lld %lld %s %s %lld %d %s\n", (long long)row->id,
                 (long long)row->uid, row->from, row->what, (long long)row->job, row->exit_code, row->text);
    }
    cr_assert_gt(row->at, 1e9);
    return true;
}

static int64_t read_rows(struct store *store)
{
    int64_t n = 0;
    lines[0] = '\0';
    expect_done(store_audit_each(store, INT64_MAX, print_row, &n));
    return n;
}

Test(store_audit, a_change_has_one_row_a_refusal_one_of_its_own_and_what_no_request_asked_for_none)
{
    struct store *store = store_case_open();
    store_case_insert(store, "a", "");
    struct job_record record = store_case_record("a");
    record.id = 1;
    cr_assert_eq(read_rows(store), 0);
    store_audit_begin(store, &request);
    cr_assert_eq(store_update(store, &record, NULL), STATUS_OK);
    cr_assert_eq(store_audit_end(store, STATUS_OK, ""), STATUS_OK);
    store_audit_begin(store, &request);
    cr_assert_eq(store_audit_end(store, STATUS_USAGE, "it has ended"), STATUS_OK);
    store_audit_begin(store, &request);
    cr_assert_eq(store_audit_end(store, STATUS_USAGE, NULL), STATUS_OK, "one too many");
    cr_assert_eq(store_update(store, &record, NULL), STATUS_OK);
    cr_assert_eq(read_rows(store), 2);
    cr_assert_str_eq(lines, "2 1000 unix, process 7 cancel 1 2 it has ended\n1 1000 unix, process 7 cancel 1 0 \n");
    store_close(store);
}

Test(store_audit, a_change_whose_row_cannot_be_saved_is_not_made)
{
    struct store *store = store_case_open();
    store_case_insert(store, "a", "");
    store_close(store);
    store_case_sql("CREATE TRIGGER none BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no rows'); END");
    store = store_case_open();
    struct job_record record = store_case_record("a");
    record.id = 1;
    record.state = JOB_STATE_CANCELLED;
    store_audit_begin(store, &request);
    expect_fails(store_update(store, &record, NULL), STATUS_IO, "no rows");
    cr_assert_eq(store_fact_put(store, "drains", "yes"), STATUS_IO);
    cr_assert_eq(store_audit_end(store, STATUS_IO, "it is not saved"), STATUS_IO);
    char value[STORE_FACT_BYTES];
    cr_assert_eq(store_fact_get(store, "drains", value), STATUS_OK);
    cr_assert_str_eq(value, "");
    store_case_find(store);
    cr_assert_eq(store_case_found[0].state, JOB_STATE_QUEUED);
    store_close(store);
}

Test(store_audit, the_newest_rows_stay)
{
    struct store *store = store_case_open();
    store_close(store);
    store_case_sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100999) "
        "INSERT INTO audit (at, uid, peer, what, job, exit_code, text) SELECT 2e9, 1, 'p', 'w', 0, 0, '' FROM n");
    store = store_case_open();
    cr_assert_eq(read_rows(store), 100999);
    cr_assert_eq(store_audit_put(store, &request), STATUS_OK);
    cr_assert_eq(read_rows(store), STORE_AUDIT_MOST);
    cr_assert_eq(strncmp(lines, "101000 1000 unix", 16), 0, "%.40s", lines);
    store_close(store);
}

Test(store_audit, a_repair_keeps_the_rows)
{
    struct store_repaired done;
    struct store *store = store_case_open();
    cr_assert_eq(store_audit_put(store, &request), STATUS_OK);
    store_close(store);
    expect_done(store_repair(folder, 0, &done));
    store = store_case_open();
    cr_assert_eq(read_rows(store), 1);
    cr_assert_str_eq(lines, "1 1000 unix, process 7 cancel 1 0 \n");
    store_close(store);
}
