#include "trainerd/daemon/commands/commands.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/base/version.h"
#include "trainerd/daemon/commands/job_json.h"
#include "trainerd/daemon/commands/pending.h"
#include "trainerd/daemon/server/answer.h"
#include "trainerd/socket/requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POLL_MS 200
#define STATUS_JOBS_DEFAULT 100
#define STATUS_JOBS_MOST 1000

enum status commands_check_range(const char *what, double value, double least, double most)
{
    if (!(value >= least && value <= most)) {
        return status_fail(STATUS_USAGE, "%s is %g, expected %g to %g", what, value, least, most);
    }
    return STATUS_OK;
}

/* --- about the daemon --- */

enum status handle_hello(struct commands *commands, struct connection *connection, const json_t *request)
{
    (void)commands;
    const char *user = connection_user(connection);
    json_t *answer = answer_new(request);
    json_object_set_new(answer, "v", json_integer(CLIENT_PROTOCOL_VERSION));
    json_object_set_new(answer, "version", json_string(TRAINERD_VERSION));
    json_object_set_new(answer, "uid", json_integer(connection_uid(connection)));
    json_object_set_new(answer, "admin", json_boolean(connection_is_admin(connection)));
    json_object_set_new(answer, "role", json_string(user_role_name(connection_role(connection))));
    json_object_set_new(answer, "user", user[0] != '\0' ? json_string(user) : json_null());
    connection_send(connection, answer);
    return STATUS_OK;
}

enum status handle_version(struct commands *commands, struct connection *connection, const json_t *request)
{
    json_t *answer = answer_new(request);
    json_object_set_new(answer, "v", json_integer(CLIENT_PROTOCOL_VERSION));
    json_object_set_new(answer, "version", json_string(TRAINERD_VERSION));
    json_object_set_new(answer, "pid", json_integer(getpid()));
    json_object_set_new(answer, "uptime_s",
                        json_real((double)(uv_now(commands->loop) - commands->began_ms) / 1000.0));
    json_object_set_new(answer, "jobs", json_integer(jobs_n(commands->jobs)));
    json_object_set_new(answer, "draining", json_boolean(jobs_drain(commands->jobs)));
    connection_send(connection, answer);
    return STATUS_OK;
}

/* --- status --- */

static bool is_own(const struct connection *connection, const struct job_record *record)
{
    return record->uid == connection_uid(connection) || connection_is_admin(connection);
}

static enum status answer_one(struct commands *commands, struct connection *connection, const json_t *request)
{
    const struct job_record *record;
    enum status status = pending_find_any(commands, connection, request, &record);
    if (status != STATUS_OK) {
        return status;
    }
    json_t *job = job_json(record, is_own(connection, record));
    connection_send(connection, answer_with(request, "{s:[o]}", "jobs", job));
    return STATUS_OK;
}

/* Those that run, the newest first, then those that wait, by place. One without a place came after the queue's last
 * pass: it is last. */
static int compare_turns(const void *left, const void *right)
{
    const struct job_record *a = *(const struct job_record *const *)left,
                            *b = *(const struct job_record *const *)right;
    bool a_waits = a->state == JOB_STATE_QUEUED, b_waits = b->state == JOB_STATE_QUEUED;
    if (a_waits != b_waits) {
        return a_waits ? 1 : -1;
    }
    if (!a_waits) {
        return a->id > b->id ? -1 : a->id < b->id;
    }
    if (a->queued.place != b->queued.place) {
        return a->queued.place != 0 && (b->queued.place == 0 || a->queued.place < b->queued.place) ? -1 : 1;
    }
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Put jobs in the order of their turns, without those that have no record in memory. */
static size_t sort_by_turn(const struct jobs *jobs, int64_t *ids, size_t n)
{
    const struct job_record **live = memory_alloc(n + 1, sizeof *live);
    size_t n_live = 0;
    for (size_t i = 0; i < n; i++) {
        if (jobs_is_live(jobs, ids[i])) {
            live[n_live++] = jobs_get(jobs, ids[i]);
        }
    }
    qsort(live, n_live, sizeof *live, compare_turns);
    for (size_t i = 0; i < n_live; i++) {
        ids[i] = live[i]->id;
    }
    free(live);
    return n_live;
}

/* The jobs that match, by turn, then those that have ended, the newest first, until there are n_most. */
static enum status find_by_turn(const struct jobs *jobs, struct store_filter filter, size_t n_open, size_t n_most,
                                int64_t *ids_out, size_t *n_out)
{
    bool active = filter.states == STORE_OPEN;
    size_t n_ended = 0;
    filter.states = STORE_OPEN;
    enum status status = jobs_select(jobs, &filter, INT64_MAX, n_open, ids_out, n_out);
    *n_out = sort_by_turn(jobs, ids_out, *n_out);
    if (status == STATUS_OK && !active && *n_out < n_most) {
        filter.states = STORE_ENDED;
        status = jobs_select(jobs, &filter, INT64_MAX, n_most - *n_out, ids_out + *n_out, &n_ended);
    }
    *n_out += n_ended;
    return status;
}

/* What an answer lists: a part of the jobs that match. */
struct page {
    bool by_turn;
    size_t begin, end;
    int64_t before;
    int64_t *ids; /* n, some of which are behind the page */
    size_t n;
    int64_t n_of_state[JOB_STATE_N];
};

static enum status find_page(const struct jobs *jobs, const struct store_filter *filter, struct page *page)
{
    size_t n_open = 0, n_most = 0;
    enum status status = store_count(jobs_store(jobs), filter, page->n_of_state);
    for (int state = 0; state < JOB_STATE_N; state++) {
        n_open += job_state_ended((enum job_state)state) ? 0 : (size_t)page->n_of_state[state];
        n_most += (size_t)page->n_of_state[state];
    }
    n_most = n_most < page->end + 1 ? n_most : page->end + 1;
    page->ids = memory_alloc((page->by_turn ? n_open : 0) + n_most + 1, sizeof *page->ids);
    if (status != STATUS_OK) {
        return status;
    }
    return page->by_turn ? find_by_turn(jobs, *filter, n_open, n_most, page->ids, &page->n)
                         : jobs_select(jobs, filter, page->before, n_most, page->ids, &page->n);
}

static void send_page(struct commands *commands, struct connection *connection, const json_t *request,
                      const struct page *page)
{
    json_t *answer = answer_new(request), *counts = json_object(), *jobs = json_array();
    for (int state = 0; state < JOB_STATE_N; state++) {
        json_object_set_new(counts, job_state_name((enum job_state)state), json_integer(page->n_of_state[state]));
    }
    for (size_t i = page->begin; i < page->n && i < page->end; i++) {
        const struct job_record *record = jobs_get(commands->jobs, page->ids[i]);
        if (record != NULL) {
            json_array_append_new(jobs, job_json(record, is_own(connection, record)));
        }
    }
    json_object_set_new(answer, "counts", counts);
    json_object_set_new(answer, "draining", json_boolean(jobs_drain(commands->jobs)));
    if (page->n > page->end) {
        json_object_set_new(answer, page->by_turn ? "skip" : "before",
                            json_integer(page->by_turn ? (int64_t)page->end : page->ids[page->end] + 1));
    }
    json_object_set_new(answer, "jobs", jobs);
    connection_send(connection, answer);
}

enum status handle_status(struct commands *commands, struct connection *connection, const json_t *request)
{
    if (json_object_get(request, "job") != NULL) {
        return answer_one(commands, connection, request);
    }
    const json_t *limit = json_object_get(request, "limit"), *before = json_object_get(request, "before");
    json_int_t n_most = limit != NULL ? json_integer_value(limit) : STATUS_JOBS_DEFAULT,
               skip = json_integer_value(json_object_get(request, "skip"));
    enum status status = commands_check_range("limit", (double)n_most, 1, STATUS_JOBS_MOST);
    if (status != STATUS_OK || (status = commands_check_range("skip", (double)skip, 0, 1e9)) != STATUS_OK) {
        return status;
    }
    bool active = json_is_true(json_object_get(request, "active"));
    const struct store_filter filter = {.uid = connection_uid(connection),
                                        .group = json_string_value(json_object_get(request, "group")),
                                        .tag = json_string_value(json_object_get(request, "tag")),
                                        .states = active ? STORE_OPEN : STORE_ANY};
    struct page page = {.by_turn = json_is_true(json_object_get(request, "by_turn")),
                        .before = before != NULL ? json_integer_value(before) : INT64_MAX};
    page.begin = page.by_turn ? (size_t)skip : 0;
    page.end = page.begin + (size_t)n_most;
    status = find_page(commands->jobs, &filter, &page);
    if (status == STATUS_OK) {
        send_page(commands, connection, request, &page);
    }
    free(page.ids);
    return status;
}

/* --- requests of owners --- */

enum status handle_scale(struct commands *commands, struct connection *connection, const json_t *request)
{
    json_int_t n_worker = json_integer_value(json_object_get(request, "workers"));
    const struct job_record *record;
    enum status status = commands_check_range("workers", (double)n_worker, 1, 65536);
    if (status == STATUS_OK) {
        status = pending_find_job(commands, connection, request, &record);
    }
    int64_t id = status == STATUS_OK ? record->id : 0;
    if (status != STATUS_OK ||
        (status = supervisor_scale(commands->supervisor, id, (int32_t)n_worker)) != STATUS_OK) {
        return status;
    }
    connection_send(connection, answer_with(request, "{s:I}", "job", (json_int_t)id));
    return STATUS_OK;
}

static enum status drain_set(struct commands *commands, struct connection *connection, const json_t *request,
                             bool drains)
{
    if (!connection_is_admin(connection)) {
        return status_fail(STATUS_USAGE,
                           "%s is of all users' jobs: expected root, or the daemon's user, or the role admin",
                           json_string_value(json_object_get(request, "cmd")));
    }
    enum status status = jobs_drain_set(commands->jobs, drains);
    if (status != STATUS_OK) {
        return status;
    }
    log_info("jobs %s, asked for by user %u", drains ? "are not started any more" : "are started again",
             (unsigned)connection_uid(connection));
    supervisor_schedule(commands->supervisor);
    size_t n, n_run = 0;
    const struct job_record *const *live = jobs_live(commands->jobs, &n);
    for (size_t i = 0; i < n; i++) {
        n_run += live[i]->state != JOB_STATE_QUEUED && !job_state_ended(live[i]->state);
    }
    connection_send(connection, answer_with(request, "{s:b, s:I}", "draining", drains, "running", (json_int_t)n_run));
    return STATUS_OK;
}

enum status handle_drain(struct commands *commands, struct connection *connection, const json_t *request)
{
    return drain_set(commands, connection, request, true);
}

enum status handle_undrain(struct commands *commands, struct connection *connection, const json_t *request)
{
    return drain_set(commands, connection, request, false);
}

/* --- the table, and callbacks of server and jobs --- */

static request_handler *const handlers[REQUEST_N] = {
#define REQUEST_BEGIN(name, help, gives) handle_##name,
#define FIELD(...)
#define REQUEST_END(name)
#include "trainerd/socket/requests.def"
};

static enum status check_role(const struct connection *connection, const json_t *request, enum request which)
{
    if (connection_role(connection) == USER_ROLE_WATCH && audit_is_change(which)) {
        return status_fail(STATUS_USAGE,
                           "user '%s' has the role watch, which can only read: %s needs the role submit or admin",
                           connection_user(connection), json_string_value(json_object_get(request, "cmd")));
    }
    return STATUS_OK;
}

static void handle_request(void *context, struct connection *connection, json_t *request)
{
    enum request which;
    enum status status = request_check(request, &which);
    if (status == STATUS_OK) {
        audit_begin(context, connection, request, which);
        status = check_role(connection, request, which);
        if (status == STATUS_OK) {
            status = handlers[which](context, connection, request);
        }
        status = audit_end(context, connection_uid(connection), which, status);
    }
    if (status != STATUS_OK) {
        connection_send(connection, answer_failure(request, status));
    }
}

static void drop_connection(void *context, struct connection *connection)
{
    struct commands *commands = context;
    for (struct pending *at = commands->pending, *next; at != NULL; at = next) {
        next = at->next;
        if (at->connection == connection) {
            at->connection = NULL;
            if (!at->is_reading && !at->is_work) {
                pending_end(at);
            }
        }
    }
}

/* Let the pending answers of a connection, or of all (NULL), proceed. */
static void proceed(struct commands *commands, const struct connection *connection)
{
    for (struct pending *at = commands->pending, *next; at != NULL; at = next) {
        next = at->next;
        if (at->proceed != NULL && (connection == NULL || at->connection == connection)) {
            at->proceed(at);
        }
    }
}

static void on_drained(void *context, struct connection *connection)
{
    proceed(context, connection);
}

static void poll_files(uv_timer_t *timer)
{
    proceed(timer->data, NULL);
}

static void on_job_changed(void *context, const struct job_record *record)
{
    const struct commands *commands = context;
    for (struct pending *at = commands->of_job[record->id % PENDING_BUCKETS], *next; at != NULL; at = next) {
        next = at->next_of_job;
        if (at->connection != NULL) {
            at->job_changed(at, record);
        }
    }
}

enum status commands_open(uv_loop_t *loop, struct jobs *jobs, struct supervisor *supervisor,
                          const struct commands_options *options, struct commands **out)
{
    struct commands *commands = memory_alloc(1, sizeof *commands);
    commands->loop = loop;
    commands->jobs = jobs;
    commands->supervisor = supervisor;
    commands->max_restarts = options->max_restarts;
    submitters_init(&commands->submitters, options->submit_users, options->submit_groups);
    commands->began_ms = uv_now(loop);
    readers_init(loop, &commands->readers);
    uv_timer_init(loop, &commands->poll);
    commands->poll.data = commands;
    uv_timer_start(&commands->poll, poll_files, POLL_MS, POLL_MS);
    jobs_listen(jobs, on_job_changed, commands);
    *out = commands;
    return STATUS_OK;
}

static void closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* While closing, the timer runs until the last read is done. */
static void await_reads(uv_timer_t *timer)
{
    struct commands *commands = timer->data;
    if (commands->pending == NULL) {
        submitters_release(&commands->submitters);
        uv_close((uv_handle_t *)timer, closed);
    }
}

void commands_close(struct commands *commands)
{
    for (struct pending *at = commands->pending, *next; at != NULL; at = next) {
        next = at->next;
        at->connection = NULL;
        if (!at->is_reading) {
            pending_end(at);
        }
    }
    uv_timer_start(&commands->poll, await_reads, 0, 10);
}

struct server_handler commands_handler(struct commands *commands)
{
    return (struct server_handler){handle_request, drop_connection, on_drained, commands, audit_login_failed};
}
