#include "trainerd/daemon/jobs/store.h"

#include "protocol/file.h"
#include "protocol/log.h"
#include "protocol/memory.h"
#include "trainerd/daemon/jobs/store_row.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STORE_VERSION 2
#define STORE_APPLICATION 0x74726e64 /* "trnd" */
#define SQL_BYTES (3 * STORE_ROW_BYTES)

enum statement { INSERT, UPDATE, SAME, HISTORY, FIND, N_STATEMENT };

struct store {
    sqlite3 *base;
    sqlite3_stmt *statement[N_STATEMENT];
    int lock;
    char path[PATH_MAX];
};

/* --- errors --- */

/* Fail with SQLite's message. STATUS_IO may pass, as a full disk does; damage, STATUS_DATA, does not. */
static enum status fail_sqlite(struct store *store, const char *doing)
{
    int code = sqlite3_errcode(store->base) & 0xff;
    bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
    return status_fail(damaged ? STATUS_DATA : STATUS_IO, "cannot %s in '%s': %s%s", doing, store->path,
                       sqlite3_errmsg(store->base), damaged ? "; expected a job store that is not damaged" : "");
}

static enum status run(struct store *store, const char *sql, const char *doing)
{
    return sqlite3_exec(store->base, sql, NULL, NULL, NULL) == SQLITE_OK ? STATUS_OK : fail_sqlite(store, doing);
}

/* Run a prepared statement that gives no rows. */
static enum status step(struct store *store, sqlite3_stmt *statement, int bound, const char *doing)
{
    enum status status = bound == SQLITE_OK && sqlite3_step(statement) == SQLITE_DONE ? STATUS_OK : fail_sqlite(store, doing);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return status;
}

/* End a transaction: commit it, or roll it back and keep the reason. */
static enum status finish(struct store *store, enum status status, const char *doing)
{
    status = status == STATUS_OK ? run(store, "COMMIT", doing) : status;
    if (status != STATUS_OK) {
        sqlite3_exec(store->base, "ROLLBACK", NULL, NULL, NULL);
    }
    return status;
}

/* --- opening --- */

/* One daemon per folder. The lock ends with the process, however it ends. Unlike flock's, a forked child that has not executed its
 * program yet does not hold it. */
static enum status lock(struct store *store, const char *folder)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/lock", folder) >= (int)sizeof path) {
        return status_fail(STATUS_CREATE, "the state folder's path is too long: '%.64s…'", folder);
    }
    store->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (store->lock < 0) {
        return status_fail(STATUS_CREATE, "cannot make '%s': %s", path, strerror(errno));
    }
    const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(store->lock, F_SETLK, &whole) != 0) {
        return errno == EACCES || errno == EAGAIN
                   ? status_fail(STATUS_PEER, "another daemon serves the state folder '%s'", folder)
                   : status_fail(STATUS_CREATE, "cannot lock '%s': %s", path, strerror(errno));
    }
    return STATUS_OK;
}

static enum status number(struct store *store, const char *sql, int64_t *out)
{
    sqlite3_stmt *statement = NULL;
    enum status status = STATUS_OK;
    if (sqlite3_prepare_v2(store->base, sql, -1, &statement, NULL) != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW) {
        status = fail_sqlite(store, "read");
    } else {
        *out = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    return status;
}

static enum status make_tables(struct store *store)
{
    char row[STORE_ROW_BYTES], sql[SQL_BYTES];
    store_row_print(STORE_ROW_DECLARED, row);
    snprintf(sql, sizeof sql,
             "BEGIN IMMEDIATE;"
             "CREATE TABLE jobs (id INTEGER PRIMARY KEY AUTOINCREMENT, submission_id TEXT, config TEXT, settings BLOB, "
             "folder TEXT, output TEXT, %s);"
             "CREATE UNIQUE INDEX by_submission ON jobs (uid, submission_id) WHERE submission_id <> '';"
             "CREATE TABLE history (job INTEGER, at REAL, state TEXT, reason TEXT, attempt INTEGER, text TEXT);"
             "CREATE INDEX by_job ON history (job);"
             "PRAGMA application_id = %d;"
             "PRAGMA user_version = %d;",
             row, STORE_APPLICATION, STORE_VERSION);
    return finish(store, run(store, sql, "make tables"), "make tables");
}

/* Version 2 has the GPUs that attempts hold. Those that run were begun by a daemon that showed them all of its GPUs, of which their workers take the
 * first ones. */
static enum status update_to_2(struct store *store)
{
    static const char sql[] = "BEGIN IMMEDIATE;"
                              "ALTER TABLE jobs ADD COLUMN gpus INTEGER NOT NULL DEFAULT 0;"
                              "UPDATE jobs SET gpus = CASE WHEN n_gpu < 63 THEN (1 << n_gpu) - 1 ELSE -1 END "
                              "WHERE n_gpu > 0 AND state IN ('PREPARING', 'STARTING', 'RUNNING');"
                              "PRAGMA user_version = 2;";
    return finish(store, run(store, sql, "bring it up to date"), "bring it up to date");
}

/* Check the file's application and version; a new file gets its tables, an older one what its version lacks. */
static enum status check_version(struct store *store)
{
    int64_t application = 0, version = 0, n_table = 0;
    enum status status = number(store, "PRAGMA application_id", &application);
    status = status == STATUS_OK ? number(store, "PRAGMA user_version", &version) : status;
    status = status == STATUS_OK ? number(store, "SELECT count(*) FROM sqlite_master", &n_table) : status;
    if (status != STATUS_OK) {
        return status;
    }
    if (application == 0 && version == 0 && n_table == 0) {
        return make_tables(store);
    }
    if (application != STORE_APPLICATION) {
        return status_fail(STATUS_DATA, "'%s' is another program's SQLite file; expected a job store", store->path);
    }
    if (version == 1) {
        return update_to_2(store);
    }
    if (version != STORE_VERSION) {
        return status_fail(STATUS_DATA, "'%s' has version %lld, written by another trainerd; expected version %d or older",
                           store->path, (long long)version, STORE_VERSION);
    }
    return STATUS_OK;
}

static enum status check_pages(struct store *store)
{
    sqlite3_stmt *statement = NULL;
    enum status status = STATUS_OK;
    if (sqlite3_prepare_v2(store->base, "PRAGMA quick_check(1)", -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        status = fail_sqlite(store, "check pages");
    } else {
        const char *result = (const char *)sqlite3_column_text(statement, 0);
        if (result == NULL || strcmp(result, "ok") != 0) {
            status = status_fail(STATUS_DATA, "'%s' is damaged: %.200s; expected a job store that is not damaged", store->path,
                                 result == NULL ? "quick_check gave no result" : result);
        }
    }
    sqlite3_finalize(statement);
    return status;
}

static enum status prepare(struct store *store)
{
    char names[STORE_ROW_BYTES], marks[STORE_ROW_BYTES], set[STORE_ROW_BYTES], sql[N_STATEMENT][SQL_BYTES];
    store_row_print(STORE_ROW_NAMES, names);
    store_row_print(STORE_ROW_MARKS, marks);
    store_row_print(STORE_ROW_SET, set);
    snprintf(sql[INSERT], SQL_BYTES,
             "INSERT INTO jobs (submission_id, config, settings, folder, output, %s) "
             "VALUES (?, ?, ?, ?, ?, %s)",
             names, marks);
    snprintf(sql[UPDATE], SQL_BYTES, "UPDATE jobs SET %s WHERE id = ?", set);
    snprintf(sql[SAME], SQL_BYTES, "SELECT 1 FROM jobs WHERE id = ? AND state = ? AND reason = ? AND attempt = ?");
    snprintf(sql[HISTORY], SQL_BYTES, "INSERT INTO history (job, at, state, reason, attempt, text) VALUES (?, ?, ?, ?, ?, ?)");
    snprintf(sql[FIND], SQL_BYTES, "SELECT id FROM jobs WHERE uid = ? AND submission_id = ?");
    for (int i = 0; i < N_STATEMENT; i++) {
        if (sqlite3_prepare_v3(store->base, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &store->statement[i], NULL) != SQLITE_OK) {
            return fail_sqlite(store, "find the tables");
        }
    }
    return STATUS_OK;
}

static enum status open_base(struct store *store)
{
    /* SQLite creates its other files with the mode of this one. */
    int file = open(store->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
        return status_fail(STATUS_CREATE, "cannot open '%s': %s", store->path, strerror(errno));
    }
    close(file);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(store->path, &store->base, flags, NULL) != SQLITE_OK) {
        return status_fail(STATUS_CREATE, "cannot open '%s': %s", store->path, sqlite3_errmsg(store->base));
    }
    /* Exclusive: SQLite then needs no shared mapping, which a full disk would turn into a SIGBUS. */
    enum status status = run(store,
                             "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                             "PRAGMA temp_store = MEMORY;",
                             "begin");
    status = status == STATUS_OK ? check_version(store) : status;
    status = status == STATUS_OK ? check_pages(store) : status;
    return status == STATUS_OK ? prepare(store) : status;
}

enum status store_open(const char *folder, struct store **out)
{
    struct store *store = memory_alloc(1, sizeof *store);
    store->lock = -1;
    enum status status = file_folder_make(folder);
    status = status == STATUS_OK ? lock(store, folder) : status;
    if (status == STATUS_OK && snprintf(store->path, sizeof store->path, "%s/jobs.sqlite", folder) >= (int)sizeof store->path) {
        status = status_fail(STATUS_CREATE, "the state folder's path is too long: '%.64s…'", folder);
    }
    status = status == STATUS_OK ? open_base(store) : status;
    if (status != STATUS_OK) {
        store_close(store);
        return status;
    }
    *out = store;
    return STATUS_OK;
}

void store_close(struct store *store)
{
    if (store == NULL) {
        return;
    }
    for (int i = 0; i < N_STATEMENT; i++) {
        sqlite3_finalize(store->statement[i]);
    }
    sqlite3_close(store->base);
    if (store->lock >= 0) {
        close(store->lock);
    }
    free(store);
}

/* --- writing --- */

static enum status save_history(struct store *store, const struct job_record *record)
{
    sqlite3_stmt *statement = store->statement[HISTORY];
    int bound = sqlite3_bind_int64(statement, 1, record->id) | sqlite3_bind_double(statement, 2, record->changed_at) |
                sqlite3_bind_text(statement, 3, job_state_name(record->state), -1, SQLITE_STATIC) |
                sqlite3_bind_text(statement, 4, job_reason_name(record->reason), -1, SQLITE_STATIC) |
                sqlite3_bind_int64(statement, 5, record->attempt) |
                sqlite3_bind_text(statement, 6, record->reason_text, -1, SQLITE_STATIC);
    return step(store, statement, bound, "save a job's history");
}

/* The store has the job's state, reason and attempt already: its history gets no line. */
static bool is_recorded(struct store *store, const struct job_record *record)
{
    sqlite3_stmt *statement = store->statement[SAME];
    sqlite3_bind_int64(statement, 1, record->id);
    sqlite3_bind_text(statement, 2, job_state_name(record->state), -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 3, job_reason_name(record->reason), -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 4, record->attempt);
    bool known = sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return known;
}

/* The owner's job of that submission id; 0: none. */
static enum status find_submission(struct store *store, uid_t uid, const char *submission_id, int64_t *out)
{
    sqlite3_stmt *statement = store->statement[FIND];
    sqlite3_bind_int64(statement, 1, (int32_t)uid); /* as store_row saves it */
    sqlite3_bind_text(statement, 2, submission_id, -1, SQLITE_STATIC);
    int code = sqlite3_step(statement);
    enum status status = code == SQLITE_ROW || code == SQLITE_DONE ? STATUS_OK : fail_sqlite(store, "look for a submission");
    *out = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return status;
}

/* The settings, concatenated, each with its NUL. */
static char *settings_join(const struct store_submission *submission, size_t *n_out)
{
    size_t n = 0, at = 0;
    for (size_t i = 0; i < submission->n_set; i++) {
        n += strlen(submission->set[i]) + 1;
    }
    char *all = memory_alloc(n + 1, 1);
    for (size_t i = 0; i < submission->n_set; i++) {
        size_t size = strlen(submission->set[i]) + 1;
        memcpy(all + at, submission->set[i], size);
        at += size;
    }
    *n_out = n;
    return all;
}

static enum status insert(struct store *store, struct job_record *record, const struct store_submission *submission)
{
    size_t n_settings;
    char *settings = settings_join(submission, &n_settings);
    sqlite3_stmt *statement = store->statement[INSERT];
    int bound = sqlite3_bind_text(statement, 1, submission->submission_id, -1, SQLITE_STATIC) |
                sqlite3_bind_text(statement, 2, submission->config, -1, SQLITE_STATIC) |
                sqlite3_bind_blob64(statement, 3, settings, n_settings, SQLITE_STATIC) |
                sqlite3_bind_text(statement, 4, submission->folder, -1, SQLITE_STATIC) |
                sqlite3_bind_text(statement, 5, submission->output, -1, SQLITE_STATIC) | store_row_bind(statement, 6, record);
    enum status status = step(store, statement, bound, "save a job");
    free(settings);
    return status;
}

enum status store_insert(struct store *store, struct job_record *record, const struct store_submission *submission,
                         int64_t *existing_out)
{
    *existing_out = 0;
    enum status status = STATUS_OK;
    if (submission->submission_id[0] != '\0') {
        status = find_submission(store, record->uid, submission->submission_id, existing_out);
    }
    if (status != STATUS_OK || *existing_out != 0) {
        return status;
    }
    status = run(store, "BEGIN IMMEDIATE", "save a job");
    if (status != STATUS_OK) {
        return status;
    }
    status = insert(store, record, submission);
    if (status == STATUS_OK) {
        record->id = sqlite3_last_insert_rowid(store->base);
        status = save_history(store, record);
    }
    return finish(store, status, "save a job");
}

enum status store_update(struct store *store, const struct job_record *record)
{
    enum status status = run(store, "BEGIN IMMEDIATE", "save a change of a job");
    if (status != STATUS_OK) {
        return status;
    }
    if (!is_recorded(store, record)) {
        status = save_history(store, record);
    }
    if (status == STATUS_OK) {
        sqlite3_stmt *statement = store->statement[UPDATE];
        int bound = store_row_bind(statement, 1, record) | sqlite3_bind_int64(statement, store_row_n + 1, record->id);
        status = step(store, statement, bound, "save a change of a job");
    }
    return finish(store, status, "save a change of a job");
}

enum status store_probe(struct store *store)
{
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA user_version = %d", STORE_VERSION); /* writes a page even when the value is the same */
    return run(store, sql, "write");
}

/* --- reading --- */

static enum status begin_reading(struct store *store, const char *sql, int64_t id, sqlite3_stmt **out)
{
    if (sqlite3_prepare_v2(store->base, sql, -1, out, NULL) != SQLITE_OK ||
        (id != 0 && sqlite3_bind_int64(*out, 1, id) != SQLITE_OK)) {
        return fail_sqlite(store, "read");
    }
    return STATUS_OK;
}

enum status store_each(struct store *store, bool (*each)(void *context, const struct job_record *record), void *context)
{
    char names[STORE_ROW_BYTES], sql[SQL_BYTES];
    store_row_print(STORE_ROW_NAMES, names);
    snprintf(sql, sizeof sql, "SELECT id, %s FROM jobs ORDER BY id", names);
    sqlite3_stmt *statement = NULL;
    enum status status = begin_reading(store, sql, 0, &statement);
    int code = SQLITE_DONE;
    while (status == STATUS_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct job_record record;
        status = store_row_read(statement, 1, &record);
        record.id = sqlite3_column_int64(statement, 0);
        if (status != STATUS_OK) {
            status = status_fail(status, "'%s', job %lld: %s", store->path, (long long)record.id, status_reason());
        } else if (!each(context, &record)) {
            code = SQLITE_DONE;
            break;
        }
    }
    if (status == STATUS_OK && code != SQLITE_DONE) {
        status = fail_sqlite(store, "read jobs");
    }
    sqlite3_finalize(statement);
    return status;
}

static char *text_of(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    char *copy = strdup(text == NULL ? "" : text);
    ASSERT(copy != NULL);
    return copy;
}

/* Split the settings at the NULs of settings_join. */
static void settings_split(struct store_submission *out, const char *all, size_t n_bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        n += all[i] == '\0';
    }
    const char **set = memory_alloc(n + 1, sizeof *set);
    for (size_t i = 0, at = 0; i < n; i++) {
        set[i] = strdup(all + at);
        ASSERT(set[i] != NULL);
        at += strlen(all + at) + 1;
    }
    out->set = set;
    out->n_set = n;
}

enum status store_submission_get(struct store *store, int64_t id, struct store_submission *out)
{
    static const char sql[] = "SELECT submission_id, config, folder, output, settings FROM jobs WHERE id = ?";
    sqlite3_stmt *statement = NULL;
    enum status status = begin_reading(store, sql, id, &statement);
    int code = status == STATUS_OK ? sqlite3_step(statement) : SQLITE_DONE;
    if (status == STATUS_OK && code == SQLITE_ROW) {
        *out = (struct store_submission){.submission_id = text_of(statement, 0),
                                         .config = text_of(statement, 1),
                                         .folder = text_of(statement, 2),
                                         .output = text_of(statement, 3)};
        const char *all = sqlite3_column_blob(statement, 4);
        settings_split(out, all, (size_t)sqlite3_column_bytes(statement, 4));
    } else if (status == STATUS_OK) {
        status = code == SQLITE_DONE ? status_fail(STATUS_NO_INPUT, "there is no job %lld", (long long)id)
                                     : fail_sqlite(store, "read a job");
    }
    sqlite3_finalize(statement);
    return status;
}

void store_submission_release(struct store_submission *submission)
{
    free((char *)submission->submission_id);
    free((char *)submission->config);
    free((char *)submission->folder);
    free((char *)submission->output);
    for (size_t i = 0; i < submission->n_set; i++) {
        free((char *)submission->set[i]);
    }
    free((const char **)submission->set);
    *submission = (struct store_submission){0};
}

enum status store_history(struct store *store, int64_t id, bool (*each)(void *context, const struct store_change *change),
                          void *context)
{
    static const char sql[] = "SELECT at, state, reason, attempt, text FROM history WHERE job = ? ORDER BY rowid";
    sqlite3_stmt *statement = NULL;
    enum status status = begin_reading(store, sql, id, &statement);
    int code = SQLITE_DONE;
    while (status == STATUS_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct store_change change = {.at = sqlite3_column_double(statement, 0), .attempt = sqlite3_column_int(statement, 3)};
        const char *state = (const char *)sqlite3_column_text(statement, 1);
        const char *reason = (const char *)sqlite3_column_text(statement, 2);
        const char *text = (const char *)sqlite3_column_text(statement, 4);
        if (state == NULL || reason == NULL || !job_state_find(state, &change.state) ||
            !job_reason_find(reason, &change.reason)) {
            status = status_fail(STATUS_DATA, "'%s': the history of job %lld has an unknown state or reason", store->path,
                                 (long long)id);
            break;
        }
        snprintf(change.text, sizeof change.text, "%s", text == NULL ? "" : text);
        if (!each(context, &change)) {
            code = SQLITE_DONE;
            break;
        }
    }
    if (status == STATUS_OK && code != SQLITE_DONE) {
        status = fail_sqlite(store, "read a job's history");
    }
    sqlite3_finalize(statement);
    return status;
}
