#include "trainerd/daemon/commands/pending.h"

#include "protocol/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_PENDING_MOST 16 /* of one connection */

enum status pending_begin(struct pending *pending, struct commands *commands, struct connection *connection,
                          const json_t *request)
{
    int n = 0;
    for (const struct pending *at = commands->pending; at != NULL; at = at->next) {
        n += at->connection == connection;
    }
    if (n >= N_PENDING_MOST) {
        return status_fail(STATUS_USAGE, "%d answers are under way on this connection, the most that are accepted", n);
    }
    pending->commands = commands;
    pending->connection = connection;
    pending->id = json_incref(json_object_get(request, "id"));
    pending->next = commands->pending;
    commands->pending = pending;
    connection_hold(connection, true);
    return STATUS_OK;
}

void pending_end(struct pending *pending)
{
    struct pending **at = &pending->commands->pending;
    bool is_last = true;
    while (*at != pending) {
        at = &(*at)->next;
    }
    *at = pending->next;
    for (const struct pending *other = pending->commands->pending; other != NULL; other = other->next) {
        is_last = is_last && other->connection != pending->connection;
    }
    if (pending->connection != NULL && is_last) {
        connection_hold(pending->connection, false);
    }
    if (pending->release != NULL) {
        pending->release(pending);
    }
    json_decref(pending->id);
    free(pending);
}

void pending_read(struct pending *pending, const struct job_file_ask *ask, job_file_done *done)
{
    pending->is_reading = true;
    job_file_read(pending->commands->loop, ask, done, pending);
}

bool pending_is_gone(struct pending *pending)
{
    pending->is_reading = false;
    if (pending->connection == NULL) {
        pending_end(pending);
        return true;
    }
    return false;
}

/* Where the link in the job's own folder leads; false without one. path, target PATH_MAX */
static bool run_link(const struct commands *commands, const struct job_record *record, char *path, char *target)
{
    jobs_folder(commands->jobs, record->id, path);
    size_t n = strlen(path);
    snprintf(path + n, PATH_MAX - n, "/run");
    ssize_t n_target = readlink(path, target, PATH_MAX - 1);
    target[n_target > 0 ? n_target : 0] = '\0';
    return n_target > 0;
}

void job_output_name(const struct commands *commands, const struct job_record *record, const char *output, const char *name,
                     struct job_file_ask *ask)
{
    char path[PATH_MAX], target[PATH_MAX];
    ask->path[0] = '\0';
    bool has_link = run_link(commands, record, path, target);
    if (has_link || record->progress.epoch > 0) {
        snprintf(ask->path, sizeof ask->path, "%.*s/%s", PATH_MAX - 16, has_link ? path : output, name);
    }
}

void job_output_folder(const struct commands *commands, const struct job_record *record, const char *output, char *out)
{
    char path[PATH_MAX], target[PATH_MAX];
    bool is_run = run_link(commands, record, path, target) && target[0] == '/';
    snprintf(out, PATH_MAX, "%s", is_run ? target : output);
}

enum status pending_find_job(struct commands *commands, struct connection *connection, const json_t *request,
                             const struct job_record **out)
{
    const json_t *job = json_object_get(request, "job");
    uid_t uid = connection_uid(connection);
    char number[32];
    snprintf(number, sizeof number, "%lld", (long long)json_integer_value(job));
    const char *name = json_is_string(job) ? json_string_value(job) : number;
    const struct job_record *record = jobs_find(commands->jobs, name, uid);
    if (record == NULL) {
        return status_fail(STATUS_NO_INPUT, "there is no job '%.64s'", name);
    }
    if (record->uid != uid && !connection_is_admin(connection)) {
        return status_fail(STATUS_USAGE, "job %lld is another user's", (long long)record->id);
    }
    *out = record;
    return STATUS_OK;
}
