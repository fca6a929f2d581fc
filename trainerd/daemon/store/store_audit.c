#include "trainerd/daemon/store/store_audit.h"

#include "protocol/base/clock.h"
#include "trainerd/daemon/store/store_state.h"

#include <stdio.h>
#include <string.h>

#define CUT_EVERY 1000 /* rows */

static enum status save(struct store *store, const struct store_audit *row)
{
    sqlite3_stmt *statement = store_bind(store, STORE_AUDIT, "dittiit", row->at, row->uid, row->from, row->what,
                                         row->job, (int64_t)row->exit_code, row->text);
    enum status status = store_step(store, statement, "save an audit record");
    int64_t id = sqlite3_last_insert_rowid(store->base);
    if (status == STATUS_OK && id % CUT_EVERY == 0 && id > STORE_AUDIT_MOST) {
        status = store_step(store, store_bind(store, STORE_AUDIT_CUT, "i", id - STORE_AUDIT_MOST),
                            "remove old audit records");
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

enum status store_audit_each(struct store *store, int64_t before,
                             bool (*each)(void *context, const struct store_audit *row), void *context)
{
    sqlite3_stmt *statement = store_bind(store, STORE_AUDIT_OF, "i", before);
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        const struct store_audit row = {.id = sqlite3_column_int64(statement, 0),
                                        .at = sqlite3_column_double(statement, 1),
                                        .uid = sqlite3_column_int64(statement, 2),
                                        .from = store_text(statement, 3),
                                        .what = store_text(statement, 4),
                                        .job = sqlite3_column_int64(statement, 5),
                                        .exit_code = sqlite3_column_int(statement, 6),
                                        .text = store_text(statement, 7)};
        if (!each(context, &row)) {
            break;
        }
    }
    return store_end(store, statement, code, "read audit records");
}
