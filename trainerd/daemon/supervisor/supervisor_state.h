/* The supervisor from inside, for the files that implement it, each of which calls only those after it:
 *
 * supervisor.c the queue and requests of owners · attempt.c one coordinator from its start, or its adoption, to its end ·
 * attempt_files.c the files that it inherits · planning.c what a job needs · command_line.c arguments of coordinators · supervisor_state.c what they share.
 */
#ifndef TRAINERD_DAEMON_SUPERVISOR_STATE_H
#define TRAINERD_DAEMON_SUPERVISOR_STATE_H

#include "protocol/job_files.h"
#include "trainerd/daemon/jobs/job_clock.h"
#include "trainerd/daemon/supervisor/event_log.h"
#include "trainerd/daemon/supervisor/outcome.h"
#include "trainerd/daemon/supervisor/process.h"
#include "trainerd/daemon/supervisor/supervisor.h"

#include <limits.h>

#define SUPERVISOR_RETRY_MS 1000 /* after a change could not be saved */

/* A coordinator that runs, or has just ended. */
struct attempt {
    struct supervisor *supervisor;
    int64_t id; /* of the job */
    struct process process;
    uv_poll_t exit;
    uv_fs_event_t watch;      /* of the job's folder */
    uv_timer_t deadline;      /* time limit, then KILL */
    uv_timer_t step_timer;    /* the next step: more to read, or a retry */
    int n_handle;             /* open ones: the last one closed frees the attempt */
    enum job_reason stopping; /* CANCELLING, RESCALING, TIME_LIMIT, BAD_DATA, LOG_LIMIT: why it was told to stop */
    bool is_gone, is_closing;
    bool was_found;  /* an earlier daemon began it */
    bool has_begun;  /* its event "begin" was read; reliable while the job is PREPARING */
    bool was_reaped; /* wait_status is known */
    int wait_status;
    struct event end; /* its own report */
    bool has_end;
    bool has_warned;                /* of changes that cannot be saved */
    int64_t read_left;              /* bytes of its events that may be read now, … */
    uint64_t read_at_ms;            /* … as it was then */
    char spoiled[JOB_REASON_BYTES]; /* what no coordinator writes was read, or too much was written; "": neither */
    char events[PATH_MAX + 16];
    char log[PATH_MAX + 16];
    struct attempt *next;
};

/* A coordinator that plans a job, to find what it needs. */
struct planning {
    struct supervisor *supervisor;
    int64_t id;
    uid_t uid; /* whose job it is */
    struct process process;
    uv_poll_t exit;
    uv_timer_t deadline;
    int n_handle;
    int out, err;   /* memory files that it prints to */
    int64_t n_most; /* bytes that it may take */
    bool is_stale;  /* the result is not wanted any more */
    bool is_late;   /* it was killed at its deadline */
    struct planning *next;
};

struct supervisor {
    uv_loop_t *loop;
    struct jobs *jobs;
    struct supervisor_options options;
    uv_timer_t timer, minute;
    uv_timer_cb on_schedule;               /* supervisor.c's pass over the queue; files below it only set the timer */
    uint64_t schedule_ns, scheduled_at_ns; /* how long the last pass took, when it ended */
    int64_t n_oom_kill;                    /* as it was when it was last looked at */
    bool is_scheduling, is_closing;
    int n_handle; /* of attempts, planning and its own: freed with the last */
    struct attempt *attempts;
    struct planning *planning; /* QUEUE_PLANNING_MOST at most, of different users; NULL: none */
};

/* Count one closed handle; the last one frees the supervisor. */
void supervisor_release_handle(struct supervisor *supervisor);
/* Run the queue after wait_s, or later: it takes at most a tenth of the daemon's time, however many jobs wait. */
void supervisor_schedule_after(struct supervisor *supervisor, double wait_s);
/* Was a process that has ended like this killed because memory ran out? The system has then killed some since the last attempt or planning was
 * settled, after which supervisor_settled is called. */
bool supervisor_memory_ran_out(const struct supervisor *supervisor, int wait_status);
void supervisor_settled(struct supervisor *supervisor);
/* Set n_worker, n_slot and n_gpu of the record for this many workers. errors  STATUS_USAGE it has fewer parts; STATUS_IO */
enum status supervisor_needs(struct supervisor *supervisor, int32_t n_worker, struct job_record *record);

/* --- command_line.c --- */
struct command_line {
    char **argv;
    char *folder; /* the client's working directory */
    char *config; /* the job file as submitted, for standard input */
};
/* Arguments of this job's coordinator: for attempt number `attempt`, with the files that it inherits (NULL: it opens them by name), or to plan.
 *
 *   owns    the caller owns *out: command_line_release
 *   errors  STATUS_CONFIG, …: the job file is not valid any more; STATUS_IO
 */
enum status command_line_make(const struct jobs *jobs, const struct job_record *record, int32_t attempt,
                              const struct job_files *files, struct command_line *out);
enum status command_line_plan(const struct jobs *jobs, const struct job_record *record, int64_t n_most,
                              struct command_line *out);
void command_line_release(struct command_line *line);

/* --- attempt.c --- */
/* Start the job's next attempt. errors  see restart_can_start_later for those that may pass */
enum status attempt_begin(struct supervisor *supervisor, const struct job_record *record);
/* Follow an attempt that an earlier daemon began. */
void attempt_adopt(struct supervisor *supervisor, const struct job_record *record);
struct attempt *attempt_of(const struct supervisor *supervisor, int64_t id);
/* Send TERM, once, and KILL after kill_s. */
void attempt_stop(struct attempt *attempt, enum job_reason why);
void attempt_close(struct attempt *attempt);

/* --- attempt_files.c --- */
/* Fork the coordinator of the job's next attempt, with these GPUs; it waits at its gate. errors  those of process_spawn; STATUS_CREATE */
enum status attempt_spawn(struct supervisor *supervisor, const struct job_record *record, uint64_t gpus, struct process *out);
/* Stop the attempt if a file of the job's folder is larger than it may be. */
void attempt_files_check(struct attempt *attempt);
/* Cut files that are, once no process of it is left. */
void attempt_files_cut(const struct attempt *attempt);

/* --- planning.c --- */
/* Within n_most bytes, unless it is planned already, or too many are: then a later pass over the queue begins it. */
enum status planning_begin(struct supervisor *supervisor, const struct job_record *record, int64_t n_most);
/* That of a job; NULL: none. */
struct planning *planning_of(const struct supervisor *supervisor, int64_t id);
/* Discard the planning and its result. NULL is allowed. */
void planning_stop(struct planning *planning);

#endif
