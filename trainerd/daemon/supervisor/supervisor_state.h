/* The supervisor from inside, for the files that implement it, each of which calls only those after it:
 *
 * supervisor.c the queue and requests of owners · attempt.c one attempt, wherever it runs · attempt_process.c,
 * attempt_slurm.c where it runs · attempt_files.c the files that it inherits, and their limit · slurm_user.c a user's
 * jobs in Slurm's queue · planning.c what a job needs · supervisor_cgroups.c their control groups · command_line.c
 * arguments of coordinators · supervisor_state.c what they share.
 */
#ifndef TRAINERD_DAEMON_SUPERVISOR_STATE_H
#define TRAINERD_DAEMON_SUPERVISOR_STATE_H

#include "protocol/files/job_files.h"
#include "trainerd/base/texts.h"
#include "trainerd/daemon/slurm/slurm_text.h"
#include "trainerd/daemon/store/job_clock.h"
#include "trainerd/daemon/supervisor/event_log.h"
#include "trainerd/daemon/supervisor/outcome.h"
#include "trainerd/daemon/supervisor/process.h"
#include "trainerd/daemon/supervisor/supervisor.h"
#include "trainerd/daemon/supervisor/tool.h"

#include <limits.h>

#define SUPERVISOR_RETRY_MS 1000 /* after a change could not be saved */

struct attempt;
struct slurm_user;

/* How an attempt runs: as a process of this machine, or as a job of Slurm's. */
struct runner {
    /* Ask for a checkpoint and the end / end it at once / ask for a checkpoint only; false: it is gone. */
    void (*stop)(struct attempt *attempt);
    void (*kill)(struct attempt *attempt);
    bool (*checkpoint)(struct attempt *attempt);
    /* After each step of an attempt that is not gone; may be NULL. */
    void (*stepped)(struct attempt *attempt);
    /* Of one that is gone: is something left, which may hold its locks? It is ended by then. NULL: never */
    bool (*has_rest)(struct attempt *attempt);
    /* How one ended that has not reported it: all of *out but its text, which is `text`. */
    void (*ending)(const struct attempt *attempt, const struct job_record *record, char *text, size_t capacity,
                   struct ending *out);
    void (*close)(struct attempt *attempt);
};

/* What is known of an attempt as a job of Slurm's, and wanted of it. */
struct in_slurm {
    struct slurm_user *user;
    struct tool *tool;      /* that runs for it: sbatch, scontrol or scancel; NULL: none */
    bool *done;             /* the wish that is done once it has ended well; NULL: sbatch */
    bool submits;           /* sbatch runs, of this daemon or of an earlier one */
    uint64_t submits_at_ms; /* since when */
    int64_t number;         /* found, and not in the record yet; 0: none */
    int64_t look_from;      /* the first of the user's looks that says whether there is a job */
    bool wants_release, wants_stop, wants_kill, wants_checkpoint;
    bool is_released; /* by this daemon: one that is held again is its user's affair */
    uint64_t retry_at_ms;
    int n_failed;                   /* commands in a row */
    bool was_refused, was_silent;   /* sbatch failed; Slurm did not answer a question since */
    char message[JOB_REASON_BYTES]; /* why sbatch failed */
    bool is_seen;                   /* in the present look */
    int n_missing;                  /* looks in a row in which it is not */
    struct slurm_look look;         /* the last in which it was */
};

/* The end of an attempt's process. */
struct attempt_death {
    bool was_reaped; /* wait_status is known */
    int wait_status;
    int64_t n_oom_kill, memory_limit; /* of its control group, as they were at its end */
    uint64_t rest_since_ms;           /* the process is gone, and its group is not; 0: the process runs */
};

/* The events file of an attempt, which is read at a limited rate. */
struct attempt_events {
    char path[PATH_MAX + 16];
    int64_t read_left;              /* bytes that may be read now, … */
    uint64_t read_at_ms;            /* … as of then */
    char spoiled[JOB_REASON_BYTES]; /* the file has lines that no coordinator writes, or is too large; "": neither */
};

/* Where its job has files. */
struct attempt_paths {
    char folder[PATH_MAX], log[PATH_MAX + 16];
};

/* A coordinator that runs, or has just ended. */
struct attempt {
    struct supervisor *supervisor;
    int64_t id; /* of the job */
    const struct runner *runner;
    struct process process; /* the coordinator; of one in Slurm an earlier daemon's sbatch */
    struct in_slurm slurm;
    uv_poll_t exit;           /* of the process */
    uv_fs_event_t watch;      /* of the job's folder */
    uv_timer_t deadline;      /* time limit, then KILL */
    uv_timer_t step_timer;    /* the next step: more to read, or a retry */
    int n_handle;             /* open ones: the last one closed frees the attempt */
    enum job_reason stopping; /* CANCELLING, RESCALING, TIME_LIMIT, BAD_DATA, LOG_LIMIT: why it was told to stop */
    bool is_gone, is_closing;
    bool was_found;   /* an earlier daemon began it */
    bool has_begun;   /* its event "begin" was read; reliable while the job is PREPARING */
    bool has_trained; /* an epoch of it was read by this daemon */
    struct attempt_death death;
    struct event end;         /* its own report */
    bool has_end, awaits_end; /* the report has been read; the deadline is its process's */
    bool has_warned;          /* of changes that cannot be saved */
    struct attempt_events events;
    struct attempt_paths paths;
    struct attempt *next;
};

/* A coordinator that plans a job, to find what it needs. */
struct planning {
    struct supervisor *supervisor;
    int64_t id;
    uid_t uid; /* whose job it is */
    struct tool *tool;
    int64_t n_most; /* bytes that it may take */
    bool is_stale;  /* the result is not wanted any more */
    struct planning *next;
};

/* Slurm's commands, and the users with jobs there. */
struct slurm {
    char sbatch[PATH_MAX], squeue[PATH_MAX], scontrol[PATH_MAX], scancel[PATH_MAX];
    char *options_text, *options[SLURM_OPTIONS_MOST];
    size_t n_option;
    struct slurm_user *users;
};

/* A user with jobs in Slurm: one squeue at a time looks at all of them. */
struct slurm_user {
    struct supervisor *supervisor;
    uid_t uid;
    gid_t gid;                    /* of the first of his jobs */
    struct tool *squeue, *orphan; /* that run; orphan: a scancel of a job that no attempt has */
    uv_timer_t timer;
    int64_t n_look; /* begun */
    int n_silent;   /* failed in a row */
    bool is_closing;
    struct slurm_user *next;
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
    int n_handle; /* of attempts and its own: freed with the last */
    struct attempt *attempts;
    struct slurm slurm;
    struct planning *planning; /* QUEUE_PLANNING_MOST at most, of different users; NULL: none */
};

/* Count one closed handle; the last one frees the supervisor. */
void supervisor_release_handle(struct supervisor *supervisor);
/* Run the queue after wait_s, or later: it takes at most a tenth of the daemon's time, however many jobs wait. */
void supervisor_schedule_after(struct supervisor *supervisor, double wait_s);
/* Was a process that has ended like this killed because memory ran out? The system has then killed some since the
 * last attempt or planning was settled, after which supervisor_settled is called. */
bool supervisor_memory_ran_out(const struct supervisor *supervisor, int wait_status);
void supervisor_settled(struct supervisor *supervisor);
/* Are the job's workers processes of this machine? */
bool supervisor_is_local(const struct supervisor *supervisor, int64_t id);
/* Set n_worker, n_slot and n_gpu. errors  STATUS_USAGE fewer parts, or memory for more workers only; STATUS_IO */
enum status supervisor_needs(struct supervisor *supervisor, int32_t n_worker, struct job_record *record);

/* --- supervisor_cgroups.c --- */
/* What a new process of a job is put into: for process_options.made, whose context it is. */
struct cgroup_plan {
    const struct job_cgroups *groups;
    char name[JOB_CGROUPS_NAME_BYTES];
    int64_t memory;
    int32_t n_slot;
};
/* Of the next attempt of a job, by its plan / of its planning, which may take what all jobs together may. */
struct cgroup_plan cgroup_of_attempt(const struct supervisor *supervisor, const struct job_record *record);
struct cgroup_plan cgroup_of_planning(const struct supervisor *supervisor, int64_t job);
enum status cgroup_begin(const void *plan, pid_t pid);
/* Kill the rest of an attempt's group, and remove the group. true: some is left, call it again. */
bool cgroup_has_rest(struct attempt *attempt);
/* The coordinator has ended: keep what its group says of memory. */
void cgroup_note_end(struct attempt *attempt);
/* Add to the reason of an attempt whose group ran out of memory the group, its limit and the plan. */
void cgroup_explain(const struct attempt *attempt, const struct job_record *record, char *text, size_t capacity);
/* Groups that no attempt of this daemon has: a dead daemon left them. */
void cgroups_sweep(struct supervisor *supervisor);

/* --- command_line.c --- */
struct command_line {
    struct texts arguments;
    char *folder; /* the client's working directory */
    char *config; /* the job file as submitted, for standard input */
};
/* Arguments of a coordinator: for this attempt, with its files, or to plan.
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
#define ATTEMPT_REST_MS 20 /* between two checks of what is left of one that is gone */
/* Start the job's next attempt. errors  see restart_can_start_later for those that may pass */
enum status attempt_begin(struct supervisor *supervisor, const struct job_record *record);
/* Follow an attempt that an earlier daemon began. */
void attempt_adopt(struct supervisor *supervisor, const struct job_record *record);
struct attempt *attempt_find(const struct supervisor *supervisor, int64_t id);
/* Send TERM, once, and KILL after kill_s. */
void attempt_stop(struct attempt *attempt, enum job_reason why);
void attempt_close(struct attempt *attempt);

/* For runners. Add an attempt to the supervisor's, followed from attempt_follow on. */
struct attempt *attempt_add(struct supervisor *supervisor, int64_t id, const struct runner *runner);
void attempt_handle_opened(struct attempt *attempt, uv_handle_t *handle);
void attempt_follow(struct attempt *attempt);
/* It is gone: read the rest of its events, then settle it. */
void attempt_gone(struct attempt *attempt);
/* Step again: read events, act. At once when there is more to read, after a wait when a change could not be saved. */
void attempt_step_later(struct attempt *attempt, uint64_t wait_ms);
/* Log that a change could not be saved, once. */
void attempt_warn(struct attempt *attempt);
int32_t attempt_number(const struct attempt *attempt);
/* Where the next attempt's events begin: what lies before is an earlier attempt's, or another process's. */
int64_t attempt_events_before(const struct supervisor *supervisor, int64_t id);

/* --- attempt_process.c --- */
enum status attempt_begin_process(struct supervisor *supervisor, const struct job_record *record);
struct attempt *attempt_adopt_process(struct supervisor *supervisor, const struct job_record *record);

/* --- attempt_files.c --- */
/* Fork the next attempt's coordinator, which waits at its gate. errors  those of process_spawn; STATUS_CREATE */
enum status attempt_spawn(struct supervisor *supervisor, const struct job_record *record, uint64_t gpus,
                          struct process *out);
/* Stop the attempt if a file of the job's folder is larger than it may be. */
void attempt_files_check(struct attempt *attempt);
/* Cut files that are, once no process of it is left. */
void attempt_files_cut(const struct attempt *attempt);

/* --- attempt_slurm.c --- */
enum status attempt_begin_slurm(struct supervisor *supervisor, const struct job_record *record);
struct attempt *attempt_adopt_slurm(struct supervisor *supervisor, const struct job_record *record);
/* The user's look number n_look has, or has not, its job (attempt->slurm.is_seen) / Slurm did not answer, and why. */
void attempt_slurm_looked(struct attempt *attempt);
void attempt_slurm_silent(struct attempt *attempt, const char *why);

/* --- slurm_user.c --- */
/* Find Slurm's commands in PATH and read the options. errors  STATUS_CONFIG */
enum status slurm_open(const struct supervisor_options *options, struct slurm *out);
void slurm_release(struct slurm *slurm);
/* The user, to be looked at from now on / who is forgotten after the last of his attempts. */
struct slurm_user *slurm_user_find(struct supervisor *supervisor, uid_t uid, gid_t gid);
void slurm_user_leave(struct slurm_user *user);
/* Look soon, and not only when it is time. */
void slurm_user_look(struct slurm_user *user);
/* Run a command of Slurm as that user. After an error *out is as before. */
enum status slurm_tool_run(struct slurm_user *user, char *const *argv,
                           void (*ended)(void *context, struct tool *tool), void *context, struct tool **out);
/* The wait before the next try after n failures. */
uint64_t slurm_retry_ms(const struct supervisor *supervisor, int n_failed);

/* --- planning.c --- */
/* Within n_most bytes, unless it is planned already, or too many are: then a later pass over the queue begins it. */
enum status planning_begin(struct supervisor *supervisor, const struct job_record *record, int64_t n_most);
/* That of a job; NULL: none. */
struct planning *planning_find(const struct supervisor *supervisor, int64_t id);
/* Discard the planning and its result. NULL is allowed. */
void planning_stop(struct planning *planning);

#endif
