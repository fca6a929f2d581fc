/* A job's record, and the lists of states and reasons.
 *
 * The daemon's common vocabulary: the store saves records, the client protocol shows them. Knows neither files nor sockets.
 */
#ifndef TRAINERD_DAEMON_JOB_RECORD_H
#define TRAINERD_DAEMON_JOB_RECORD_H

#include "protocol/base/status.h"

#include <stdbool.h>
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
/*         name                  when */
#define JOB_REASON_LIST(X)                                                                                           \
    X(NONE, "")                                                                                                      \
    X(PLANNING, "what it needs is not known yet")                                                                    \
    X(WAITING_TURN, "jobs before it wait")                                                                           \
    X(WAITING_SLOTS, "too few worker slots are free")                                                                \
    X(WAITING_MEMORY, "too little memory is free")                                                                   \
    X(WAITING_GPUS, "too few GPUs are free")                                                                         \
    X(WAITING_QUOTA, "its user has as much as one may have")                                                         \
    X(DRAINING, "the daemon starts no jobs until an administrator says so")                                          \
    X(BACKING_OFF, "its last attempt failed; the next one waits")                                                    \
    X(WAITING_SLURM, "it waits in Slurm")                                                                            \
    X(SLURM_SILENT, "Slurm does not answer")                                                                         \
    X(CANCELLING, "it was told to stop")                                                                             \
    X(RESCALING, "it continues with another number of workers")                                                      \
    X(BAD_CONFIG, "its job file is wrong")                                                                           \
    X(BAD_DATA, "its data is wrong")                                                                                 \
    X(MISSING_INPUT, "an input file is missing")                                                                     \
    X(CANNOT_CREATE, "its output cannot be created")                                                                 \
    X(DISK, "reading or writing failed")                                                                             \
    X(OUT_OF_MEMORY, "memory ran out")                                                                               \
    X(QUOTA, "it needs more than one user may have")                                                                 \
    X(WORKER_LOST, "a worker died or was silent for too long")                                                       \
    X(COORDINATOR_LOST, "its coordinator died")                                                                      \
    X(DIVERGED, "the loss is not finite")                                                                            \
    X(TIME_LIMIT, "its time limit passed")                                                                           \
    X(LOG_LIMIT, "a file in its folder became larger than the daemon allows")                                        \
    X(SLURM_REFUSED, "Slurm refused it")                                                                             \
    X(USER, "its owner asked for it")                                                                                \
    X(INTERNAL, "a bug of trainerd")

enum job_reason {
#define X(name, text) JOB_REASON_##name,
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

/* Numbers of the newest epoch; NaN where not known. */
struct job_progress {
    int64_t epoch, n_epoch; /* done, of the whole job */
    double loss, train_metric, valid_metric, test_metric;
    double best_valid_metric, best_test_metric; /* of the best evaluation so far */
    char metric[JOB_METRIC_BYTES];              /* its name; "": not known yet */
    double epoch_s, seconds_left;
    double compute_s, wait_s; /* of epoch_s: arithmetic, and waiting for rows of other workers; each the maximum */
    double evaluate_s;        /* of epoch_s: the evaluation at its end, with its own waiting */
    double bytes_sent, bytes_received; /* in that epoch, by all workers */
    double memory;                     /* bytes of all workers, measured; record.memory is planned */
};

struct job_record {
    int64_t id; /* 1, 2, …: never used again */
    char name[JOB_NAME_BYTES];
    char group[JOB_GROUP_BYTES]; /* the experiment that it is of; "": none */
    char tags[JOB_TAGS_BYTES];   /* with a comma between two */
    uid_t uid;                   /* owner */
    gid_t gid;
    enum job_state state;
    enum job_reason reason;
    char reason_text[JOB_REASON_BYTES];
    int32_t priority;                                      /* higher goes first */
    double submitted_at, started_at, ended_at, changed_at; /* seconds since 1970; 0: not yet */

    /* Its needs and limits. n_slot, n_gpu and memory are for all its workers together. */
    int32_t n_worker, n_slot, n_gpu;
    int32_t n_part;         /* of its graph: its job file says, or its first plan; 0: not known yet */
    int64_t memory;         /* bytes, from the plan; -1: not known yet */
    int32_t n_worker_least; /* that its plan holds for, by memory.limit; 0: not known yet */
    int64_t n_byte_fewer;   /* that one of fewer workers would need; 0: not known, or there are none fewer */
    /* Of its planning, in memory alone: what one that runs may take (0: none runs), and what it needs (0: not known to be more than it was given). */
    int64_t planning, planning_need;
    int64_t place; /* while it is QUEUED: 1 is the next, as the queue found last; 0: not found yet. In memory alone */
    double time_limit_s; /* of running, over all attempts; 0: none */
    int32_t max_restarts;

    /* Its coordinator. */
    uint64_t gpus;      /* held by the present attempt (gpus.h's sets); 0: none */
    int32_t attempt;    /* 0: none begun yet */
    int32_t n_restart;  /* attempts that failed and were followed by another */
    pid_t pid;          /* 0: none runs here. SUBMITTED, without a number of Slurm's: sbatch */
    uint64_t pid_start; /* its start time, in ticks since boot: the pid alone may have been reused */
    int64_t slurm;      /* number of Slurm's job that is the present attempt; 0: none, or not known yet */
    double attempt_at;  /* when the present attempt began to run, by job_clock.h, as all times below; 0: none runs */
    double ran_s;       /* of all earlier attempts; counts against time_limit_s */
    double next_attempt_at;    /* BACKING_OFF: not before */
    int64_t n_event_bytes;     /* of the job's events file, already in this record */
    bool cancel, checkpointed; /* its owner asked for its end; a checkpoint exists */
    int exit_code;             /* of its end; -1: not ended */

    struct job_progress progress;
};

/* Is its present attempt, if it has one, a job of Slurm's? */
bool job_is_in_slurm(const struct job_record *record);

const char *job_state_name(enum job_state state); /* "RUNNING" */
bool job_state_ended(enum job_state state);
const char *job_reason_name(enum job_reason reason); /* "WAITING_SLOTS" */
const char *job_reason_text(enum job_reason reason);
/* The state / reason of that name; false when there is none. */
bool job_state_find(const char *name, enum job_state *out);
bool job_reason_find(const char *name, enum job_reason *out);

/* The reason that stands for this status of an attempt. */
enum job_reason job_reason_of(enum status status);

#endif
