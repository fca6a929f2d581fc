#include "trainerd/daemon/store/store.h"

#include "protocol/base/fault.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "trainerd/daemon/store/store_row.h"
#include "trainerd/daemon/store/store_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Run a prepared statement that gives no rows. */
static enum status step(struct store *store, sqlite3_stmt *statement, int bound, const char *doing)
{
    enum status status = bound == SQLITE_OK && sqlite3_step(statement) == SQLITE_DONE ? STATUS_OK
                                                                                      : store_fail(store, doing);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return status;
}

/* --- writing --- */

static enum status save_history(struct store *store, const struct job_record *record)
{
    sqlite3_stmt *statement = store->statement[STORE_HISTORY];
    int bound = sqlite3_bind_int64(statement, 1, record->id) |
                sqlite3_bind_double(statement, 2, record->times.changed_at) |
                sqlite3_bind_text(statement, 3, job_state_name(record->state), -1, SQLITE_STATIC) |
                sqlite3_bind_text(statement, 4, job_reason_name(record->reason), -1, SQLITE_STATIC) |
                sqlite3_bind_int64(statement, 5, record->attempt) |
                sqlite3_bind_text(statement, 6, record->reason_text, -1, SQLITE_STATIC);
    return step(store, statement, bound, "save a job's history");
}

/* The store has the job's state, reason and attempt already: its history gets no line. */
static bool is_recorded(struct store *store, const struct job_record *record)
{
    sqlite3_stmt *statement = store->statement[STORE_SAME];
    sqlite3_bind_int64(statement, 1, record->id);
    sqlite3_bind_text(statement, 2, job_state_name(record->state), -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 3, job_reason_name(record->reason), -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 4, record->attempt);
    bool known = sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return known;
}

/* The first of the owner's jobs of that submission id; 0: none. */
static enum status find_submission(struct store *store, uid_t uid, const char *submission_id, int64_t *out)
{
    sqlite3_stmt *statement = store->statement[STORE_FIND];
    sqlite3_bind_int64(statement, 1, (int32_t)uid); /* as store_row saves it */
    sqlite3_bind_text(statement, 2, submission_id, -1, SQLITE_STATIC);
    int code = sqlite3_step(statement);
    enum status status = code == SQLITE_ROW || code == SQLITE_DONE ? STATUS_OK
                                                                   : store_fail(store, "look for a submission");
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

/* place: of the job in its submission */
static enum status insert(struct store *store, struct job_record *record, const struct store_submission *submission,
                          size_t place)
{
    size_t n_settings;
    char *settings = settings_join(submission, &n_settings);
    sqlite3_stmt *statement = store->statement[STORE_INSERT];
    int bound = sqlite3_bind_text(statement, 1, submission->submission_id, -1, SQLITE_STATIC) |
                sqlite3_bind_text(statement, 2, submission->config, -1, SQLITE_STATIC) |
                sqlite3_bind_blob64(statement, 3, settings, n_settings, SQLITE_STATIC) |
                sqlite3_bind_text(statement, 4, submission->folder, -1, SQLITE_STATIC) |
                sqlite3_bind_text(statement, 5, submission->output, -1, SQLITE_STATIC) |
                sqlite3_bind_int64(statement, 6, (int64_t)place) | store_row_bind(statement, 7, record);
    enum status status = step(store, statement, bound, "save a job");
    free(settings);
    if (status == STATUS_OK) {
        record->id = sqlite3_last_insert_rowid(store->base);
        status = save_history(store, record);
    }
    return status;
}

enum status store_insert(struct store *store, struct job_record *record, const struct store_submission *submission,
                         size_t n, int64_t *existing_out)
{
    *existing_out = 0;
    enum status status = STATUS_OK;
    if (submission->submission_id[0] != '\0') {
        status = find_submission(store, record->uid, submission->submission_id, existing_out);
    }
    if (status != STATUS_OK || *existing_out != 0) {
        return status;
    }
    status = store_run(store, "BEGIN IMMEDIATE", "save a job");
    if (status != STATUS_OK) {
        return status;
    }
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        status = insert(store, &record[i], &submission[i], i);
        FAULT(ADMIT);
    }
    if (status == STATUS_OK) {
        status = store_audit_change(store, record[0].id);
    }
    status = store_finish(store, status, "save a job");
    if (status == STATUS_OK) {
        FAULT(ADMITTED);
    }
    return status;
}

enum status store_submitted(struct store *store, uid_t uid, const char *submission_id,
                            void (*each)(void *context, int64_t id), void *context)
{
    sqlite3_stmt *statement = store->statement[STORE_FIND];
    sqlite3_bind_int64(statement, 1, (int32_t)uid);
    sqlite3_bind_text(statement, 2, submission_id, -1, SQLITE_STATIC);
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        each(context, sqlite3_column_int64(statement, 0));
    }
    enum status status = code == SQLITE_DONE ? STATUS_OK : store_fail(store, "look for a submission");
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return status;
}

static enum status update(struct store *store, const struct job_record *record)
{
    enum status status = is_recorded(store, record) ? STATUS_OK : save_history(store, record);
    if (status == STATUS_OK) {
        sqlite3_stmt *statement = store->statement[STORE_UPDATE];
        int bound = store_row_bind(statement, 1, record) | sqlite3_bind_int64(statement, store_row_n + 1, record->id);
        status = step(store, statement, bound, "save a change of a job");
    }
    if (status != STATUS_OK) {
        return status;
    }
    return store_audit_change(store, record->id);
}

enum status store_update(struct store *store, const struct job_record *record, const struct store_use *use)
{
    enum status status = store_run(store, "BEGIN IMMEDIATE", "save a change of a job");
    if (status != STATUS_OK) {
        return status;
    }
    status = update(store, record);
    status = status == STATUS_OK && use != NULL ? store_use_save(store, use) : status;
    return store_finish(store, status, "save a change of a job");
}

enum status store_update_some(struct store *store, const struct job_record *record, size_t n,
                              const struct slice *slice, size_t *n_out)
{
    enum status status = store_run(store, "BEGIN IMMEDIATE", "save changes of jobs");
    *n_out = 0;
    if (status != STATUS_OK) {
        return status;
    }
    size_t at = 0;
    while (at < n && status == STATUS_OK && (at == 0 || slice_has_time(slice))) {
        status = update(store, &record[at++]);
        FAULT(CHANGE);
    }
    status = store_finish(store, status, "save changes of jobs");
    *n_out = status == STATUS_OK ? at : 0;
    return status;
}

enum status store_remove(struct store *store, const int64_t *ids, size_t n)
{
    char sql[128];
    enum status status = store_run(store, "BEGIN IMMEDIATE", "remove jobs");
    if (status != STATUS_OK) {
        return status;
    }
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        snprintf(sql, sizeof sql, "DELETE FROM history WHERE job = %lld; DELETE FROM jobs WHERE id = %lld;",
                 (long long)ids[i], (long long)ids[i]);
        status = store_run(store, sql, "remove jobs");
    }
    return store_finish(store, status, "remove jobs");
}

enum status store_probe(struct store *store)
{
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA user_version = %d",
             STORE_VERSION); /* writes a page even when the value is the same */
    return store_run(store, sql, "write");
}

enum status store_fact_save(struct store *store, const char *name, const char *value)
{
    sqlite3_stmt *statement = NULL;
    bool is_ready = sqlite3_prepare_v2(store->base, "INSERT OR REPLACE INTO facts VALUES (?, ?)", -1, &statement,
                                       NULL) == SQLITE_OK;
    int bound = is_ready ? sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC) |
                               sqlite3_bind_text(statement, 2, value, -1, SQLITE_STATIC)
                         : SQLITE_ERROR;
    enum status status = bound == SQLITE_OK && sqlite3_step(statement) == SQLITE_DONE
                             ? STATUS_OK
                             : store_fail(store, "save a fact");
    sqlite3_finalize(statement);
    return status;
}

enum status store_fact_put(struct store *store, const char *name, const char *value)
{
    enum status status = store_run(store, "BEGIN IMMEDIATE", "save a fact");
    if (status != STATUS_OK) {
        return status;
    }
    status = store_fact_save(store, name, value);
    if (status == STATUS_OK) {
        status = store_audit_change(store, 0);
    }
    return store_finish(store, status, "save a fact");
}

/* --- reading --- */

enum status store_fact_get(struct store *store, const char *name, char out[STORE_FACT_BYTES])
{
    sqlite3_stmt *statement = NULL;
    out[0] = '\0';
    if (sqlite3_prepare_v2(store->base, "SELECT value FROM facts WHERE name = ?", -1, &statement, NULL) !=
            SQLITE_OK ||
        sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC) != SQLITE_OK) {
        sqlite3_finalize(statement);
        return store_fail(store, "read a fact");
    }
    int code = sqlite3_step(statement);
    enum status status = code == SQLITE_ROW || code == SQLITE_DONE ? STATUS_OK : store_fail(store, "read a fact");
    const char *value = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    snprintf(out, STORE_FACT_BYTES, "%s", value != NULL ? value : "");
    sqlite3_finalize(statement);
    return status;
}

enum status store_highest(struct store *store, int64_t *out)
{
    return store_number(store,
                        "SELECT max(coalesce((SELECT max(id) FROM jobs), 0), "
                        "coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = 'jobs'), 0))",
                        out);
}

static enum status begin_reading(struct store *store, const char *sql, int64_t id, sqlite3_stmt **out)
{
    if (sqlite3_prepare_v2(store->base, sql, -1, out, NULL) != SQLITE_OK ||
        (id != 0 && sqlite3_bind_int64(*out, 1, id) != SQLITE_OK)) {
        return store_fail(store, "read");
    }
    return STATUS_OK;
}

enum status store_each(struct store *store, bool (*each)(void *context, const struct job_record *record),
                       void *context)
{
    char names[STORE_ROW_BYTES], sql[STORE_SQL_BYTES];
    store_row_print(STORE_ROW_NAMES, names);
    snprintf(sql, sizeof sql, "SELECT id, %s FROM jobs ORDER BY id", names);
    sqlite3_stmt *statement = NULL;
    enum status status = begin_reading(store, sql, 0, &statement);
    int code = SQLITE_DONE;
    while (status == STATUS_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct job_record record;
        bool is_job = store_row_read(statement, 1, &record) == STATUS_OK;
        record.id = sqlite3_column_int64(statement, 0);
        if (!is_job) {
            log_error("'%s', job %lld: %s; it is skipped", store->path, (long long)record.id, status_reason());
        } else if (!each(context, &record)) {
            code = SQLITE_DONE;
            break;
        }
    }
    if (status == STATUS_OK && code != SQLITE_DONE) {
        status = store_fail(store, "read jobs");
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
                                     : store_fail(store, "read a job");
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

enum status store_history(struct store *store, int64_t id,
                          bool (*each)(void *context, const struct store_change *change), void *context)
{
    static const char sql[] = "SELECT at, state, reason, attempt, text FROM history WHERE job = ? ORDER BY rowid";
    sqlite3_stmt *statement = NULL;
    enum status status = begin_reading(store, sql, id, &statement);
    int code = SQLITE_DONE;
    while (status == STATUS_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct store_change change = {.at = sqlite3_column_double(statement, 0),
                                      .attempt = sqlite3_column_int(statement, 3)};
        const char *state = (const char *)sqlite3_column_text(statement, 1);
        const char *reason = (const char *)sqlite3_column_text(statement, 2);
        const char *text = (const char *)sqlite3_column_text(statement, 4);
        if (state == NULL || reason == NULL || !job_state_find(state, &change.state) ||
            !job_reason_find(reason, &change.reason)) {
            status = status_fail(STATUS_DATA, "'%s': the history of job %lld has an unknown state or reason",
                                 store->path, (long long)id);
            break;
        }
        snprintf(change.text, sizeof change.text, "%s", text == NULL ? "" : text);
        if (!each(context, &change)) {
            code = SQLITE_DONE;
            break;
        }
    }
    if (status == STATUS_OK && code != SQLITE_DONE) {
        status = store_fail(store, "read a job's history");
    }
    sqlite3_finalize(statement);
    return status;
}
