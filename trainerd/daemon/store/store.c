#include "trainerd/daemon/store/store.h"

#include "protocol/base/fault.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "trainerd/daemon/store/store_row.h"
#include "trainerd/daemon/store/store_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- writing --- */

static enum status save_history(struct store *store, const struct job_record *record)
{
    sqlite3_stmt *statement = store_bind(store, STORE_HISTORY, "idttit", record->id, record->times.changed_at,
                                         job_state_name(record->state), job_reason_name(record->reason),
                                         (int64_t)record->attempt, record->reason_text);
    return store_step(store, statement, "save a job's history");
}

/* Take a job out of its state's count. *changes_out: its state, reason or attempt change (record NULL: it goes) */
static enum status leave_state(struct store *store, int64_t id, const struct job_record *record, bool *changes_out)
{
    sqlite3_stmt *statement = store_bind(store, STORE_LAST, "i", id);
    int code = sqlite3_step(statement);
    enum job_state state;
    *changes_out = code != SQLITE_ROW || record == NULL ||
                   strcmp(store_text(statement, 0), job_state_name(record->state)) != 0 ||
                   strcmp(store_text(statement, 1), job_reason_name(record->reason)) != 0 ||
                   sqlite3_column_int64(statement, 2) != record->attempt;
    if (code == SQLITE_ROW && job_state_find(store_text(statement, 0), &state)) {
        store->n_more[state]--;
    }
    return store_end(store, statement, code, "read a job");
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
    sqlite3_stmt *statement = store_bind(store, STORE_INSERT, "tt", submission->submission_id, submission->config);
    int bound = sqlite3_bind_blob64(statement, 3, settings, n_settings, SQLITE_STATIC) |
                sqlite3_bind_text(statement, 4, submission->folder, -1, SQLITE_STATIC) |
                sqlite3_bind_text(statement, 5, submission->output, -1, SQLITE_STATIC) |
                sqlite3_bind_int64(statement, 6, (int64_t)place) | store_row_bind(statement, 7, record);
    enum status status = store_step(store, bound == SQLITE_OK ? statement : NULL, "save a job");
    free(settings);
    if (status == STATUS_OK) {
        record->id = sqlite3_last_insert_rowid(store->base);
        store->n_more[record->state]++;
        status = save_history(store, record);
    }
    return status;
}

static void keep_first(void *context, int64_t id)
{
    int64_t *first = context;
    *first = *first == 0 ? id : *first;
}

enum status store_insert(struct store *store, struct job_record *record, const struct store_submission *submission,
                         size_t n, int64_t *existing_out)
{
    *existing_out = 0;
    enum status status = store_submitted(store, record->uid, submission->submission_id, keep_first, existing_out);
    if (status != STATUS_OK || *existing_out != 0) {
        return status;
    }
    status = store_run(store, "BEGIN IMMEDIATE", "save a job");
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
    sqlite3_stmt *statement = store_bind(store, STORE_FIND, "it", (int64_t)(int32_t)uid, submission_id);
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        each(context, sqlite3_column_int64(statement, 0));
    }
    return store_end(store, statement, code, "look for a submission");
}

static enum status update(struct store *store, const struct job_record *record)
{
    bool changes;
    enum status status = leave_state(store, record->id, record, &changes);
    status = status == STATUS_OK && changes ? save_history(store, record) : status;
    store->n_more[record->state]++;
    if (status == STATUS_OK) {
        sqlite3_stmt *statement = store_bind(store, STORE_UPDATE, "");
        int bound = store_row_bind(statement, 1, record) | sqlite3_bind_int64(statement, store_row_n + 1, record->id);
        status = store_step(store, bound == SQLITE_OK ? statement : NULL, "save a change of a job");
    }
    if (status != STATUS_OK) {
        return status;
    }
    return store_audit_change(store, record->id);
}

enum status store_update(struct store *store, const struct job_record *record, const struct store_use *use)
{
    enum status status = store_run(store, "BEGIN IMMEDIATE", "save a change of a job");
    if (status == STATUS_OK) {
        status = update(store, record);
    }
    status = status == STATUS_OK && use != NULL ? store_use_save(store, use) : status;
    return store_finish(store, status, "save a change of a job");
}

enum status store_update_some(struct store *store, const struct job_record *record, size_t n,
                              const struct slice *slice, size_t *n_out)
{
    enum status status = store_run(store, "BEGIN IMMEDIATE", "save changes of jobs");
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
    enum status status = store_run(store, "BEGIN IMMEDIATE", "remove jobs");
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        bool changes;
        if ((status = leave_state(store, ids[i], NULL, &changes)) == STATUS_OK &&
            (status = store_step(store, store_bind(store, STORE_REMOVE_HISTORY, "i", ids[i]), "remove jobs")) ==
                STATUS_OK) {
            status = store_step(store, store_bind(store, STORE_REMOVE, "i", ids[i]), "remove jobs");
        }
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
    return store_step(store, store_bind(store, STORE_FACT_PUT, "tt", name, value), "save a fact");
}

enum status store_fact_put(struct store *store, const char *name, const char *value)
{
    enum status status = store_run(store, "BEGIN IMMEDIATE", "save a fact");
    if (status == STATUS_OK && (status = store_fact_save(store, name, value)) == STATUS_OK) {
        status = store_audit_change(store, 0);
    }
    return store_finish(store, status, "save a fact");
}

/* --- reading --- */

enum status store_fact_get(struct store *store, const char *name, char out[STORE_FACT_BYTES])
{
    sqlite3_stmt *statement = store_bind(store, STORE_FACT, "t", name);
    int code = sqlite3_step(statement);
    snprintf(out, STORE_FACT_BYTES, "%s", code == SQLITE_ROW ? store_text(statement, 0) : "");
    return store_end(store, statement, code, "read a fact");
}

enum status store_highest(struct store *store, int64_t *out)
{
    return store_number(store,
                        "SELECT max(coalesce((SELECT max(id) FROM jobs), 0), "
                        "coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = 'jobs'), 0))",
                        out);
}

static char *text_of(sqlite3_stmt *statement, int column)
{
    char *copy = strdup(store_text(statement, column));
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
    sqlite3_stmt *statement = store_bind(store, STORE_SUBMISSION, "i", id);
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        *out = (struct store_submission){.submission_id = text_of(statement, 0),
                                         .config = text_of(statement, 1),
                                         .folder = text_of(statement, 2),
                                         .output = text_of(statement, 3)};
        const char *all = sqlite3_column_blob(statement, 4);
        settings_split(out, all, (size_t)sqlite3_column_bytes(statement, 4));
    }
    enum status status = store_end(store, statement, code, "read a job");
    return code == SQLITE_DONE ? status_fail(STATUS_NO_INPUT, "there is no job %lld", (long long)id) : status;
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
    sqlite3_stmt *statement = store_bind(store, STORE_HISTORY_OF, "i", id);
    bool is_known = true;
    int code = SQLITE_DONE;
    while (is_known && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        struct store_change change = {.at = sqlite3_column_double(statement, 0),
                                      .attempt = sqlite3_column_int(statement, 3)};
        is_known = job_state_find(store_text(statement, 1), &change.state) &&
                   job_reason_find(store_text(statement, 2), &change.reason);
        snprintf(change.text, sizeof change.text, "%s", store_text(statement, 4));
        if (is_known && !each(context, &change)) {
            break;
        }
    }
    enum status status = store_end(store, statement, code, "read a job's history");
    return is_known ? status
                    : status_fail(STATUS_DATA, "'%s': the history of job %lld has an unknown state or reason",
                                  store->path, (long long)id);
}
