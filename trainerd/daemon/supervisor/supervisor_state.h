/* What the supervisor's files share: the attempts under way, the plan being made, and who does what.
 *
 * supervisor.c the queue and what owners ask for · attempt.c one coordinator, from its start or its being found to
 * its end · planning.c what a job needs · command_line.c how coordinators are called.
 */
#ifndef TRAINERD_DAEMON_SUPERVISOR_STATE_H
#define TRAINERD_DAEMON_SUPERVISOR_STATE_H

#include "trainerd/daemon/supervisor/event_log.h"
#include "trainerd/daemon/supervisor/outcome.h"
#include "trainerd/daemon/supervisor/process.h"
#include "trainerd/daemon/supervisor/supervisor.h"

#include <limits.h>

#define SUPERVISOR_RETRY_MS 1000 /* after the disk refused a change */

/* A coordinator that runs, or has just ended. */
struct attempt {
    struct supervisor *supervisor;
    int64_t id; /* of the job */
    struct process process;
    uv_poll_t exit;
    uv_fs_event_t news;        /* of the job's folder */
    uv_timer_t deadline, soon; /* time limit, then KILL · more to read, or to be tried again */
    int n_handle;              /* open ones: freed with the last */
    enum job_reason stopping;  /* CANCELLING, RESCALING, TIME_LIMIT: it was told to end */
    bool is_gone, is_closing;
    bool was_found;  /* an earlier daemon began it */
    bool has_begun;  /* its coordinator has said so; known for sure while the job is PREPARING */
    bool was_reaped; /* how it ended is known: */
    int wait_status;
    struct event end; /* its own words */
    bool has_end;
    bool has_warned; /* of a disk that refuses changes */
    char events[PATH_MAX + 16];
    char log[PATH_MAX + 16];
    struct attempt *next;
};

/* What a job needs is being found out. */
struct planning {
    struct supervisor *supervisor;
    int64_t id;
    struct process process;
    uv_poll_t exit;
    int out, err;  /* what it prints, in memory */
    bool is_stale; /* nobody asks any more */
};

struct supervisor {
    uv_loop_t *loop;
    struct jobs *jobs;
    struct supervisor_options options;
    uv_timer_t look;
    uint64_t look_ns, looked_at_ns; /* how long the last look took, when it ended */
    bool is_looking, is_closing;
    int n_handle; /* of attempts, planning and its own: freed with the last */
    struct attempt *attempts;
    struct planning *planning; /* NULL: none */
};

/* One handle less; frees the supervisor with the last. */
void supervisor_handle_closed(struct supervisor *supervisor);

/* Note what the job needs with so many workers. errors  STATUS_USAGE it has fewer parts; STATUS_IO */
enum status supervisor_ask(struct supervisor *supervisor, int32_t n_worker, struct job_record *record);

/* --- command_line.c --- */
struct command_line {
    char **argv;
    char *folder; /* where the client stood */
};
/* How this job's coordinator is called: to plan, or for attempt number `attempt`.
 *
 *   owns    the caller owns *out: command_line_release
 *   errors  STATUS_CONFIG, …: the job file cannot be read any more; STATUS_IO
 */
enum status command_line_make(const struct jobs *jobs, const struct job_record *record, int32_t attempt,
                              struct command_line *out);
enum status command_line_plan(const struct jobs *jobs, const struct job_record *record, struct command_line *out);
void command_line_release(struct command_line *line);

/* --- attempt.c --- */
/* Start the job's next attempt. errors  STATUS_IO, STATUS_CREATE: it may go another time; others: it cannot go */
enum status attempt_begin(struct supervisor *supervisor, const struct job_record *record);
/* Go on with an attempt that an earlier daemon began. */
void attempt_take_up(struct supervisor *supervisor, const struct job_record *record);
struct attempt *attempt_of(const struct supervisor *supervisor, int64_t id);
/* Tell it to end, once: TERM now, KILL after kill_s. */
void attempt_stop(struct attempt *attempt, enum job_reason why);
void attempt_close(struct attempt *attempt);

/* --- planning.c --- */
enum status planning_begin(struct supervisor *supervisor, const struct job_record *record);
/* Its result is not wanted any more. NULL is allowed. */
void planning_stop(struct planning *planning);

#endif
