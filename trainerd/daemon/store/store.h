/* Jobs on disk: SQLite (WAL, synchronous FULL), one writer. A change that returned STATUS_OK survives any crash.
 *
 * Only the files store* see SQLite. Knows records and texts, not the rules of states, which are in jobs.h.
 */
#ifndef TRAINERD_DAEMON_STORE_H
#define TRAINERD_DAEMON_STORE_H

#include "protocol/base/status.h"
#include "trainerd/base/slice.h"
#include "trainerd/daemon/store/job_record.h"

#include <stddef.h>

#define STORE_ID_BYTES 33 /* 32 hexadecimal digits, NUL */

struct store;

/* A job's submission; texts end in NUL. */
struct store_submission {
    const char *submission_id; /* "": none. Unique for an owner; all jobs of one submission have it */
    const char *config;        /* the job file's text */
    const char *file;          /* its name in messages; NULL: "job.toml". Not stored */
    const char *const *set;    /* n_set settings "section.key=value" */
    size_t n_set;
    const char *folder; /* the client's working directory: relative paths of the job start there */
    const char *output; /* absolute output folder */
};

/* Open FOLDER/jobs.sqlite, or make it (mode 0600); checks it and brings an older version up to date, of which a copy
 * stays: FOLDER/jobs.sqlite.version-N.
 *
 *   owns    the caller owns *out: store_close
 *   errors  STATUS_CREATE, STATUS_IO; STATUS_DATA damaged, or written by a newer version; STATUS_PEER another daemon
 *           has it open
 */
enum status store_open(const char *folder, struct store **out);
void store_close(struct store *store);

/* The store's id, random digits. / The highest number that a job has had; 0: no job yet. */
const char *store_id(const struct store *store);
enum status store_highest(struct store *store, int64_t *out);

/* Save new jobs of one owner and one submission_id, all of them or none; sets their ids, which follow each other.
 * With a submission_id that the owner has used before, nothing is saved and *existing_out is the first of the jobs
 * that it made (else 0).
 *
 *   shapes  record n · submission n
 *   errors  STATUS_IO (disk full, …): nothing is saved
 */
enum status store_insert(struct store *store, struct job_record *record, const struct store_submission *submission,
                         size_t n, int64_t *existing_out);

/* Call `each` for every job that a submission of this owner has made, in its order. */
enum status store_submitted(struct store *store, uid_t uid, const char *submission_id,
                            void (*each)(void *context, int64_t id), void *context);

/* What a user's attempts that have ended have used of the machine (shares.h), as of a time of job_clock.h. */
struct store_use {
    uid_t uid;
    double used, at;
};

/* Save a changed record, its user's use (NULL: unchanged), and history if state, reason or attempt changed. */
enum status store_update(struct store *store, const struct job_record *record, const struct store_use *use);
/* The same for the first *n_out of n records, at least one, as fit into the slice: all or none. cost  one sync */
enum status store_update_some(struct store *store, const struct job_record *record, size_t n,
                              const struct slice *slice, size_t *n_out);

/* Call `each` for every user with a saved use; entries that are not one are logged and skipped. */
enum status store_uses(struct store *store, void (*each)(void *context, const struct store_use *use), void *context);

/* Remove jobs, their submissions and history, all of them or none. errors  STATUS_IO */
enum status store_remove(struct store *store, const int64_t *ids, size_t n);

/* Was the last failure that of a full disk? */
bool store_found_no_space(const struct store *store);

/* Write to the store without changing it, and wait for the disk. errors  STATUS_IO: no change can be saved now */
enum status store_probe(struct store *store);

/* --- store_query.c: each by an index; errors  STATUS_IO, STATUS_DATA ---
 *
 * Lists of ids have room for n_most; *n_out is how many there are.
 */

/* Jobs of one user's group, or with one user's tag, or both; of all users. */
enum store_states { STORE_ANY, STORE_OPEN, STORE_ENDED, STORE_STOPPED, STORE_N_STATES };
struct store_filter {
    uid_t uid;
    const char *group, *tag; /* NULL: any. Groups and tags are their owner's */
    enum store_states states;
};

/* Those with ids below `before`, the newest first. cost  of a tag: all jobs of its user's that have tags; of all
 * that have ended: of those that have not, too; else of n_most */
enum status store_select(struct store *store, const struct store_filter *filter, int64_t before, size_t n_most,
                         int64_t *ids_out, size_t *n_out);
/* Number of jobs in each state, whichever the filter's states. cost  some 0.06 us for each job of a group or a tag;
 * of all: none, they are counted with each change */
enum status store_count(struct store *store, const struct store_filter *filter, int64_t n_of_state[JOB_STATE_N]);

/* The newest of that name, of this user unless is_any_users; 0: none */
enum status store_named(struct store *store, const char *name, uid_t uid, bool is_any_users, int64_t *id_out);

/* The users with jobs that wait, as (int32_t)uid / how many of one user wait / the first of them, by priority, then
 * id. */
enum status store_waiting(struct store *store, size_t n_most, int64_t *uids_out, size_t *n_out);
enum status store_count_waiting(struct store *store, uid_t uid, int64_t *n_out);
enum status store_first(struct store *store, uid_t uid, size_t n_most, int64_t *ids_out, size_t *n_out);

/* Ended jobs that are kept no longer, those that ended first before others. now: seconds since 1970 */
struct retention {
    double days;   /* after their end; 0: always */
    int64_t n_job; /* that have ended, the last to end; 0: all */
};
enum status store_expired(struct store *store, const struct retention *retention, double now, size_t n_most,
                          int64_t *ids_out, size_t *n_out);

/* Read a job's record. false: there is none, or it cannot be read, which the log says */
bool store_get(struct store *store, int64_t id, struct job_record *out);
/* errors  STATUS_USAGE there is no job of that id */
enum status store_get_state(struct store *store, int64_t id, enum job_state *out);
/* Call `each` for every job that has not ended, ids ascending / for those that have ended since a time (seconds since
 * 1970), the newest first. Invalid rows are logged and skipped. */
enum status store_each_open(struct store *store, void (*each)(void *context, const struct job_record *record),
                            void *context);
enum status store_each_recent(struct store *store, double since, size_t n_most,
                              void (*each)(void *context, const struct job_record *record), void *context);

/* The submission of a job.
 *
 *   owns    the caller owns *out and its texts: store_submission_release
 *   errors  STATUS_NO_INPUT no such job
 */
enum status store_submission_get(struct store *store, int64_t id, struct store_submission *out);
void store_submission_release(struct store_submission *submission);

/* A job's history, oldest first. */
struct store_change {
    double at;
    enum job_state state;
    enum job_reason reason;
    int32_t attempt;
    char text[JOB_REASON_BYTES];
};
enum status store_history(struct store *store, int64_t id,
                          bool (*each)(void *context, const struct store_change *change), void *context);

/* Facts by name, a line each. get: "" if there is no such fact. errors  STATUS_IO, STATUS_DATA */
#define STORE_FACT_BYTES 128
enum status store_fact_get(struct store *store, const char *name, char out[STORE_FACT_BYTES]);
enum status store_fact_put(struct store *store, const char *name, const char *value);

/* --- store_repair.c --- */

/* Copy the open store to a new file (mode 0600). errors  STATUS_CREATE the file exists, …; STATUS_IO */
enum status store_backup(struct store *store, const char *path);

/* The same in slices, between which jobs may change: it has them as they are when it is done.
 *
 *   owns    the caller owns *out: store_copy_close, before the store is closed; unless it is whole, its file is
 *           removed
 */
struct store_copy;
enum status store_copy_open(struct store *store, const char *path, struct store_copy **out);
/* slice NULL: all of it. */
enum status store_copy_step(struct store_copy *copy, const struct slice *slice, bool *done_out);
void store_copy_close(struct store_copy *copy, bool is_whole);

/* What restore and repair have made. */
struct store_repaired {
    int64_t n_job, n_aside; /* rows of jobs, and rows that cannot be a job's, which are in the table `aside` */
    int64_t highest;        /* the next job's number is the next */
    char id[STORE_ID_BYTES];
    char old[4096 + 32]; /* where the store is that was there; "": there was no store */
};

/* Put a backup, or what can be read of the store, in its place, where no daemon has it open. Jobs' numbers go on
 * above `highest`, and above those of both stores, as far as they can be read.
 *
 *   errors  STATUS_PEER a daemon has it open; STATUS_NO_INPUT, STATUS_DATA the file is not a backup; STATUS_CREATE,
 *           STATUS_IO
 */
enum status store_restore(const char *folder, const char *from, int64_t highest, struct store_repaired *out);
enum status store_repair(const char *folder, int64_t highest, struct store_repaired *out);

#endif
