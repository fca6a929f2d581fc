#include "trainerd/daemon/store/store_row.h"

#include "protocol/base/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The type that a field is saved as. States and reasons are saved by name, since their numbers may change. */
enum kind { KIND_TEXT, KIND_INT, KIND_REAL, KIND_STATE, KIND_REASON };

/* clang-format off */
static const struct column {
    const char *name;
    enum kind kind;
    size_t offset, size;
    bool is_fixed; /* never changes */
} columns[] = {
#define SIZE_OF(field) sizeof((struct job_record *)0)->field
#define COLUMN(kind, name, field) {name, KIND_##kind, offsetof(struct job_record, field), SIZE_OF(field), false},
#define FIXED(kind, name, field) {name, KIND_##kind, offsetof(struct job_record, field), SIZE_OF(field), true},
    FIXED(TEXT, "name", name)
    FIXED(INT, "uid", uid)
    FIXED(INT, "gid", gid)
    COLUMN(STATE, "state", state)
    COLUMN(REASON, "reason", reason)
    COLUMN(TEXT, "reason_text", reason_text)
    COLUMN(INT, "priority", priority)
    FIXED(REAL, "submitted_at", times.submitted_at)
    COLUMN(REAL, "started_at", times.started_at)
    COLUMN(REAL, "ended_at", times.ended_at)
    COLUMN(REAL, "changed_at", times.changed_at)
    COLUMN(INT, "n_worker", n_worker)
    COLUMN(INT, "n_slot", n_slot)
    COLUMN(INT, "n_gpu", n_gpu)
    COLUMN(INT, "memory", memory)
    COLUMN(REAL, "time_limit_s", time_limit_s)
    COLUMN(INT, "max_restarts", max_restarts)
    COLUMN(INT, "attempt", attempt)
    COLUMN(INT, "n_restart", run.n_restart)
    COLUMN(INT, "pid", run.pid)
    COLUMN(INT, "pid_start", run.pid_start)
    COLUMN(REAL, "attempt_at", run.attempt_at)
    COLUMN(REAL, "ran_s", run.ran_s)
    COLUMN(REAL, "next_attempt_at", run.next_attempt_at)
    COLUMN(INT, "n_event_bytes", run.n_event_bytes)
    COLUMN(INT, "cancel", run.cancel)
    COLUMN(INT, "checkpointed", run.checkpointed)
    COLUMN(INT, "exit_code", exit_code)
    COLUMN(INT, "epoch", progress.epoch)
    COLUMN(INT, "n_epoch", progress.n_epoch)
#define FIGURE(field, name, form) COLUMN(REAL, name, progress.field)
#include "trainerd/base/epoch_figures.def"
    COLUMN(INT, "gpus", gpus)
    FIXED(TEXT, "job_group", group)
    FIXED(TEXT, "tags", tags)
    COLUMN(INT, "n_part", plan.n_part)
    COLUMN(TEXT, "metric", progress.metric)
    COLUMN(INT, "slurm", run.slurm)
    COLUMN(INT, "n_worker_least", plan.n_worker_least)
    COLUMN(INT, "n_byte_fewer", plan.n_byte_fewer)
#undef COLUMN
#undef FIXED
#undef SIZE_OF
};
/* clang-format on */
enum { N_COLUMN = sizeof columns / sizeof *columns };
const int store_row_n = N_COLUMN;

void store_row_print(enum store_row_form form, char out[STORE_ROW_BYTES])
{
    size_t at = 0;
    for (int i = 0; i < N_COLUMN; i++) {
        const struct column *column = &columns[i];
        const char *comma = at > 0 ? ", " : "", *name = form == STORE_ROW_MARKS ? "?" : column->name;
        const char *type = column->kind == KIND_INT ? " INTEGER" : column->kind == KIND_REAL ? " REAL" : " TEXT";
        if (form == STORE_ROW_SET && !column->is_fixed) {
            at += (size_t)snprintf(out + at, STORE_ROW_BYTES - at, "%s%s = ?%d", comma, name, i + 1);
        } else if (form != STORE_ROW_SET) {
            at += (size_t)snprintf(out + at, STORE_ROW_BYTES - at, "%s%s%s", comma, name,
                                   form == STORE_ROW_DECLARED ? type : "");
        }
        ASSERT(at < STORE_ROW_BYTES);
    }
    if (form == STORE_ROW_SET) {
        at += (size_t)snprintf(out + at, STORE_ROW_BYTES - at, " WHERE id = ?%d", N_COLUMN + 1);
        ASSERT(at < STORE_ROW_BYTES);
    }
}

static int64_t int_load(const void *at, size_t size)
{
    if (size == sizeof(bool)) {
        return *(const bool *)at;
    }
    return size == sizeof(int32_t) ? *(const int32_t *)at : *(const int64_t *)at;
}

static void int_store(void *at, size_t size, int64_t value)
{
    if (size == sizeof(bool)) {
        *(bool *)at = value != 0;
    } else if (size == sizeof(int32_t)) {
        *(int32_t *)at = (int32_t)value;
    } else {
        *(int64_t *)at = value;
    }
}

int store_row_bind(sqlite3_stmt *statement, int first, const struct job_record *record)
{
    int error = SQLITE_OK;
    for (int i = 0; i < N_COLUMN && error == SQLITE_OK; i++) {
        const struct column *column = &columns[i];
        const void *at = (const char *)record + column->offset;
        int to = first + i;
        switch (column->kind) {
        case KIND_TEXT:
            error = sqlite3_bind_text(statement, to, at, -1, SQLITE_STATIC);
            break;
        case KIND_INT:
            error = sqlite3_bind_int64(statement, to, int_load(at, column->size));
            break;
        case KIND_REAL: /* NaN is kept as NULL */
            error = sqlite3_bind_double(statement, to, *(const double *)at);
            break;
        case KIND_STATE:
            error = sqlite3_bind_text(statement, to, job_state_name(*(const enum job_state *)at), -1, SQLITE_STATIC);
            break;
        case KIND_REASON:
            error = sqlite3_bind_text(statement, to, job_reason_name(*(const enum job_reason *)at), -1,
                                      SQLITE_STATIC);
            break;
        }
    }
    return error;
}

const char *store_text(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text != NULL ? text : "";
}

enum status store_row_read(sqlite3_stmt *statement, int first, struct job_record *out)
{
    memset(out, 0, sizeof *out);
    for (int i = 0; i < N_COLUMN; i++) {
        const struct column *column = &columns[i];
        void *at = (char *)out + column->offset;
        int from = first + i;
        bool is_text = column->kind != KIND_INT && column->kind != KIND_REAL;
        const char *text = is_text ? store_text(statement, from) : "";
        bool known = true;
        switch (column->kind) {
        case KIND_TEXT:
            memcpy(at, text, strnlen(text, column->size - 1)); /* the rest is 0 */
            break;
        case KIND_INT:
            int_store(at, column->size, sqlite3_column_int64(statement, from));
            break;
        case KIND_REAL:
            *(double *)at = sqlite3_column_type(statement, from) == SQLITE_NULL
                                ? (double)NAN
                                : sqlite3_column_double(statement, from);
            break;
        case KIND_STATE:
            known = job_state_find(text, at);
            break;
        case KIND_REASON:
            known = job_reason_find(text, at);
            break;
        }
        if (!known) {
            return status_fail(STATUS_DATA, "its %s is '%.64s', expected the name of a %s", column->name, text,
                               column->name);
        }
    }
    return STATUS_OK;
}
