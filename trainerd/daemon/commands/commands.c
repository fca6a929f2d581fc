#include "trainerd/daemon/commands/commands.h"

#include "protocol/job/job.h"
#include "protocol/job/toml.h"
#include "protocol/memory.h"
#include "protocol/printable.h"
#include "protocol/version.h"
#include "trainerd/daemon/commands/job_json.h"
#include "trainerd/daemon/commands/pending.h"
#include "trainerd/daemon/server/answer.h"
#include "trainerd/daemon/server/requests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POLL_MS 200
#define STATUS_JOBS_DEFAULT 100
#define STATUS_JOBS_MOST 1000
#define PRIORITY_MOST 1000000
#define RESTARTS_MOST 1000
#define SUBMISSION_ID_MOST 128
#define FILE_NAME_MOST 255

typedef enum status request_handler(struct commands *commands, struct connection *connection, const json_t *request);

/* --- about the daemon --- */

static enum status answer_hello(struct commands *commands, struct connection *connection, const json_t *request)
{
    (void)commands;
    json_t *answer = answer_new(request);
    json_object_set_new(answer, "v", json_integer(1));
    json_object_set_new(answer, "version", json_string(TRAINERD_VERSION));
    json_object_set_new(answer, "uid", json_integer(connection_uid(connection)));
    json_object_set_new(answer, "admin", json_boolean(connection_is_admin(connection)));
    connection_send(connection, answer);
    return STATUS_OK;
}

static enum status answer_version(struct commands *commands, struct connection *connection, const json_t *request)
{
    size_t n;
    jobs_all(commands->jobs, &n);
    json_t *answer = answer_new(request);
    json_object_set_new(answer, "v", json_integer(1));
    json_object_set_new(answer, "version", json_string(TRAINERD_VERSION));
    json_object_set_new(answer, "pid", json_integer(getpid()));
    json_object_set_new(answer, "uptime_s", json_real((double)(uv_now(commands->loop) - commands->began_ms) / 1000.0));
    json_object_set_new(answer, "jobs", json_integer((json_int_t)n));
    connection_send(connection, answer);
    return STATUS_OK;
}

/* --- submit --- */

static enum status check_text(const char *what, const char *text, size_t n_most)
{
    if (strlen(text) > n_most) {
        return status_fail(STATUS_USAGE, "%s has %zu bytes, expected at most %zu", what, strlen(text), n_most);
    }
    for (const char *at = text; *at != '\0'; at += printable_length(at)) {
        if (printable_length(at) == 0) {
            return status_fail(STATUS_USAGE, "%s '%.64s' contains a control character", what, text);
        }
    }
    return STATUS_OK;
}

/* A name must not be a number: requests identify jobs by either. */
static enum status check_name(const char *name)
{
    enum status status = check_text("name", name, JOB_NAME_BYTES - 1);
    if (status == STATUS_OK && name[0] != '\0' && name[strspn(name, "0123456789")] == '\0') {
        return status_fail(STATUS_USAGE, "name '%s' is a number, which would identify another job", name);
    }
    return status;
}

static enum status check_range(const char *what, double value, double least, double most)
{
    if (!(value >= least && value <= most)) {
        return status_fail(STATUS_USAGE, "%s is %g, expected %g to %g", what, value, least, most);
    }
    return STATUS_OK;
}

/* Only root can run processes as other users. */
static enum status check_user(const struct connection *connection)
{
    uid_t uid = connection_uid(connection);
    if (geteuid() != 0 && uid != geteuid()) {
        return status_fail(STATUS_USAGE, "this daemon runs as user %u and cannot run jobs of user %u", (unsigned)geteuid(),
                           (unsigned)uid);
    }
    return STATUS_OK;
}

static enum status read_record(const struct commands *commands, const json_t *request, struct job_record *record)
{
    const json_t *priority = json_object_get(request, "priority"), *restarts = json_object_get(request, "max_restarts");
    const char *name = json_string_value(json_object_get(request, "name"));
    double limit_s = json_number_value(json_object_get(request, "time_limit_s"));
    double n_restart = restarts != NULL ? (double)json_integer_value(restarts) : (double)commands->max_restarts;
    enum status status = check_range("priority", (double)json_integer_value(priority), -PRIORITY_MOST, PRIORITY_MOST);
    status = status == STATUS_OK ? check_range("max_restarts", n_restart, 0, RESTARTS_MOST) : status;
    status = status == STATUS_OK ? check_range("time_limit_s", limit_s, 0, 1e10) : status;
    status = status == STATUS_OK && name != NULL ? check_name(name) : status;
    if (status == STATUS_OK) {
        record->priority = (int32_t)json_integer_value(priority);
        record->max_restarts = (int32_t)n_restart;
        record->time_limit_s = limit_s;
    }
    return status;
}

/* The settings, and the name as the last of them, for the coordinator. owns  the caller frees *out, *named_out */
static void read_settings(const json_t *request, const char ***out, size_t *n_out, char **named_out)
{
    const json_t *set = json_object_get(request, "set");
    const char *name = json_string_value(json_object_get(request, "name"));
    size_t n = json_array_size(set);
    *out = memory_alloc(n + 1, sizeof **out);
    *named_out = NULL;
    for (size_t i = 0; i < n; i++) {
        (*out)[i] = json_string_value(json_array_get(set, i));
    }
    if (name != NULL && name[0] != '\0') {
        char *quoted = toml_quote(name);
        size_t capacity = strlen(quoted) + sizeof "name=";
        *named_out = memory_alloc(capacity, 1);
        snprintf(*named_out, capacity, "name=%s", quoted);
        free(quoted);
        (*out)[n++] = *named_out;
    }
    *n_out = n;
}

static void answer_submit(struct commands *commands, struct connection *connection, const json_t *request, int64_t id,
                          bool existing)
{
    const struct job_record *record = jobs_get(commands->jobs, id);
    json_t *answer = answer_new(request);
    json_object_set_new(answer, "job", json_integer(id));
    json_object_set_new(answer, "name", json_string(record->name));
    json_object_set_new(answer, "state", json_string(job_state_name(record->state)));
    json_object_set_new(answer, "existing", json_boolean(existing));
    connection_send(connection, answer);
}

static enum status create_job(struct commands *commands, struct connection *connection, const json_t *request,
                              struct job_record *record)
{
    const char *submission_id = json_string_value(json_object_get(request, "submission_id"));
    struct store_submission submission = {.submission_id = submission_id != NULL ? submission_id : "",
                                          .config = json_string_value(json_object_get(request, "config")),
                                          .file = json_string_value(json_object_get(request, "file")),
                                          .folder = json_string_value(json_object_get(request, "folder")),
                                          .output = ""};
    const char **set;
    char *named;
    int64_t existing = 0;
    read_settings(request, &set, &submission.n_set, &named);
    submission.set = set;
    enum status status = jobs_submit(commands->jobs, record, &submission, &existing);
    free(set);
    free(named);
    if (status == STATUS_OK) {
        answer_submit(commands, connection, request, existing != 0 ? existing : record->id, existing != 0);
        supervisor_schedule(commands->supervisor);
    }
    return status;
}

static enum status submit(struct commands *commands, struct connection *connection, const json_t *request)
{
    const char *folder = json_string_value(json_object_get(request, "folder"));
    const char *submission_id = json_string_value(json_object_get(request, "submission_id"));
    struct job_record record = {.uid = connection_uid(connection), .gid = connection_gid(connection)};
    if (folder[0] != '/' || strlen(folder) >= PATH_MAX) {
        return status_fail(STATUS_USAGE, "folder '%.100s' is not an absolute path", folder);
    }
    if (json_string_length(json_object_get(request, "config")) > JOB_FILE_MOST_BYTES) {
        return status_fail(STATUS_CONFIG, "the job file is longer than %d bytes", JOB_FILE_MOST_BYTES);
    }
    const char *file = json_string_value(json_object_get(request, "file"));
    enum status status = check_user(connection);
    status = status == STATUS_OK && file != NULL ? check_text("file", file, FILE_NAME_MOST) : status;
    status = status == STATUS_OK && submission_id != NULL ? check_text("submission_id", submission_id, SUBMISSION_ID_MOST)
                                                          : status;
    status = status == STATUS_OK ? read_record(commands, request, &record) : status;
    return status == STATUS_OK ? create_job(commands, connection, request, &record) : status;
}

/* --- status --- */

static bool is_own(const struct connection *connection, const struct job_record *record)
{
    return record->uid == connection_uid(connection) || connection_is_admin(connection);
}

static json_t *count_states(const struct job_record *const *all, size_t n)
{
    json_int_t count[JOB_STATE_N] = {0};
    for (size_t i = 0; i < n; i++) {
        count[all[i]->state]++;
    }
    json_t *counts = json_object();
    for (int state = 0; state < JOB_STATE_N; state++) {
        json_object_set_new(counts, job_state_name((enum job_state)state), json_integer(count[state]));
    }
    return counts;
}

static enum status answer_one(struct commands *commands, struct connection *connection, const json_t *request)
{
    const json_t *job = json_object_get(request, "job");
    char number[32];
    snprintf(number, sizeof number, "%lld", (long long)json_integer_value(job));
    const char *name = json_is_string(job) ? json_string_value(job) : number;
    const struct job_record *record = jobs_find(commands->jobs, name, connection_uid(connection));
    if (record == NULL) {
        return status_fail(STATUS_NO_INPUT, "there is no job '%.64s'", name);
    }
    json_t *answer = answer_new(request), *jobs = json_array();
    json_array_append_new(jobs, job_json(record, is_own(connection, record)));
    json_object_set_new(answer, "jobs", jobs);
    connection_send(connection, answer);
    return STATUS_OK;
}

static enum status answer_status(struct commands *commands, struct connection *connection, const json_t *request)
{
    if (json_object_get(request, "job") != NULL) {
        return answer_one(commands, connection, request);
    }
    const json_t *limit = json_object_get(request, "limit"), *before = json_object_get(request, "before");
    json_int_t n_most = limit != NULL ? json_integer_value(limit) : STATUS_JOBS_DEFAULT;
    json_int_t below = before != NULL ? json_integer_value(before) : INT64_MAX;
    bool active = json_is_true(json_object_get(request, "active"));
    enum status status = check_range("limit", (double)n_most, 1, STATUS_JOBS_MOST);
    if (status != STATUS_OK) {
        return status;
    }
    size_t n;
    const struct job_record *const *all = jobs_all(commands->jobs, &n);
    json_t *answer = answer_new(request), *jobs = json_array();
    json_object_set_new(answer, "counts", count_states(all, n));
    for (size_t i = n; i-- > 0;) {
        if (all[i]->id >= below || (active && job_state_ended(all[i]->state))) {
            continue;
        }
        if (json_array_size(jobs) == (size_t)n_most) {
            json_object_set_new(answer, "before", json_integer(all[i]->id + 1));
            break;
        }
        json_array_append_new(jobs, job_json(all[i], is_own(connection, all[i])));
    }
    json_object_set_new(answer, "jobs", jobs);
    connection_send(connection, answer);
    return STATUS_OK;
}

/* --- requests of owners --- */

static enum status answer_job(struct connection *connection, const json_t *request, int64_t id)
{
    json_t *answer = answer_new(request);
    json_object_set_new(answer, "job", json_integer(id));
    connection_send(connection, answer);
    return STATUS_OK;
}

static enum status ask_supervisor(struct commands *commands, struct connection *connection, const json_t *request,
                                  enum status (*ask)(struct supervisor *supervisor, int64_t id))
{
    const struct job_record *record;
    enum status status = pending_find_job(commands, connection, request, &record);
    int64_t id = status == STATUS_OK ? record->id : 0;
    status = status == STATUS_OK ? ask(commands->supervisor, id) : status;
    return status == STATUS_OK ? answer_job(connection, request, id) : status;
}

static enum status cancel(struct commands *commands, struct connection *connection, const json_t *request)
{
    return ask_supervisor(commands, connection, request, supervisor_cancel);
}

static enum status resume(struct commands *commands, struct connection *connection, const json_t *request)
{
    return ask_supervisor(commands, connection, request, supervisor_resume);
}

static enum status checkpoint(struct commands *commands, struct connection *connection, const json_t *request)
{
    return ask_supervisor(commands, connection, request, supervisor_checkpoint);
}

static enum status scale(struct commands *commands, struct connection *connection, const json_t *request)
{
    json_int_t n_worker = json_integer_value(json_object_get(request, "workers"));
    const struct job_record *record;
    enum status status = check_range("workers", (double)n_worker, 1, 65536);
    status = status == STATUS_OK ? pending_find_job(commands, connection, request, &record) : status;
    int64_t id = status == STATUS_OK ? record->id : 0;
    status = status == STATUS_OK ? supervisor_scale(commands->supervisor, id, (int32_t)n_worker) : status;
    return status == STATUS_OK ? answer_job(connection, request, id) : status;
}

static enum status backup(struct commands *commands, struct connection *connection, const json_t *request)
{
    const char *path = json_string_value(json_object_get(request, "path"));
    size_t n;
    if (!connection_is_admin(connection)) {
        return status_fail(STATUS_USAGE, "a backup has all users' jobs: expected root, or the daemon's user");
    }
    if (path[0] != '/' || strlen(path) >= PATH_MAX - 16) {
        return status_fail(STATUS_USAGE, "path '%.100s' is not an absolute path", path);
    }
    enum status status = store_backup(jobs_store(commands->jobs), path);
    if (status == STATUS_OK) {
        jobs_all(commands->jobs, &n);
        json_t *answer = answer_new(request);
        json_object_set_new(answer, "path", json_string(path));
        json_object_set_new(answer, "jobs", json_integer((json_int_t)n));
        connection_send(connection, answer);
    }
    return status;
}

/* --- the table, and callbacks of server and jobs --- */

static request_handler *const handlers[REQUEST_N] = {
    [REQUEST_hello] = answer_hello,     [REQUEST_submit] = submit,         [REQUEST_status] = answer_status,
    [REQUEST_show] = show_job,          [REQUEST_logs] = follow_logs,      [REQUEST_watch] = follow_events,
    [REQUEST_metrics] = follow_metrics, [REQUEST_workers] = show_workers,  [REQUEST_cancel] = cancel,
    [REQUEST_resume] = resume,          [REQUEST_checkpoint] = checkpoint, [REQUEST_scale] = scale,
    [REQUEST_version] = answer_version, [REQUEST_gpus] = show_gpus,        [REQUEST_backup] = backup,
};

static void handle_request(void *context, struct connection *connection, json_t *request)
{
    enum request which;
    enum status status = request_check(request, &which);
    status = status == STATUS_OK ? handlers[which](context, connection, request) : status;
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
            if (!at->is_reading) {
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
    for (struct pending *at = commands->pending, *next; at != NULL; at = next) {
        next = at->next;
        if (at->job_changed != NULL && at->connection != NULL) {
            at->job_changed(at, record);
        }
    }
}

enum status commands_open(uv_loop_t *loop, struct jobs *jobs, struct supervisor *supervisor, int32_t max_restarts,
                          struct commands **out)
{
    struct commands *commands = memory_alloc(1, sizeof *commands);
    commands->loop = loop;
    commands->jobs = jobs;
    commands->supervisor = supervisor;
    commands->max_restarts = max_restarts;
    commands->began_ms = uv_now(loop);
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
    return (struct server_handler){handle_request, drop_connection, on_drained, commands};
}
