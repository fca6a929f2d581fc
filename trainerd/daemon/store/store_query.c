/* Jobs by what requests ask for. Each question is a statement, prepared once, that reads the part of an index that it
 * asks for. */
#include "protocol/base/log.h"
#include "trainerd/daemon/store/store_state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DOING "read jobs"
#define DAY_S 86400.0

/* How jobs of a filter are found: the index, and its condition. ?1: user, ?2: group, ?3: tag between two commas */
static const struct {
    const char *index, *where;
    bool by_state; /* the index has jobs of each state by their numbers */
} filters[STORE_N_FILTER] = {
    [STORE_OF_ALL] = {"NOT INDEXED", "1", false},
    [STORE_OF_GROUP] = {"INDEXED BY by_group", "uid = ?1 AND job_group = ?2 AND job_group <> ''", true},
    [STORE_OF_TAG] = {"INDEXED BY by_tags", "uid = ?1 AND tags <> '' AND instr(',' || tags || ',', ?3)", false},
    [STORE_OF_BOTH] = {"INDEXED BY by_group",
                       "uid = ?1 AND job_group = ?2 AND job_group <> '' AND instr(',' || tags || ',', ?3)", true},
};

static int filter_of(const struct store_filter *filter)
{
    return filter->group != NULL ? filter->tag != NULL ? STORE_OF_BOTH : STORE_OF_GROUP
           : filter->tag != NULL ? STORE_OF_TAG
                                 : STORE_OF_ALL;
}

/* Prepare a statement at its first use, and bind the filter. */
static sqlite3_stmt *begin(struct store *store, const struct store_filter *filter, sqlite3_stmt **statement,
                           const char *sql)
{
    if (*statement == NULL &&
        sqlite3_prepare_v3(store->base, sql, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL) != SQLITE_OK) {
        return NULL;
    }
    sqlite3_bind_int64(*statement, 1, (int32_t)filter->uid); /* as store_row saves it */
    if (filter->group != NULL) {
        sqlite3_bind_text(*statement, 2, filter->group, -1, SQLITE_STATIC);
    }
    char tag[JOB_TAG_BYTES + 3];
    if (filter->tag != NULL && strchr(filter->tag, ',') == NULL) { /* else, not bound, it is no job's */
        snprintf(tag, sizeof tag, ",%.*s,", JOB_TAG_BYTES, filter->tag);
        sqlite3_bind_text(*statement, 3, tag, -1, SQLITE_TRANSIENT);
    }
    return *statement;
}

static bool is_among(enum store_states states, enum job_state state)
{
    bool has_ended = job_state_ended(state);
    return states == STORE_ANY ||
           (states == STORE_OPEN ? !has_ended : has_ended && (states == STORE_ENDED || state != JOB_STATE_SUCCEEDED));
}

/* "SELECT … WHERE … AND state IN ('A', 'B') …", or, where the index has each state in order, "SELECT … AND state =
 * 'A' UNION ALL SELECT … AND state = 'B' …", which SQLite merges: it reads as many as it gives. */
static void print_select(int which, enum store_states states, char *out, size_t capacity)
{
    size_t n = 0;
    const char *before = "";
    for (int state = 0; state < JOB_STATE_N; state++) {
        const char *name = job_state_name((enum job_state)state);
        if (is_among(states, (enum job_state)state) && (n == 0 || filters[which].by_state)) {
            n += (size_t)snprintf(out + n, capacity - n,
                                  "%sSELECT id FROM jobs %s WHERE %s AND id < ?4 AND state IN ('%s'", before,
                                  filters[which].index, filters[which].where, name);
        } else if (is_among(states, (enum job_state)state)) {
            n += (size_t)snprintf(out + n, capacity - n, ", '%s'", name);
        }
        before = filters[which].by_state && n > 0 ? ") UNION ALL " : "";
        ASSERT(n < capacity);
    }
    n += (size_t)snprintf(out + n, capacity - n, ") ORDER BY id DESC LIMIT ?5");
    ASSERT(n < capacity);
}

enum status store_select(struct store *store, const struct store_filter *filter, int64_t before, size_t n_most,
                         int64_t *ids_out, size_t *n_out)
{
    int which = filter_of(filter);
    char sql[STORE_SQL_BYTES] = "SELECT id FROM jobs WHERE id < ?4 ORDER BY id DESC LIMIT ?5";
    if (which != STORE_OF_ALL || filter->states != STORE_ANY) { /* else no row has to be read */
        print_select(which, filter->states, sql, sizeof sql);
    }
    sqlite3_stmt *statement = begin(store, filter, &store->select[which][filter->states], sql);
    sqlite3_bind_int64(statement, 4, before);
    sqlite3_bind_int64(statement, 5, (int64_t)n_most);
    return store_ids(store, statement, ids_out, n_out);
}

static enum status count(struct store *store, sqlite3_stmt *statement, int64_t n_of_state[JOB_STATE_N])
{
    int code;
    memset(n_of_state, 0, JOB_STATE_N * sizeof *n_of_state);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        enum job_state state;
        if (job_state_find(store_text(statement, 0), &state)) {
            n_of_state[state] = sqlite3_column_int64(statement, 1);
        }
    }
    return store_end(store, statement, code, DOING);
}

enum status store_count_all(struct store *store)
{
    return count(store, store_bind(store, STORE_COUNT, ""), store->n_of_state);
}

enum status store_count(struct store *store, const struct store_filter *filter, int64_t n_of_state[JOB_STATE_N])
{
    int which = filter_of(filter);
    char sql[STORE_SQL_BYTES];
    if (which == STORE_OF_ALL) {
        memcpy(n_of_state, store->n_of_state, sizeof store->n_of_state);
        return STATUS_OK;
    }
    snprintf(sql, sizeof sql, "SELECT state, count(*) FROM jobs %s WHERE %s GROUP BY state", filters[which].index,
             filters[which].where);
    return count(store, begin(store, filter, &store->count[which], sql), n_of_state);
}

enum status store_named(struct store *store, const char *name, uid_t uid, bool is_any_users, int64_t *id_out)
{
    sqlite3_stmt *statement = is_any_users ? store_bind(store, STORE_NAMED, "t", name)
                                           : store_bind(store, STORE_NAMED_OF, "ti", name, (int64_t)(int32_t)uid);
    size_t n;
    enum status status = store_ids(store, statement, id_out, &n);
    *id_out = status == STATUS_OK && n > 0 ? *id_out : 0;
    return status;
}

enum status store_waiting(struct store *store, size_t n_most, int64_t *uids_out, size_t *n_out)
{
    return store_ids(store, store_bind(store, STORE_WAITING, "i", (int64_t)n_most), uids_out, n_out);
}

enum status store_count_waiting(struct store *store, uid_t uid, int64_t *n_out)
{
    size_t n;
    return store_ids(store, store_bind(store, STORE_WAITING_OF, "i", (int64_t)(int32_t)uid), n_out, &n);
}

enum status store_first(struct store *store, uid_t uid, size_t n_most, int64_t *ids_out, size_t *n_out)
{
    return store_ids(store, store_bind(store, STORE_FIRST, "ii", (int64_t)(int32_t)uid, (int64_t)n_most), ids_out,
                     n_out);
}

enum status store_expired(struct store *store, const struct retention *retention, double now, size_t n_most,
                          int64_t *ids_out, size_t *n_out)
{
    int64_t n_many = 0;
    *n_out = 0;
    if (retention->days <= 0.0 && retention->n_job <= 0) {
        return STATUS_OK;
    }
    for (int state = 0; state < JOB_STATE_N; state++) {
        n_many += job_state_ended((enum job_state)state) ? store->n_of_state[state] : 0;
    }
    n_many = retention->n_job > 0 && n_many > retention->n_job ? n_many - retention->n_job : 0;
    double before = retention->days > 0.0 ? now - DAY_S * retention->days : -INFINITY;
    sqlite3_stmt *statement = store_bind(store, STORE_ENDS, "i", (int64_t)n_most);
    int code = SQLITE_ROW;
    while (code == SQLITE_ROW && (code = sqlite3_step(statement)) == SQLITE_ROW &&
           ((int64_t)*n_out < n_many || sqlite3_column_double(statement, 1) < before)) {
        ids_out[(*n_out)++] = sqlite3_column_int64(statement, 0);
    }
    return store_end(store, statement, code, DOING);
}

/* --- records --- */

/* false: it is no job's row, which the log says */
static bool read_row(const struct store *store, sqlite3_stmt *statement, struct job_record *out)
{
    bool is_job = store_row_read(statement, 1, out) == STATUS_OK;
    out->id = sqlite3_column_int64(statement, 0);
    if (!is_job) {
        log_error("'%s', job %lld: %s; it is skipped", store->path, (long long)out->id, status_reason());
    }
    return is_job;
}

bool store_get(struct store *store, int64_t id, struct job_record *out)
{
    sqlite3_stmt *statement = store_bind(store, STORE_GET, "i", id);
    int code = sqlite3_step(statement);
    bool is_job = code == SQLITE_ROW && read_row(store, statement, out);
    if (store_end(store, statement, code, DOING) != STATUS_OK) {
        log_error("%s", status_reason());
    }
    return is_job;
}

enum status store_get_state(struct store *store, int64_t id, enum job_state *out)
{
    sqlite3_stmt *statement = store_bind(store, STORE_LAST, "i", id);
    int code = sqlite3_step(statement);
    bool is_job = code == SQLITE_ROW && job_state_find(store_text(statement, 0), out);
    enum status status = store_end(store, statement, code, DOING);
    return status != STATUS_OK || is_job ? status : status_fail(STATUS_USAGE, "there is no job %lld", (long long)id);
}

static enum status each_row(struct store *store, sqlite3_stmt *statement,
                            void (*each)(void *context, const struct job_record *record), void *context)
{
    struct job_record record;
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        if (read_row(store, statement, &record)) {
            each(context, &record);
        }
    }
    return store_end(store, statement, code, DOING);
}

enum status store_each_open(struct store *store, void (*each)(void *context, const struct job_record *record),
                            void *context)
{
    return each_row(store, store_bind(store, STORE_EACH_OPEN, ""), each, context);
}

enum status store_each_recent(struct store *store, double since, size_t n_most,
                              void (*each)(void *context, const struct job_record *record), void *context)
{
    return each_row(store, store_bind(store, STORE_RECENT, "di", since, (int64_t)n_most), each, context);
}
