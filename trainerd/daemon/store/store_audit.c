#include "trainerd/daemon/store/store_audit.h"

#include "protocol/base/clock.h"
#include "trainerd/daemon/store/store_state.h"

#include <stdio.h>
#include <string.h>

#define CUT_EVERY 1000 /* rows */

static enum status save(struct store *store, const struct store_audit *row)
{
    sqlite3_stmt *statement = store->statement[STORE_AUDIT];
    int bound = sqlite3_bind_double(statement, 1, row->at) | sqlite3_bind_int64(statement, 2, row->uid) |
                sqlite3_bind_text(statement, 3, row->from, -1, SQLITE_STATIC) |
                sqlite3_bind_text(statement, 4, row->what, -1, SQLITE_STATIC) |
                sqlite3_bind_int64(statement, 5, row->job) | sqlite3_bind_int(statement, 6, row->exit_code) |
                sqlite3_bind_text(statement, 7, row->text, -1, SQLITE_STATIC);
    enum status status = bound == SQLITE_OK && sqlite3_step(statement) == SQLITE_DONE
                             ? STATUS_OK
                             : store_fail(store, "save an audit record");
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    int64_t id = sqlite3_last_insert_rowid(store->base);
    if (status == STATUS_OK && id % CUT_EVERY == 0 && id > STORE_AUDIT_MOST) {
        char sql[96];
        snprintf(sql, sizeof sql, "DELETE FROM audit WHERE id <= %lld", (long long)(id - STORE_AUDIT_MOST));
        status = store_run(store, sql, "remove old audit records");
    }
    return status;
}

void store_audit_begin(struct store *store, const struct store_audit *request)
{
    struct store_request *own = &store->request;
    snprintf(own->from, sizeof own->from, "%s", request->from);
    snprintf(own->what, sizeof own->what, "%s", request->what);
    own->row = *request;
    own->row.from = own->from;
    own->row.what = own->what;
    own->row.text = "";
    own->row.at = clock_wall_s();
    own->is_open = true;
    own->is_saved = false;
}

enum status store_audit_change(struct store *store, int64_t job)
{
    struct store_request *own = &store->request;
    if (!own->is_open) {
        return STATUS_OK;
    }
    struct store_audit row = own->row;
    row.job = job != 0 ? job : row.job;
    return save(store, &row);
}

void store_audit_leave(struct store *store)
{
    store->request.is_open = false;
}

enum status store_audit_end(struct store *store, enum status status, const char *text)
{
    struct store_request *own = &store->request;
    if (!own->is_open) {
        return STATUS_OK;
    }
    struct store_audit row = own->row;
    bool is_saved = own->is_saved;
    own->is_open = false;
    row.exit_code = status_exit_code(status);
    row.text = status == STATUS_OK ? "" : text;
    return (is_saved && status == STATUS_OK) || row.text == NULL ? STATUS_OK : save(store, &row);
}

enum status store_audit_put(struct store *store, const struct store_audit *row)
{
    struct store_audit now = *row;
    now.at = clock_wall_s();
    return save(store, &now);
}

static const char *text_at(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text != NULL ? text : "";
}

enum status store_audit_each(struct store *store, int64_t before,
                             bool (*each)(void *context, const struct store_audit *row), void *context)
{
    static const char sql[] =
        "SELECT id, at, uid, peer, what, job, exit_code, text FROM audit WHERE id < ? ORDER BY id DESC";
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(store->base, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_bind_int64(statement, 1, before) != SQLITE_OK) {
        sqlite3_finalize(statement);
        return store_fail(store, "read audit records");
    }
    int code = SQLITE_DONE;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        const struct store_audit row = {.id = sqlite3_column_int64(statement, 0),
                                        .at = sqlite3_column_double(statement, 1),
                                        .uid = sqlite3_column_int64(statement, 2),
                                        .from = text_at(statement, 3),
                                        .what = text_at(statement, 4),
                                        .job = sqlite3_column_int64(statement, 5),
                                        .exit_code = sqlite3_column_int(statement, 6),
                                        .text = text_at(statement, 7)};
        if (!each(context, &row)) {
            code = SQLITE_DONE;
            break;
        }
    }
    enum status status = code == SQLITE_DONE ? STATUS_OK : store_fail(store, "read audit records");
    sqlite3_finalize(statement);
    return status;
}
