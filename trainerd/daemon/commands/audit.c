/* Audit records: written around requests that change something, and read by administrators. */
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "trainerd/daemon/commands/job_json.h"
#include "trainerd/daemon/commands/pending.h"
#include "trainerd/daemon/server/answer.h"
#include "trainerd/daemon/store/store_audit.h"

#include <stdio.h>
#include <string.h>

#define ROWS_DEFAULT 100
#define ROWS_MOST 1000

/* --- writing --- */

bool audit_is_change(enum request which)
{
    static const bool changes[REQUEST_N] = {
        [REQUEST_submit] = true, [REQUEST_cancel] = true, [REQUEST_resume] = true, [REQUEST_checkpoint] = true,
        [REQUEST_scale] = true,  [REQUEST_backup] = true, [REQUEST_drain] = true,  [REQUEST_undrain] = true,
    };
    return changes[which];
}

/* The number of the job that a request names; 0: of none, or of none that there is. */
static int64_t job_of(const struct commands *commands, const struct connection *connection, const json_t *request)
{
    const json_t *job = json_object_get(request, "job");
    const struct job_record *record = json_is_string(job)
                                          ? jobs_find(commands->jobs, json_string_value(job),
                                                      connection_uid(connection), connection_is_admin(connection))
                                          : NULL;
    return record != NULL ? record->id : json_integer_value(job);
}

void audit_begin(struct commands *commands, const struct connection *connection, const json_t *request,
                 enum request which)
{
    char from[CONNECTION_FROM_BYTES];
    if (audit_is_change(which)) {
        connection_from(connection, from);
        const struct store_audit row = {.uid = (int64_t)connection_uid(connection),
                                        .from = from,
                                        .what = json_string_value(json_object_get(request, "cmd")),
                                        .job = job_of(commands, connection, request)};
        store_audit_begin(jobs_store(commands->jobs), &row);
    }
}

void audit_leave(struct commands *commands)
{
    store_audit_leave(jobs_store(commands->jobs));
}

enum status audit_end(struct commands *commands, uid_t uid, enum request which, enum status status)
{
    char reason[STATUS_REASON_BYTES], text[1024 + LOG_LIMIT_NOTE_BYTES], note[LOG_LIMIT_NOTE_BYTES] = "";
    if (!audit_is_change(which)) {
        return status;
    }
    snprintf(reason, sizeof reason, "%s", status == STATUS_OK ? "" : status_reason());
    bool is_kept = status == STATUS_OK || log_limit_passes(&commands->refusals[uid % AUDIT_LIMITS], clock_ms(), note);
    /* A row of a table: of several lines the first. */
    snprintf(text, sizeof text, "%.*s%s", (int)strcspn(reason, "\n"), reason, note);
    enum status saved = store_audit_end(jobs_store(commands->jobs), status, is_kept ? text : NULL);
    if (saved != STATUS_OK) { /* the change, if there was one, is made */
        log_warn("%s", status_reason());
    }
    return status == STATUS_OK ? STATUS_OK : status_fail_lines(status, reason);
}

void audit_login_failed(void *context, const struct connection *connection, const char *reason)
{
    const struct commands *commands = context;
    char from[CONNECTION_FROM_BYTES];
    connection_from(connection, from);
    const struct store_audit row = {
        .uid = -1, .from = from, .what = "login", .exit_code = status_exit_code(STATUS_PEER), .text = reason};
    if (store_audit_put(jobs_store(commands->jobs), &row) != STATUS_OK) {
        log_warn("%s", status_reason());
    }
}

/* --- reading --- */

struct page {
    json_t *rows;
    size_t n_most;
    int64_t before; /* of the next page; 0: the last page */
};

static json_t *number_or_null(int64_t number, bool is_known)
{
    return is_known ? json_integer((json_int_t)number) : json_null();
}

static bool add_row(void *context, const struct store_audit *row)
{
    struct page *page = context;
    if (json_array_size(page->rows) == page->n_most) {
        page->before = row->id + 1;
        return false;
    }
    json_t *one = json_object(), *text = json_string(row->text);
    json_object_set_new(one, "id", json_integer(row->id));
    json_object_set_new(one, "at", json_real(row->at));
    json_object_set_new(one, "uid", number_or_null(row->uid, row->uid >= 0));
    json_object_set_new(one, "user", row->uid >= 0 ? json_string(job_owner_name((uid_t)row->uid)) : json_null());
    json_object_set_new(one, "from", json_string(row->from));
    json_object_set_new(one, "what", json_string(row->what));
    json_object_set_new(one, "job", number_or_null(row->job, row->job != 0));
    json_object_set_new(one, "exit_code", json_integer(row->exit_code));
    json_object_set_new(one, "text",
                        text != NULL ? text : json_string("")); /* NULL: a reason that was cut within a character */
    json_array_append_new(page->rows, one);
    return true;
}

enum status handle_audit(struct commands *commands, struct connection *connection, const json_t *request)
{
    const json_t *limit = json_object_get(request, "limit"), *before = json_object_get(request, "before");
    json_int_t n_most = limit != NULL ? json_integer_value(limit) : ROWS_DEFAULT;
    if (!connection_is_admin(connection)) {
        return status_fail(STATUS_USAGE,
                           "audit records are of all users: expected root, or the daemon's user, or the role admin");
    }
    enum status status = commands_check_range("limit", (double)n_most, 1, ROWS_MOST);
    if (status != STATUS_OK) {
        return status;
    }
    struct page page = {.rows = json_array(), .n_most = (size_t)n_most};
    status = store_audit_each(jobs_store(commands->jobs), before != NULL ? json_integer_value(before) : INT64_MAX,
                              add_row, &page);
    if (status != STATUS_OK) {
        json_decref(page.rows);
        return status;
    }
    json_t *answer = answer_new(request);
    json_object_set_new(answer, "rows", page.rows);
    if (page.before != 0) {
        json_object_set_new(answer, "before", json_integer(page.before));
    }
    connection_send(connection, answer);
    return STATUS_OK;
}
