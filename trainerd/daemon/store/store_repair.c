/* A store as a whole: copied while it is open, restored in place of a lost one, rebuilt from a damaged one.
 *
 * A new store is made beside the old one, and takes its name when it is whole; the old one is renamed.
 */
#include "trainerd/daemon/store/store.h"

#include "protocol/base/amounts.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/files/file.h"
#include "trainerd/daemon/store/store_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NEW ".new"
#define PAGES_AT_ONCE 64 /* of a copy that is made in slices, between two looks at the time */

/* --- copying pages --- */

/* Make a file that is not there. errors  STATUS_CREATE */
static enum status file_make(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
        return status_fail(STATUS_CREATE, "cannot make '%s': %s", path, strerror(errno));
    }
    close(file);
    return STATUS_OK;
}

struct store_copy {
    struct store *from;
    sqlite3 *to;
    sqlite3_backup *pages;
    char path[PATH_MAX];
};

static enum status copy_fail(const struct store_copy *copy)
{
    return status_fail(STATUS_IO, "cannot copy '%s' to '%s': %s", copy->from->path, copy->path,
                       sqlite3_errmsg(copy->to));
}

enum status store_copy_open(struct store *store, const char *path, struct store_copy **out)
{
    enum status status = file_make(path);
    if (status != STATUS_OK) {
        return status;
    }
    struct store_copy *copy = *out = memory_alloc(1, sizeof *copy);
    copy->from = store;
    snprintf(copy->path, sizeof copy->path, "%s", path);
    if (sqlite3_open_v2(path, &copy->to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
        status = status_fail(STATUS_CREATE, "cannot open '%s': %s", path, sqlite3_errmsg(copy->to));
    } else if ((copy->pages = sqlite3_backup_init(copy->to, "main", store->base, "main")) == NULL) {
        status = copy_fail(copy);
    }
    if (status != STATUS_OK) {
        store_copy_close(copy, false);
    }
    return status;
}

/* A copy that is done is one file, without a log beside it, and on the disk. */
enum status store_copy_step(struct store_copy *copy, const struct slice *slice, bool *done_out)
{
    int code;
    do {
        code = sqlite3_backup_step(copy->pages, slice != NULL ? PAGES_AT_ONCE : -1);
    } while (code == SQLITE_OK && slice_has_time(slice));
    *done_out = code == SQLITE_DONE;
    if (code == SQLITE_OK) {
        return STATUS_OK;
    }
    code = sqlite3_backup_finish(copy->pages) == SQLITE_OK && *done_out
               ? sqlite3_exec(copy->to, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL)
               : SQLITE_ERROR;
    copy->pages = NULL;
    return code == SQLITE_OK ? STATUS_OK : copy_fail(copy);
}

void store_copy_close(struct store_copy *copy, bool is_whole)
{
    if (copy->pages != NULL) {
        sqlite3_backup_finish(copy->pages);
    }
    sqlite3_close(copy->to);
    if (!is_whole) {
        unlink(copy->path);
    }
    free(copy);
}

enum status store_backup(struct store *store, const char *path)
{
    struct store_copy *copy;
    bool is_done;
    enum status status = store_copy_open(store, path, &copy);
    if (status == STATUS_OK) {
        status = store_copy_step(copy, NULL, &is_done);
        store_copy_close(copy, status == STATUS_OK);
    }
    return status;
}

/* --- putting a store in its place --- */

static struct store *store_at(const char *path)
{
    struct store *store = memory_alloc(1, sizeof *store);
    store->lock = -1;
    snprintf(store->path, sizeof store->path, "%s", path);
    return store;
}

/* A store's highest number, as far as it can be read. */
static int64_t highest_of(const char *path)
{
    int64_t highest = 0;
    struct store *store = store_at(path);
    if (store_open_to_read(store) != STATUS_OK || store_highest(store, &highest) != STATUS_OK) {
        highest = 0;
    }
    store_close(store);
    return highest;
}

/* Let numbers go on above this one. */
static enum status raise_numbers(struct store *store, int64_t least, int64_t *highest_out)
{
    char sql[256];
    enum status status = store_highest(store, highest_out);
    *highest_out = larger(*highest_out, least);
    snprintf(sql, sizeof sql,
             "BEGIN IMMEDIATE; DELETE FROM sqlite_sequence WHERE name = 'jobs';"
             "INSERT INTO sqlite_sequence VALUES ('jobs', %lld);",
             (long long)*highest_out);
    if (status != STATUS_OK) {
        return status;
    }
    return store_finish(store, store_run(store, sql, "raise its numbers"), "raise its numbers");
}

/* Move rows that cannot be a job's into a table of their own, for a person to look at. */
static enum status set_aside(struct store *store, struct store_repaired *out)
{
    char names[STORE_ROW_BYTES], sql[STORE_SQL_BYTES], move[256];
    store_row_print(STORE_ROW_NAMES, names);
    snprintf(sql, sizeof sql, "SELECT id, %s FROM jobs", names);
    sqlite3_stmt *statement = NULL;
    enum status status = store_run(store, "CREATE TABLE IF NOT EXISTS aside AS SELECT * FROM jobs WHERE 0",
                                   "set rows aside");
    bool begins = status == STATUS_OK && sqlite3_prepare_v2(store->base, sql, -1, &statement, NULL) == SQLITE_OK;
    int64_t *bad = NULL;
    size_t n_bad = 0;
    while (begins && sqlite3_step(statement) == SQLITE_ROW) {
        struct job_record record;
        if (store_row_read(statement, 1, &record) == STATUS_OK) {
            out->n_job++;
            continue;
        }
        log_warn("job %lld is set aside: %s", (long long)sqlite3_column_int64(statement, 0), status_reason());
        bad = memory_list_grow(bad, (int32_t)n_bad, sizeof *bad);
        bad[n_bad++] = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    for (size_t i = 0; i < n_bad && status == STATUS_OK; i++) {
        snprintf(move, sizeof move,
                 "BEGIN IMMEDIATE; INSERT INTO aside SELECT * FROM jobs WHERE id = %lld; DELETE FROM jobs WHERE id = "
                 "%lld;",
                 (long long)bad[i], (long long)bad[i]);
        status = store_finish(store, store_run(store, move, "set a row aside"), "set a row aside");
    }
    free(bad);
    out->n_aside = (int64_t)n_bad;
    return status;
}

static enum status move_file(const char *from, const char *to)
{
    return rename(from, to) == 0 || errno == ENOENT
               ? STATUS_OK
               : status_fail(STATUS_CREATE, "cannot rename '%s' to '%s': %s", from, to, strerror(errno));
}

/* The store that is there, with the files that SQLite keeps beside it, gets another name. */
static enum status put_away(const char *path, char *old, size_t capacity)
{
    static const char *const ends[] = {"-wal", "-shm", ""};
    char from[PATH_MAX], to[PATH_MAX];
    old[0] = '\0';
    if (access(path, F_OK) != 0) {
        return STATUS_OK;
    }
    long long now = (long long)time(NULL);
    do {
        snprintf(old, capacity, "%.4000s.%lld", path, now++);
    } while (access(old, F_OK) == 0);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && status == STATUS_OK; i++) {
        snprintf(from, sizeof from, "%.4000s%s", path, ends[i]);
        snprintf(to, sizeof to, "%.4000s%s", old, ends[i]);
        status = move_file(from, to);
    }
    return status;
}

enum status store_place(const char *from, const char *to)
{
    char folder[PATH_MAX];
    enum status status = move_file(from, to);
    if (status != STATUS_OK) {
        return status;
    }
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(to, '/') - to), to);
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = file < 0 || fsync(file) != 0 ? errno : 0;
    file_close(file);
    return error == 0 ? STATUS_OK : status_fail(STATUS_IO, "cannot write '%s': %s", folder, strerror(error));
}

/* What is made beside a store, and what it is made for. */
struct making {
    char path[PATH_MAX];     /* of the store */
    char new_path[PATH_MAX]; /* "": nothing may be made there */
    struct store *lock;
};

static enum status making_begin(const char *folder, struct making *out)
{
    *out = (struct making){.lock = store_at("")};
    enum status status = store_lock(out->lock, folder);
    if (status != STATUS_OK) {
        return status;
    }
    if (snprintf(out->path, sizeof out->path, "%s/jobs.sqlite", folder) >= (int)sizeof out->path - 64) {
        return status_fail(STATUS_CREATE, "the state folder's path is too long: '%.64s…'", folder);
    }
    snprintf(out->new_path, sizeof out->new_path, "%.4000s" NEW, out->path);
    unlink(out->new_path); /* of a repair that was killed; only the folder's owner can have made it */
    return STATUS_OK;
}

/* Check what was made, set aside what is no job, and give it the store's name; after a failure, remove it. */
static enum status making_end(struct making *making, int64_t highest, enum status status, struct store_repaired *out)
{
    struct store *made = store_at(making->new_path);
    highest = status == STATUS_OK ? larger(highest, highest_of(making->path)) : highest;
    if (status == STATUS_OK && (status = store_open_file(made)) == STATUS_OK &&
        (status = raise_numbers(made, highest, &out->highest)) == STATUS_OK &&
        (status = set_aside(made, out)) == STATUS_OK) {
        status = store_run(made, "PRAGMA journal_mode = DELETE", "end");
    }
    snprintf(out->id, sizeof out->id, "%s", made->id);
    store_close(made);
    if (status == STATUS_OK && (status = put_away(making->path, out->old, sizeof out->old)) == STATUS_OK) {
        status = store_place(making->new_path, making->path);
    }
    if (status != STATUS_OK && making->new_path[0] != '\0') {
        unlink(making->new_path);
    }
    store_close(making->lock);
    return status;
}

enum status store_restore(const char *folder, const char *from, int64_t highest, struct store_repaired *out)
{
    struct making making;
    struct store *backup = store_at(from);
    *out = (struct store_repaired){0};
    enum status status = store_open_to_read(backup);
    if (status == STATUS_OK) {
        status = making_begin(folder, &making);
        if (status == STATUS_OK) {
            status = store_backup(backup, making.new_path);
        }
        status = making_end(&making, highest, status, out);
    }
    store_close(backup);
    return status;
}

/* --- reading what can be read --- */

/* Copy the rows of a table that a direction gives, up to the first that cannot be read. Columns that the new table
 * has not are left out; rows that are there already stay. */
static void copy_rows(struct store *from, struct store *to, const char *table, const char *order)
{
    char sql[STORE_SQL_BYTES], names[STORE_SQL_BYTES / 2] = "rowid", marks[STORE_SQL_BYTES / 4] = "?";
    int column[128] = {0}, n_column = 1;
    sqlite3_stmt *all = NULL, *insert = NULL;
    snprintf(sql, sizeof sql, "SELECT rowid, * FROM %s NOT INDEXED ORDER BY rowid %s", table, order);
    if (sqlite3_prepare_v2(from->base, sql, -1, &all, NULL) != SQLITE_OK) {
        return;
    }
    for (int i = 1; i < sqlite3_column_count(all) && n_column < 128; i++) {
        const char *name = sqlite3_column_name(all, i);
        if (strcmp(name, "id") != 0 &&
            sqlite3_table_column_metadata(to->base, NULL, table, name, NULL, NULL, NULL, NULL, NULL) == SQLITE_OK) {
            size_t n = strlen(names), n_mark = strlen(marks);
            snprintf(names + n, sizeof names - n, ", %s", name);
            snprintf(marks + n_mark, sizeof marks - n_mark, ", ?");
            column[n_column++] = i;
        }
    }
    snprintf(sql, sizeof sql, "INSERT OR IGNORE INTO %s (%s) VALUES (%s)", table, names, marks);
    bool goes_on = sqlite3_prepare_v2(to->base, sql, -1, &insert, NULL) == SQLITE_OK;
    while (goes_on && sqlite3_step(all) == SQLITE_ROW) {
        for (int i = 0; i < n_column; i++) {
            sqlite3_bind_value(insert, i + 1, sqlite3_column_value(all, column[i]));
        }
        goes_on = sqlite3_step(insert) == SQLITE_DONE;
        sqlite3_reset(insert);
    }
    sqlite3_finalize(all);
    sqlite3_finalize(insert);
}

/* Rows from both ends, up to what is damaged in between. */
static enum status copy_readable(struct store *from, struct store *to)
{
    static const char *const tables[] = {"jobs", "history", "audit"};
    enum status status = store_run(to, "BEGIN IMMEDIATE", "copy rows");
    for (size_t i = 0; i < sizeof tables / sizeof *tables && status == STATUS_OK; i++) {
        copy_rows(from, to, tables[i], "ASC");
        copy_rows(from, to, tables[i], "DESC");
    }
    return store_finish(to, status, "copy rows");
}

enum status store_repair(const char *folder, int64_t highest, struct store_repaired *out)
{
    struct making making;
    *out = (struct store_repaired){0};
    enum status status = making_begin(folder, &making);
    struct store *damaged = store_at(making.path), *made = store_at(making.new_path);
    if (status == STATUS_OK && (status = file_make(making.new_path)) == STATUS_OK) {
        status = store_open_file(made);
    }
    if (status == STATUS_OK && store_open_to_read(damaged) == STATUS_OK) {
        status = copy_readable(damaged, made);
    }
    if (status == STATUS_OK) {
        status = store_run(made, "PRAGMA journal_mode = DELETE", "end");
    }
    store_close(damaged);
    store_close(made);
    return making_end(&making, highest, status, out);
}
