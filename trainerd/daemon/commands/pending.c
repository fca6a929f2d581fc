#include "trainerd/daemon/commands/pending.h"

#include "protocol/files/job_files.h"
#include "trainerd/daemon/store/own_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
        return status_fail(STATUS_USAGE, "%d answers are under way on this connection, the most that are accepted",
                           n);
    }
    pending->commands = commands;
    pending->connection = connection;
    pending->id = json_incref(json_object_get(request, "id"));
    pending->next = commands->pending;
    commands->pending = pending;
    if (pending->job_changed != NULL) {
        struct pending **head = &commands->of_job[pending->job % PENDING_BUCKETS];
        pending->next_of_job = *head;
        *head = pending;
    }
    connection_hold(connection, true);
    return STATUS_OK;
}

void pending_end(struct pending *pending)
{
    struct pending **at = &pending->commands->pending,
                   **of_job = &pending->commands->of_job[pending->job % PENDING_BUCKETS];
    bool is_last = true;
    while (pending->job_changed != NULL && *of_job != pending) {
        of_job = &(*of_job)->next_of_job;
    }
    if (pending->job_changed != NULL) {
        *of_job = pending->next_of_job;
    }
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
    job_file_read(&pending->commands->readers, ask, done, pending);
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

void job_own_name(const struct commands *commands, const struct job_record *record, const char *name,
                  struct job_file_ask *ask)
{
    jobs_folder(commands->jobs, record->id, ask->path);
    bool is_ours = own_files_are(ask->path); /* then nothing of the way there is a user's */
    ask->user = record->uid;
    ask->owner = is_ours ? geteuid() : record->uid;
    ask->group = is_ours ? getegid() : record->gid;
    size_t n = strlen(ask->path);
    snprintf(ask->path + n, sizeof ask->path - n, "/%s", name);
}

/* Where the job's last run is. */
struct last_run {
    bool is_known, is_published; /* then the job's own files have its metrics and result */
    char folder[PATH_MAX];
};

static void find_last_run(const struct commands *commands, const struct job_record *record, struct last_run *out)
{
    struct job_file_ask ask;
    struct stat about;
    *out = (struct last_run){0};
    job_own_name(commands, record, "runs", &ask);
    int file = open(ask.path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) {
        return;
    }
    /* The owner of the folder could have put another user's file there. */
    out->is_known = fstat(file, &about) == 0 && about.st_uid == ask.owner && job_files_last_run(file, out->folder);
    out->is_published = out->is_known && out->folder[0] != '/';
    close(file);
}

void job_output_name(const struct commands *commands, const struct job_record *record, const char *output,
                     const char *name, struct job_file_ask *ask)
{
    struct last_run run;
    find_last_run(commands, record, &run);
    ask->path[0] = '\0';
    ask->user = ask->owner = record->uid;
    ask->group = record->gid;
    if (run.is_published) {
        job_own_name(commands, record, name, ask);
    } else if (run.is_known || record->progress.epoch > 0) {
        snprintf(ask->path, sizeof ask->path, "%.*s/%s", PATH_MAX - 16, run.is_known ? run.folder : output, name);
    }
}

void job_output_folder(const struct commands *commands, const struct job_record *record, const char *output,
                       char *out)
{
    struct last_run run;
    find_last_run(commands, record, &run);
    snprintf(out, PATH_MAX, "%s", run.is_known && !run.is_published ? run.folder : output);
}

enum status pending_find_any(struct commands *commands, struct connection *connection, const json_t *request,
                             const struct job_record **out)
{
    const json_t *job = json_object_get(request, "job");
    char number[32];
    snprintf(number, sizeof number, "%lld", (long long)json_integer_value(job));
    const char *name = json_is_string(job) ? json_string_value(job) : number;
    *out = jobs_find(commands->jobs, name, connection_uid(connection), connection_is_admin(connection));
    return *out != NULL ? STATUS_OK : status_fail(STATUS_NO_INPUT, "there is no job '%.64s'", name);
}

enum status pending_find_job(struct commands *commands, struct connection *connection, const json_t *request,
                             const struct job_record **out)
{
    enum status status = pending_find_any(commands, connection, request, out);
    return status == STATUS_OK && (*out)->uid != connection_uid(connection) && !connection_is_admin(connection)
               ? status_fail(STATUS_USAGE, "job %lld is another user's", (long long)(*out)->id)
               : status;
}
