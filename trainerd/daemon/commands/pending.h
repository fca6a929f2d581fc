/* Commands from inside: what they stand on, and answers that are under way. Nobody but commands, follower and show
 * includes this.
 *
 * An answer that needs a file, or that goes on, is pending: it is in one list, holds its connection, and lives until
 * it is told in full, or its connection is gone and no file is being read for it.
 */
#ifndef TRAINERD_DAEMON_PENDING_H
#define TRAINERD_DAEMON_PENDING_H

#include "trainerd/daemon/commands/commands.h"
#include "trainerd/daemon/commands/job_file.h"

#include <stdbool.h>

struct pending {
    struct commands *commands;
    struct connection *connection; /* NULL: gone */
    json_t *id;                    /* of the request; NULL: none */
    bool is_reading;               /* a file */
    struct pending *next;
    /* Any of these may be missing. */
    void (*go_on)(struct pending *pending); /* its client has read all, or some time has passed */
    void (*job_changed)(struct pending *pending, const struct job_record *record);
    void (*release)(struct pending *pending); /* what it has of its own; the struct itself is freed after */
};

struct commands {
    uv_loop_t *loop;
    struct jobs *jobs;
    struct supervisor *supervisor;
    int32_t max_restarts;
    uint64_t began_ms;
    struct pending *pending;
    uv_timer_t poll; /* files grow without a word */
};

/* Enlist an answer to a request; it was made with memory_alloc.
 * errors  STATUS_USAGE its connection has too many; it is the caller's still */
enum status pending_begin(struct pending *pending, struct commands *commands, struct connection *connection,
                          const json_t *request);
/* Done with it: it leaves the list and is freed. */
void pending_end(struct pending *pending);

/* Read for it; `done` is called with the pending as its context. If its connection has gone by then, pending_is_gone
 * ends it and says so: the first thing to ask in `done`. */
void pending_read(struct pending *pending, const struct job_file_ask *ask, job_file_done *done);
bool pending_is_gone(struct pending *pending);

/* A file of a job's output folder. Before its first epoch is done what lies there is of a job before, and "" is asked
 * for, which no file is. */
void job_output_name(const struct job_record *record, const char *output, const char *name, struct job_file_ask *ask);

/* The job a request names, if one may see its inside.
 * errors  STATUS_NO_INPUT there is none; STATUS_USAGE it is another user's */
enum status pending_find_job(struct commands *commands, struct connection *connection, const json_t *request,
                             const struct job_record **out);

/* follower.c: logs, watch, metrics */
enum status follow_logs(struct commands *commands, struct connection *connection, const json_t *request);
enum status follow_events(struct commands *commands, struct connection *connection, const json_t *request);
enum status follow_metrics(struct commands *commands, struct connection *connection, const json_t *request);

/* show.c: show, workers */
enum status show_job(struct commands *commands, struct connection *connection, const json_t *request);
enum status show_workers(struct commands *commands, struct connection *connection, const json_t *request);

#endif
