/* Commands from inside: their state, and answers that are under way. For the files of this folder.
 *
 * An answer that reads a file, or a stream, is pending: it is in one list, holds its connection, and lives until it
 * is complete, or until its connection is gone and no read is under way for it.
 */
#ifndef TRAINERD_DAEMON_PENDING_H
#define TRAINERD_DAEMON_PENDING_H

#include "protocol/base/log_limit.h"
#include "trainerd/daemon/commands/commands.h"
#include "trainerd/daemon/commands/job_file.h"
#include "trainerd/daemon/commands/submitters.h"
#include "trainerd/socket/requests.h"

#include <stdbool.h>

struct pending {
    struct commands *commands;
    struct connection *connection; /* NULL: gone */
    json_t *id;                    /* of the request; NULL: none */
    bool is_reading;               /* a file */
    bool is_work;                  /* it goes on without its client, in its user's turns */
    struct pending *next;
    int64_t job;                 /* whose changes it hears of */
    struct pending *next_of_job; /* of those that hear of changes of jobs with such numbers */
    /* Each of these may be NULL. */
    void (*proceed)(struct pending *pending); /* its client has read all, or some time has passed */
    void (*job_changed)(struct pending *pending, const struct job_record *record);
    void (*release)(struct pending *pending); /* free what it owns; the struct itself is freed after it */
};

#define AUDIT_LIMITS 256
#define PENDING_BUCKETS 1024

struct commands {
    uv_loop_t *loop;
    struct jobs *jobs;
    struct supervisor *supervisor;
    int32_t max_restarts;
    struct submitters submitters;
    uint64_t began_ms;
    struct readers readers;
    struct pending *pending;
    struct pending *of_job[PENDING_BUCKETS]; /* those with job_changed, by the last digits of their jobs' numbers */
    struct log_limit refusals[AUDIT_LIMITS]; /* of users, by the last digits of their numbers */
    uv_timer_t poll;                         /* files grow without notification */
};

/* Add an answer to a request; it was made with memory_alloc, and has its functions and its job.
 * errors  STATUS_USAGE its connection has too many; the caller still owns it */
enum status pending_begin(struct pending *pending, struct commands *commands, struct connection *connection,
                          const json_t *request);
/* Remove it from the list and free it. */
void pending_end(struct pending *pending);

/* Read for it, then call `done` with the pending, which first calls pending_is_gone: true if its client has left. */
void pending_read(struct pending *pending, const struct job_file_ask *ask, job_file_done *done);
bool pending_is_gone(struct pending *pending);

/* A file in the job's own folder, and with whose rights it is read: the daemon's, where it owns them. */
void job_own_name(const struct commands *commands, const struct job_record *record, const char *name,
                  struct job_file_ask *ask);

/* A file of the job's last run, and with whose rights it is read. Of a run that was published the job's own files are
 * that. A job that has recorded no run has its files in `output`; before its first epoch, files there may belong to
 * an earlier job: the path is then "", which no file has. */
void job_output_name(const struct commands *commands, const struct job_record *record, const char *output,
                     const char *name, struct job_file_ask *ask);

/* The folder of a job's results, as far as known; `output`: of its submission. out PATH_MAX */
void job_output_folder(const struct commands *commands, const struct job_record *record, const char *output,
                       char *out);

/* The job that a request names / if the client may see all of it.
 * errors  STATUS_NO_INPUT no such job; STATUS_USAGE it is another user's */
enum status pending_find_any(struct commands *commands, struct connection *connection, const json_t *request,
                             const struct job_record **out);
enum status pending_find_job(struct commands *commands, struct connection *connection, const json_t *request,
                             const struct job_record **out);

/* The handlers of all requests, by their names (requests.def). */
typedef enum status request_handler(struct commands *commands, struct connection *connection, const json_t *request);
#define REQUEST_BEGIN(name, help, gives) request_handler handle_##name;
#define FIELD(...)
#define REQUEST_END(name)
#include "trainerd/socket/requests.def"

/* A request's number lies in its range. errors  STATUS_USAGE "limit is 0, expected 1 to 1000" */
enum status commands_check_range(const char *what, double value, double least, double most);

/* --- audit.c --- */

/* Does it change something? */
bool audit_is_change(enum request which);
/* Around the handler of a request that changes something: its changes are saved with who asked for them. end: also a
 * refusal; returns `status`, with its reason as it was. */
void audit_begin(struct commands *commands, const struct connection *connection, const json_t *request,
                 enum request which);
enum status audit_end(struct commands *commands, uid_t uid, enum request which, enum status status);
/* It has changed nothing yet and goes on in later turns: audit_begin comes again, and audit_end does nothing. */
void audit_leave(struct commands *commands);
/* The server's. */
void audit_login_failed(void *context, const struct connection *connection, const char *reason);

/* --- submit.c --- */

/* May this client submit jobs, and resume them? errors  STATUS_USAGE with the keys that say who may */
enum status commands_check_submitter(const struct commands *commands, const struct connection *connection);

/* --- show_gpus.c --- */

/* Add the GPUs of a job that holds this set to an answer, and to each worker its GPU, in turn. */
void show_gpu_set(const struct gpus *gpus, uint64_t set, json_t *answer);

#endif
