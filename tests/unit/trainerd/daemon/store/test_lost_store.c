/* A store that is lost, damaged, older than the jobs' folders or another one: refused, and what makes it good again.
 */
#include "tests/support/daemon/jobs_submit.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "trainerd/daemon/jobs/jobs.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define GOOD "[dataset]\ngenerator = \"karate\"\n"
#define OTHER 12345

TestSuite(lost_store, .init = folder_make, .fini = folder_remove, .timeout = 900);

static struct jobs *open_state(const char *state)
{
    struct jobs *jobs = NULL;
    expect_done(jobs_open(folder_path(state), NULL, &jobs));
    return jobs;
}

static int64_t submit_file(struct jobs *jobs, uid_t uid, const char *config)
{
    const struct store_submission submission = {
        .submission_id = "", .config = config, .folder = folder, .output = ""};
    struct job_record record = {.uid = uid, .gid = 100};
    int64_t existing;
    expect_done(jobs_submit(jobs, &record, &submission, 1, &existing));
    return record.id;
}

static int64_t submit(struct jobs *jobs, uid_t uid)
{
    return submit_file(jobs, uid, GOOD);
}

/* n jobs, the first n_folder of which have folders. */
static void fill(const char *state, int n, int n_folder)
{
    struct jobs *jobs = open_state(state);
    for (int i = 0; i < n; i++) {
        int64_t id = submit(jobs, geteuid());
        if (i < n_folder) {
            expect_done(jobs_folder_make(jobs, id));
        }
    }
    jobs_close(jobs);
}

static void expect_refused(const char *state, const char *words)
{
    struct jobs *jobs = NULL;
    cr_assert_eq(jobs_open(folder_path(state), NULL, &jobs), STATUS_DATA, "it was opened");
    expect_reason(words);
    expect_reason("trainctl repair");
}

static size_t n_job(const struct jobs *jobs)
{
    size_t n = 0;
    for (int64_t id = 1; id <= 10; id++) {
        n += jobs_get(jobs, id) != NULL;
    }
    return n;
}

/* It can be opened, has so many jobs, and the next one has that number. */
static void expect_next(const char *state, size_t n, int64_t next)
{
    struct jobs *jobs = open_state(state);
    cr_assert_eq(n_job(jobs), n, "%zu jobs", n_job(jobs));
    cr_assert_eq(submit(jobs, geteuid()), next);
    jobs_close(jobs);
}

static struct store_repaired repair(const char *state)
{
    struct store_repaired done;
    expect_done(jobs_restore(folder_path(state), NULL, NULL, &done));
    return done;
}

static void copy(const char *from, const char *to)
{
    char command[1200];
    snprintf(command, sizeof command, "cp '%s' '%s'", folder_path(from), folder_path(to));
    cr_assert_eq(system(command), 0);
}

Test(lost_store, jobs_without_folders_are_normal)
{
    fill("state", 5, 2);
    expect_next("state", 5, 6);
    cr_assert_eq(rmdir(folder_path("state/jobs/1")), 0);
    expect_next("state", 6, 7);
}

Test(lost_store, a_store_that_is_gone_is_not_taken_for_a_new_one)
{
    fill("state", 3, 3);
    cr_assert_eq(unlink(folder_path("state/jobs.sqlite")), 0);
    for (int round = 0; round < 2; round++) { /* the first has made a store */
        expect_refused("state", "/jobs/3' is there, but the store's jobs have had numbers up to 0");
    }
    const struct store_repaired done = repair("state");
    cr_assert_eq(done.n_job, 0);
    cr_assert_eq(done.highest, 3);
    expect_next("state", 0, 4);
}

Test(lost_store, another_store_with_higher_numbers_is_told_by_its_id)
{
    fill("state", 3, 2);
    fill("other", 9, 0);
    copy("other/jobs.sqlite", "state/jobs.sqlite");
    expect_refused("state", "are those of another store's jobs");
    const struct store_repaired done = repair("state");
    cr_assert_eq(done.n_job, 9);
    expect_next("state", 9, 10);
}

Test(lost_store, folders_of_a_version_without_marks_are_marked)
{
    fill("state", 3, 2);
    cr_assert_eq(unlink(folder_path("state/jobs/.store")), 0);
    expect_next("state", 3, 4);
    cr_assert(folder_has("state/jobs/.store"));
    cr_assert_eq(mkdir(folder_path("state/jobs/notes"), 0777), 0);
    cr_assert_eq(mkdir(folder_path("state/jobs/007"), 0777), 0, "no job's number");
    expect_next("state", 4, 5);
}

Test(lost_store, a_folder_of_another_user_is_not_the_jobs)
{
    need_root();
    struct jobs *jobs = open_state("state");
    int64_t id = submit(jobs, OTHER);
    cr_assert_eq(mkdir(folder_path("state/jobs/1"), 0777), 0);
    cr_assert_eq(chown(folder_path("state/jobs/1"), OTHER + 1, 100), 0);
    expect_fails(jobs_folder_make(jobs, id), STATUS_CREATE,
                 "/jobs/1' belongs to user 12346; expected a folder of the daemon's, or of user 12345");
    jobs_close(jobs);
}

/* --- backup and restore --- */

static void backup(const char *state, const char *name)
{
    struct jobs *jobs = open_state(state);
    expect_done(store_backup(jobs_store(jobs), folder_path(name)));
    struct stat about;
    cr_assert_eq(stat(folder_path(name), &about), 0);
    cr_assert_eq(about.st_mode & 0777, 0600);
    cr_assert_eq(store_backup(jobs_store(jobs), folder_path(name)), STATUS_CREATE, "it is overwritten");
    jobs_close(jobs);
}

Test(lost_store, a_backup_is_restored_and_numbers_go_on_above_all_that_were_given)
{
    struct store_repaired done;
    fill("state", 3, 3);
    backup("state", "backup");
    cr_assert_not(folder_has("backup-wal"));
    fill("state", 4, 2); /* 7 jobs, folders up to 5 */
    expect_done(jobs_restore(folder_path("state"), NULL, folder_path("backup"), &done));
    cr_assert_eq(done.n_job, 3);
    cr_assert_eq(done.highest, 7);
    cr_assert_eq(access(done.old, F_OK), 0, "the store that was there is kept");
    expect_next("state", 3, 8);
    cr_assert_eq(unlink(folder_path("state/jobs.sqlite")), 0); /* now folders alone tell of higher numbers */
    expect_done(jobs_restore(folder_path("state"), NULL, folder_path("backup"), &done));
    cr_assert_eq(done.highest, 5);
    expect_next("state", 3, 6);
    cr_assert_eq(jobs_restore(folder_path("new"), NULL, folder_path("backup"), &done), STATUS_OK,
                 "on another machine");
    expect_next("new", 3, 4);
}

/* A clock that goes on by a slice with each look at it. */
static uint64_t clock_now_ns(void)
{
    static uint64_t at_ns;
    return at_ns += SLICE_NS;
}

static enum status copy_some(struct store_copy *copy, bool *done_out)
{
    const struct slice slice = slice_begin(clock_now_ns);
    return store_copy_step(copy, &slice, done_out);
}

Test(lost_store, a_backup_in_slices_has_what_changed_meanwhile_and_one_that_is_given_up_leaves_no_file)
{
    static char config[1 << 19];
    memset(config, '#', sizeof config - sizeof "\n" GOOD);
    strcat(config, "\n" GOOD);
    struct jobs *jobs = open_state("state");
    submit_file(jobs, geteuid(), config);
    struct store_copy *copy;
    bool is_done;
    expect_done(store_copy_open(jobs_store(jobs), folder_path("backup"), &copy));
    expect_done(copy_some(copy, &is_done));
    cr_assert_not(is_done, "a slice is the whole store");
    struct job_record next = *jobs_get(jobs, 1);
    next.state = JOB_STATE_CANCELLED;
    expect_done(jobs_change(jobs, &next));
    while (!is_done) {
        expect_done(copy_some(copy, &is_done));
    }
    store_copy_close(copy, true);
    expect_done(store_copy_open(jobs_store(jobs), folder_path("other"), &copy));
    expect_done(copy_some(copy, &is_done));
    store_copy_close(copy, false);
    jobs_close(jobs);
    cr_assert_not(folder_has("other"));
    struct store_repaired done;
    expect_done(jobs_restore(folder_path("new"), NULL, folder_path("backup"), &done));
    cr_assert_eq(done.n_job, 1);
    jobs = open_state("new");
    cr_assert_eq(jobs_get(jobs, 1)->state, JOB_STATE_CANCELLED);
    jobs_close(jobs);
}

Test(lost_store, what_is_no_backup_is_refused_and_the_store_stays)
{
    struct store_repaired done;
    fill("state", 3, 3);
    folder_write("text",
                 "no store, but a text that is long enough for SQLite to have a look at its beginning, which it "
                 "takes a hundred bytes for");
    folder_write("empty", "");
    cr_assert_eq(jobs_restore(folder_path("state"), NULL, folder_path("text"), &done), STATUS_DATA);
    expect_fails(jobs_restore(folder_path("state"), NULL, folder_path("empty"), &done), STATUS_DATA,
                 "is empty; expected a job store");
    cr_assert_eq(jobs_restore(folder_path("state"), NULL, folder_path("none"), &done), STATUS_NO_INPUT);
    expect_next("state", 3, 4);
    cr_assert_not(folder_has("state/jobs.sqlite.new"));
}

/* --- repair --- */

static void run_sql(const char *sql)
{
    sqlite3 *base;
    cr_assert_eq(sqlite3_open(folder_path("state/jobs.sqlite"), &base), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(base, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(base));
    sqlite3_close(base);
}

static int64_t number(const char *sql)
{
    sqlite3 *base;
    sqlite3_stmt *statement;
    cr_assert_eq(sqlite3_open(folder_path("state/jobs.sqlite"), &base), SQLITE_OK);
    cr_assert_eq(sqlite3_prepare_v2(base, sql, -1, &statement, NULL), SQLITE_OK, "%s", sqlite3_errmsg(base));
    cr_assert_eq(sqlite3_step(statement), SQLITE_ROW);
    int64_t found = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(base);
    return found;
}

Test(lost_store, a_repair_sets_bad_rows_aside)
{
    fill("state", 4, 4);
    run_sql("UPDATE jobs SET state = 'DREAMING' WHERE id = 2; UPDATE jobs SET reason = NULL WHERE id = 4");
    struct jobs *jobs = open_state("state");
    cr_assert_eq(n_job(jobs), 2, "they have stopped the daemon, or were taken for jobs");
    jobs_close(jobs);
    const struct store_repaired done = repair("state");
    cr_assert_eq(done.n_job, 2);
    cr_assert_eq(done.n_aside, 2);
    cr_assert_eq(number("SELECT count(*) FROM aside WHERE id IN (2, 4) AND config <> ''"), 2);
    expect_next("state", 2, 5);
}

Test(lost_store, a_repair_reads_around_what_is_damaged)
{
    fill("state", 200, 0);
    run_sql("PRAGMA journal_mode = DELETE");
    struct stat about;
    cr_assert_eq(stat(folder_path("state/jobs.sqlite"), &about), 0);
    int file = open(folder_path("state/jobs.sqlite"), O_RDWR);
    char junk[4096];
    off_t middle = about.st_size / 4096 * 3 / 4 * 4096;
    while (pread(file, junk, sizeof junk, middle) > 0 &&
           (junk[0] != 13 || memmem(junk, sizeof junk, GOOD, strlen(GOOD)) == NULL)) {
        middle += 4096; /* to a leaf of jobs' rows, past indexes */
    }
    memset(junk, 0x5a, sizeof junk);
    cr_assert_eq(pwrite(file, junk, sizeof junk, middle), (ssize_t)sizeof junk);
    close(file);
    expect_refused("state", "is damaged");
    const struct store_repaired done = repair("state");
    cr_assert(done.n_job > 100 && done.n_job < 200, "%lld jobs", (long long)done.n_job);
    struct jobs *jobs = open_state("state");
    cr_assert_not_null(jobs_get(jobs, 1));
    cr_assert_not_null(jobs_get(jobs, 200));
    cr_assert_eq(submit(jobs, geteuid()), 201);
    jobs_close(jobs);
}
