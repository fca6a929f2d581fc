/* All jobs of a daemon: rows of the store, and records in memory of those that live. A change is on disk before any
 * listener is called.
 *
 * Commands and the supervisor change records only here.
 */
#ifndef TRAINERD_DAEMON_JOBS_H
#define TRAINERD_DAEMON_JOBS_H

#include "trainerd/base/slice.h"
#include "trainerd/daemon/jobs/quota.h"
#include "trainerd/daemon/jobs/shares.h"
#include "trainerd/daemon/store/gpus.h"
#include "trainerd/daemon/store/store.h"

struct jobs;

/* Called after each saved change, and after progress and reasons to wait. A listener may not change a job. */
typedef void jobs_listener(void *context, const struct job_record *record);

struct jobs_options {
    const struct gpus *gpus; /* those that jobs of this machine share; NULL: none */
    const char *shared;      /* folder with jobs' folders; NULL: the state folder */
    bool in_slurm;           /* jobs are tasks of Slurm: of what they ask for, nothing is of this machine */
    struct quota quota;      /* of each user */
    struct need whole;       /* the machine, for quotas and shares */
    double half_life_s;      /* of what users have used; 0: it is not counted */
};

/* options: borrowed; NULL: none. errors  those of store_open; STATUS_DATA the folders are not this store's jobs' */
enum status jobs_open(const char *state_folder, const struct jobs_options *options, struct jobs **out);
void jobs_close(struct jobs *jobs);
void jobs_listen(struct jobs *jobs, jobs_listener *listener, void *context);
void jobs_unlisten(struct jobs *jobs, jobs_listener *listener, void *context);

/* Create jobs of one owner, all of them or none, with one submission id. The caller sets uid, gid, group, tags,
 * priority, time_limit_s and max_restarts of each `record`, and a name unless the job file's is used; the rest and
 * submission->output come from the job file. In steps: open, read job files, as many as fit into each slice (NULL:
 * all), and save all at once.
 *
 *   shapes        record n · submission n
 *   owns          borrows jobs, record and submission; the caller owns *out: jobs_draft_close
 *   existing_out  the first job of this owner with this submission id: nothing was made; else 0
 *   errors        STATUS_CONFIG a job file is wrong, asks for GPUs that the daemon does not have, for more than its
 *                 owner's quota, or for another's output.dir; STATUS_IO they cannot be saved. Of several jobs the
 *                 reason says which one. STATUS_PEER so many may not wait
 *   cost          a read of the job file for each job
 */
struct jobs_draft;
enum status jobs_draft_open(struct jobs *jobs, struct job_record *record, const struct store_submission *submission,
                            size_t n, struct jobs_draft **out);
enum status jobs_draft_read(struct jobs_draft *draft, const struct slice *slice, bool *done_out);
enum status jobs_draft_save(struct jobs_draft *draft, int64_t *existing_out);
void jobs_draft_close(struct jobs_draft *draft);

/* A job's record; NULL: there is no such job, or it was removed (jobs_retain). Borrowed until the next change; that
 * of a job that has ended only until the next of these calls. find: by number, or by the newest of that name, of this
 * user unless sees_all. */
const struct job_record *jobs_get(const struct jobs *jobs, int64_t id);
const struct job_record *jobs_find(const struct jobs *jobs, const char *name_or_number, uid_t uid, bool sees_all);
/* The records in memory, ids ascending: of those that have not ended, or whose planning has not. Borrowed until the
 * next submit or change. */
const struct job_record *const *jobs_live(const struct jobs *jobs, size_t *n_out);
/* Where the record of this job is in jobs_live, or would be. cost  log n */
size_t jobs_live_place(const struct jobs *jobs, int64_t id);
bool jobs_is_live(const struct jobs *jobs, int64_t id);
/* As store_select; jobs of all users that have not ended are found in memory. */
enum status jobs_select(const struct jobs *jobs, const struct store_filter *filter, int64_t before, size_t n_most,
                        int64_t *ids_out, size_t *n_out);
/* How many jobs there are. */
int64_t jobs_n(const struct jobs *jobs);

/* Change a record, and when it ended: saved if the state machine allows the step from its present state, else
 * STATUS_USAGE with both states' names.
 *
 *   errors  STATUS_IO, STATUS_CREATE: the disk; the record in memory is as before
 */
enum status jobs_change(struct jobs *jobs, const struct job_record *changed);
/* The same of the first of n records, none of which ends an attempt: at least one and as many as fit into the slice,
 * all *n_out of them or none. cost one wait for the disk */
enum status jobs_change_some(struct jobs *jobs, struct job_record *changed, size_t n, const struct slice *slice,
                             size_t *n_out);

/* May n_more jobs of this user wait? errors  STATUS_PEER with the number, the limit and the key */
enum status jobs_check_queued(const struct jobs *jobs, uid_t uid, size_t n_more);
/* So many more are about to be, in slices; less than 0: fewer, since they are by now, or will not be. */
void jobs_promise(struct jobs *jobs, uid_t uid, int64_t n);

/* Could the job ever run within its owner's quota? errors  STATUS_CONFIG */
enum status jobs_check_quota(const struct jobs *jobs, const char *file, const struct job_record *record);

const struct quota *jobs_quota(const struct jobs *jobs);
/* What users have used; jobs_change adds to it. */
struct shares *jobs_shares(struct jobs *jobs);

/* Is no job to start? It is kept in the store. errors  STATUS_IO it cannot be saved: nothing has changed */
bool jobs_drain(const struct jobs *jobs);
enum status jobs_drain_set(struct jobs *jobs, bool drains);

/* Remove the records and folders of ended jobs that are kept no longer, at least one of them and as many as fit into
 * the slice. Output folders stay. true: there are more */
bool jobs_retain(struct jobs *jobs, const struct retention *retention, const struct slice *slice);

/* Reserve disk space for the store, for when jobs have filled the disk (reserve.h). 0: no reserve */
void jobs_reserve(struct jobs *jobs, const char *state_folder, int64_t n_bytes);

/* To be called every JOB_CLOCK_KEEP_S: where the clock of jobs goes on from when the machine is started again. */
void jobs_keep_time(struct jobs *jobs);

/* Set a running job's progress, in memory; the next change of state saves it. Events have it, too. */
void jobs_progress(struct jobs *jobs, int64_t id, const struct job_progress *progress, int64_t n_event_bytes);

/* Set why a job waits, in memory only: the queue or Slurm finds it again, for many jobs at once. */
void jobs_wait(struct jobs *jobs, int64_t id, enum job_reason reason, const char *text);

/* Set a waiting job's place in the queue, in memory, without a call of listeners: all places change at once. */
void jobs_place(struct jobs *jobs, int64_t id, int64_t place);

/* Note what the job's planning, which begins, may take; 0: it has ended. In memory alone. */
void jobs_plans(struct jobs *jobs, int64_t id, int64_t n_bytes);

/* STATE/jobs/<id>, or SHARED/jobs/<id>, with the files of protocol/files/job_files.h and the job's log. out PATH_MAX
 */
void jobs_folder(const struct jobs *jobs, int64_t id, char *out);
/* Make the folder, for the daemon only, or in Slurm for the owner only. errors  of folders_make, folders_give */
enum status jobs_folder_make(const struct jobs *jobs, int64_t id);

/* Put a backup in the place of the state folder's store, or (from NULL) what can be read of it, where no daemon has
 * it open; numbers go on above those of its folders, too. errors  those of store_restore */
enum status jobs_restore(const char *state_folder, const char *shared, const char *from, struct store_repaired *out);

struct store *jobs_store(const struct jobs *jobs);
const struct gpus *jobs_gpus(const struct jobs *jobs);
bool jobs_are_in_slurm(const struct jobs *jobs);

#endif
