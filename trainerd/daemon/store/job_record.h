/* A job's record, and the lists of states and reasons.
 *
 * The daemon's common vocabulary: the store saves records, the client protocol shows them. Knows neither files nor
 * sockets.
 */
#ifndef TRAINERD_DAEMON_JOB_RECORD_H
#define TRAINERD_DAEMON_JOB_RECORD_H

#include "protocol/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*         name        has it ended */
#define JOB_STATE_LIST(X)                                                                                            \
    X(QUEUED, false)                                                                                                 \
    X(SUBMITTED, false)                                                                                              \
    X(PREPARING, false)                                                                                              \
    X(STARTING, false)                                                                                               \
    X(RUNNING, false)                                                                                                \
    X(SUCCEEDED, true)                                                                                               \
    X(FAILED, true)                                                                                                  \
    X(CANCELLED, true)

enum job_state {
#define X(name, ended) JOB_STATE_##name,
    JOB_STATE_LIST(X)
#undef X
        JOB_STATE_N
};

/* Why a job is in its state. reason_text tells more of this job: "2 of 4 slots are free, it needs 3". */
/* name, when, cure: docs/errors.md is made of them */
/* clang-format off */
#define JOB_REASON_LIST(X) \
    X(NONE, "", \
      "") \
    X(PLANNING, "its resources are being estimated", \
      "") \
    X(WAITING_TURN, "other jobs are before it in the queue", \
      "`trainctl users` shows whose turn it is") \
    X(WAITING_SLOTS, "too few worker slots are free", \
      "wait, or `trainctl scale` to fewer workers") \
    X(WAITING_MEMORY, "too little memory is free", \
      "wait; `memory.spill`, or more workers, each of which takes less") \
    X(WAITING_GPUS, "too few GPUs are free", \
      "wait, or ask for fewer workers") \
    X(WAITING_QUOTA, "its user has reached a quota", \
      "wait for your own jobs to end, or cancel some") \
    X(DRAINING, "the daemon is draining and starts no jobs", \
      "an administrator ends it by `trainctl undrain`") \
    X(BACKING_OFF, "its last attempt failed; the next one waits", \
      "wait; its log has the reason") \
    X(WAITING_SLURM, "it waits in Slurm", \
      "`squeue` says why") \
    X(SLURM_SILENT, "Slurm does not answer", \
      "an administrator looks at Slurm; the job is not lost") \
    X(CANCELLING, "it is being cancelled", \
      "") \
    X(RESCALING, "it continues with another number of workers", \
      "") \
    X(BAD_CONFIG, "its job file is wrong", \
      "mend the line that is named, and submit it again") \
    X(BAD_DATA, "its data is wrong", \
      "mend the file that is named, then `trainctl resume`") \
    X(MISSING_INPUT, "an input file is missing", \
      "mend the path, or put the file there, then `trainctl resume`") \
    X(CANNOT_CREATE, "its output cannot be created", \
      "mend the rights of the folder that is named, then `trainctl resume`") \
    X(DISK, "reading or writing failed", \
      "free space on the disk, then `trainctl resume`") \
    X(OUT_OF_MEMORY, "memory ran out", \
      "more workers, `memory.recompute`, `memory.spill`, or `train.precision = \"bf16\"`") \
    X(QUOTA, "it needs more than the quota of a user", \
      "ask for less, or ask an administrator for more") \
    X(WORKER_LOST, "a worker died or was silent for too long", \
      "its log has the reason; `trainctl resume`, or more `--max-restarts`") \
    X(COORDINATOR_LOST, "its coordinator died", \
      "its log has the reason; `trainctl resume`") \
    X(DIVERGED, "the loss is not finite", \
      "lower `train.lr`, or set `train.clip_norm` or `train.on_nan`") \
    X(TIME_LIMIT, "its time limit passed", \
      "submit it with a longer `--time-limit`") \
    X(LOG_LIMIT, "a file in its folder became larger than the daemon allows", \
      "print less, or ask for a greater `max_log`") \
    X(SLURM_REFUSED, "Slurm refused it", \
      "mend `slurm_options`, or ask Slurm's administrators") \
    X(USER, "its owner asked for it", \
      "`trainctl resume` goes on") \
    X(INTERNAL, "a bug of trainerd", \
      "report it, with the log")
/* clang-format on */

enum job_reason {
#define X(name, text, cure) JOB_REASON_##name,
    JOB_REASON_LIST(X)
#undef X
        JOB_REASON_N
};

#define JOB_NAME_BYTES 64
#define JOB_REASON_BYTES 512
#define JOB_METRIC_BYTES 24
#define JOB_GROUP_BYTES 64
#define JOB_TAG_BYTES 33 /* of one, with its NUL */
#define JOB_TAGS_MOST 8
#define JOB_TAGS_BYTES (JOB_TAGS_MOST * JOB_TAG_BYTES)

/* Numbers of the newest epoch. */
struct job_progress {
    int64_t epoch, n_epoch;        /* done, of the whole job */
    char metric[JOB_METRIC_BYTES]; /* name of the metric; "": not known yet */
#define FIGURE(field, name, form) double field;
#include "trainerd/base/epoch_figures.def"
};

/* Seconds since 1970; 0: not yet. */
struct job_times {
    double submitted_at, started_at, ended_at, changed_at;
};

/* Facts of its first plan and its job file; 0: not known yet. */
struct job_plan {
    int32_t n_part;         /* parts of its graph */
    int32_t n_worker_least; /* the least number of workers that the plan holds for, by memory.limit */
    int64_t n_byte_fewer;   /* bytes that one worker needs if there are fewer; 0 also: there cannot be fewer */
};

/* Its place in the queue and its planning: in memory only. */
struct job_queued {
    int64_t place;         /* of a QUEUED job, as the queue found last: 1 is the next; 0: not found yet */
    int64_t planning;      /* bytes that the planning that runs may take; 0: no planning runs */
    int64_t planning_need; /* bytes that planning needs; 0: not known to be more than it was given */
};

/* Its attempts. Times are of job_clock.h. */
struct job_run {
    int32_t n_restart; /* attempts that failed and were followed by another */
    pid_t pid;         /* of its coordinator; SUBMITTED, without a number of Slurm's: of sbatch; 0: no process here */
    uint64_t pid_start;     /* the process's start time, in ticks since boot: the pid alone may have been reused */
    int64_t slurm;          /* number of Slurm's job that is the present attempt; 0: no such job, or not known yet */
    double attempt_at;      /* when the present attempt began to run; 0: no attempt runs */
    double ran_s;           /* of all earlier attempts; counts against time_limit_s */
    double next_attempt_at; /* BACKING_OFF: not before */
    int64_t n_event_bytes;  /* bytes of the job's events file that this record includes */
    bool cancel;            /* its owner asked for its end */
    bool checkpointed;      /* a checkpoint exists */
};

struct job_record {
    int64_t id; /* 1, 2, …: never used again */
    char name[JOB_NAME_BYTES];
    char group[JOB_GROUP_BYTES]; /* the experiment that it belongs to; "": no group */
    char tags[JOB_TAGS_BYTES];   /* with a comma between two */
    uid_t uid;                   /* owner */
    gid_t gid;
    enum job_state state;
    enum job_reason reason;
    char reason_text[JOB_REASON_BYTES];
    int32_t priority; /* higher goes first */
    struct job_times times;

    /* Its needs and limits. n_slot, n_gpu and memory are for all its workers together. */
    int32_t n_worker, n_slot, n_gpu;
    int64_t memory; /* bytes, from the plan; -1: not known yet */
    struct job_plan plan;
    struct job_queued queued;
    double time_limit_s; /* of running, over all attempts; 0: no limit */
    int32_t max_restarts;

    uint64_t gpus;   /* held by the present attempt (gpus.h's sets); 0: no GPU */
    int32_t attempt; /* 0: no attempt has begun */
    struct job_run run;
    int exit_code; /* of its end; -1: not ended */

    struct job_progress progress;
};

/* Is its present attempt, if it has one, a job of Slurm's? */
bool job_is_in_slurm(const struct job_record *record);

const char *job_state_name(enum job_state state); /* "RUNNING" */
bool job_state_ended(enum job_state state);
const char *job_reason_name(enum job_reason reason); /* "WAITING_SLOTS" */
const char *job_reason_text(enum job_reason reason);
const char *job_reason_cure(enum job_reason reason);
/* The state / reason of that name; false when there is no such name. */
bool job_state_find(const char *name, enum job_state *out);
bool job_reason_find(const char *name, enum job_reason *out);

/* Set why it is in its state; the text is made as by printf, and cut to what there is room for. */
void job_reason_set(struct job_record *record, enum job_reason reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Copy at most capacity - 1 bytes of a text, whole UTF-8 characters only. */
void job_text_cut(const char *text, char *out, size_t capacity);

/* The reason that stands for this status of an attempt. */
enum job_reason job_reason_from(enum status status);

#endif
