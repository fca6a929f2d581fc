/* The statements of a store: prepared once, when it is opened, and how values are bound to them. */
#include "trainerd/daemon/store/store_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ENDS(state) "SELECT id, ended_at FROM jobs INDEXED BY by_state WHERE state = '" state "'"

/* %s: the columns of a record, where the statement has them. */
static const char *const texts[STORE_N_STATEMENT] = {
    [STORE_LAST] = "SELECT state, reason, attempt FROM jobs WHERE id = ?",
    [STORE_HISTORY] = "INSERT INTO history (job, at, state, reason, attempt, text) VALUES (?, ?, ?, ?, ?, ?)",
    [STORE_HISTORY_OF] = "SELECT at, state, reason, attempt, text FROM history WHERE job = ? ORDER BY rowid",
    [STORE_FIND] = "SELECT id FROM jobs WHERE uid = ? AND submission_id = ? AND submission_id <> '' ORDER BY id",
    [STORE_SUBMISSION] = "SELECT submission_id, config, folder, output, settings FROM jobs WHERE id = ?",
    [STORE_AUDIT] = "INSERT INTO audit (at, uid, peer, what, job, exit_code, text) VALUES (?, ?, ?, ?, ?, ?, ?)",
    [STORE_AUDIT_OF] =
        "SELECT id, at, uid, peer, what, job, exit_code, text FROM audit WHERE id < ? ORDER BY id DESC",
    [STORE_AUDIT_CUT] = "DELETE FROM audit WHERE id <= ?",
    [STORE_FACT] = "SELECT value FROM facts WHERE name = ?",
    [STORE_FACT_PUT] = "INSERT OR REPLACE INTO facts VALUES (?, ?)",
    [STORE_USES] = "SELECT name, value FROM facts WHERE name LIKE 'use %' ORDER BY name",
    [STORE_REMOVE] = "DELETE FROM jobs WHERE id = ?",
    [STORE_REMOVE_HISTORY] = "DELETE FROM history WHERE job = ?",
    [STORE_COUNT] = "SELECT state, count(*) FROM jobs INDEXED BY by_state GROUP BY state",
    [STORE_NAMED] = "SELECT id FROM jobs INDEXED BY by_name WHERE name = ? ORDER BY id DESC LIMIT 1",
    [STORE_NAMED_OF] = "SELECT id FROM jobs INDEXED BY by_name WHERE name = ? AND uid = ? ORDER BY id DESC LIMIT 1",
    [STORE_WAITING] = "SELECT DISTINCT uid FROM jobs INDEXED BY by_turn WHERE state = 'QUEUED' LIMIT ?",
    [STORE_WAITING_OF] = "SELECT count(*) FROM jobs INDEXED BY by_turn WHERE state = 'QUEUED' AND uid = ?",
    [STORE_FIRST] = "SELECT id FROM jobs INDEXED BY by_turn WHERE state = 'QUEUED' AND uid = ? "
                    "ORDER BY priority DESC, id LIMIT ?",
    [STORE_RECENT] = "SELECT id, %s FROM jobs INDEXED BY by_state WHERE " STORE_HAS_ENDED
                     " AND ended_at >= ? ORDER BY id DESC LIMIT ?",
    [STORE_ENDS] = ENDS("SUCCEEDED") " UNION ALL " ENDS("FAILED") " UNION ALL " ENDS(
        "CANCELLED") " ORDER BY ended_at, id LIMIT ?",
    [STORE_GET] = "SELECT id, %s FROM jobs WHERE id = ?",
    [STORE_EACH_OPEN] = "SELECT id, %s FROM jobs WHERE NOT " STORE_HAS_ENDED " OR state IS NULL ORDER BY id",
    [STORE_UPDATE] = "UPDATE jobs SET %s",
    [STORE_INSERT] = "INSERT INTO jobs (submission_id, config, settings, folder, output, place, %s) "
                     "VALUES (?, ?, ?, ?, ?, ?, ",
};

enum status store_prepare(struct store *store, enum store_statement which)
{
    const char *text = texts[which], *at = strstr(text, "%s");
    char row[STORE_ROW_BYTES], marks[STORE_ROW_BYTES] = "", sql[STORE_SQL_BYTES];
    if (store->statement[which] != NULL) {
        return STATUS_OK;
    }
    store_row_print(which == STORE_UPDATE ? STORE_ROW_SET : STORE_ROW_NAMES, row);
    if (which == STORE_INSERT) {
        store_row_print(STORE_ROW_MARKS, marks);
    }
    if (at != NULL) {
        snprintf(sql, sizeof sql, "%.*s%s%s%s%s", (int)(at - text), text, row, at + 2, marks,
                 which == STORE_INSERT ? ")" : "");
    }
    return sqlite3_prepare_v3(store->base, at != NULL ? sql : text, -1, SQLITE_PREPARE_PERSISTENT,
                              &store->statement[which], NULL) == SQLITE_OK
               ? STATUS_OK
               : store_fail(store, "find the tables");
}

sqlite3_stmt *store_bind(struct store *store, enum store_statement which, const char *types, ...)
{
    bool is_ready = store_prepare(store, which) == STATUS_OK;
    sqlite3_stmt *statement = store->statement[which];
    int error = is_ready ? SQLITE_OK : SQLITE_ERROR;
    va_list values;
    va_start(values, types);
    for (int i = 1; *types != '\0' && error == SQLITE_OK; i++, types++) {
        if (*types == 'i') {
            error = sqlite3_bind_int64(statement, i, va_arg(values, int64_t));
        } else if (*types == 'd') {
            error = sqlite3_bind_double(statement, i, va_arg(values, double));
        } else {
            error = sqlite3_bind_text(statement, i, va_arg(values, const char *), -1, SQLITE_STATIC);
        }
    }
    va_end(values);
    return error == SQLITE_OK ? statement : NULL;
}

enum status store_end(struct store *store, sqlite3_stmt *statement, int code, const char *doing)
{
    enum status status = code == SQLITE_DONE || code == SQLITE_ROW ? STATUS_OK : store_fail(store, doing);
    if (statement != NULL) {
        sqlite3_reset(statement);
        sqlite3_clear_bindings(statement);
    }
    return status;
}

enum status store_step(struct store *store, sqlite3_stmt *statement, const char *doing)
{
    return store_end(store, statement, sqlite3_step(statement), doing);
}

enum status store_ids(struct store *store, sqlite3_stmt *statement, int64_t *ids_out, size_t *n_out)
{
    int code;
    *n_out = 0;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        ids_out[(*n_out)++] = sqlite3_column_int64(statement, 0);
    }
    return store_end(store, statement, code, "read jobs");
}

void store_finalize(struct store *store)
{
    for (int i = 0; i < STORE_N_STATEMENT; i++) {
        sqlite3_finalize(store->statement[i]);
    }
    for (int i = 0; i < STORE_N_FILTER; i++) {
        sqlite3_finalize(store->count[i]);
        for (int k = 0; k < STORE_N_STATES; k++) {
            sqlite3_finalize(store->select[i][k]);
        }
    }
}
