/* The folder that a run of a job writes to, and the way to it: chosen, made, found again by a resume.
 *
 * Without output.dir it is runs/<name>-<id>, and runs/<name> is a link to the newest. With output.dir it is
 * <output.dir>/.run-<id>, whose files become those of output.dir when the run has succeeded (publish.h). The id is
 * the job's number under a daemon (the name of the job's folder, see events.h), else the local time. A run never
 * writes to a folder that was there before it, other than that of an earlier attempt or of the unfinished run that it
 * resumes; a finished run is continued in a folder of its own.
 *
 * Under a daemon, the job's files have the way to the run's, for later attempts and for the daemon, which shows the
 * job, and result.json and metrics.jsonl, since later runs replace those of output.dir (run_folder_job.h).
 */
#ifndef TRAINERD_RUN_FOLDER_H
#define TRAINERD_RUN_FOLDER_H

#include "protocol/base/status.h"
#include "protocol/files/job_files.h"
#include "protocol/job/job.h"
#include "trainerd/coordinator/folder/output.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct run_folder {
    char home[PATH_MAX];               /* the path that users know: output.dir, or runs/<name> */
    char dir[PATH_MAX];                /* where the run writes; "": not known yet */
    char base[PATH_MAX];               /* the finished run that it continues; "": none */
    const char *job_folder;            /* borrowed; NULL: no daemon */
    const struct job_files *job_files; /* borrowed: those of that folder, open */
    bool has_link;                     /* home is a link to dir; else dir is in home */
    bool is_found; /* dir was there already: an earlier attempt made it, or the unfinished run that is resumed */
    bool is_done;  /* an earlier attempt of this job has left whole results: run_folder_publish is all that is left */
    bool has_led;  /* home leads to dir because of run_folder_lead */
    char before[PATH_MAX]; /* where it led before; "": nowhere */
    size_t n_made_from;    /* of dir, from the path of that length on, were made for this run; 0: none */
    struct dir lock;       /* home, where it is output.dir, open and locked */
};

/* Set home. errors  STATUS_CONFIG output.dir is too long */
enum status run_folder_init(struct run_folder *run, const struct job *job, const char *job_folder,
                            const struct job_files *job_files);

/* Lock output.dir, if it is there, and complete what a run that ended in between has begun to publish; without
 * output.dir, nothing.
 * errors  STATUS_CREATE another running job has it, it cannot be opened; those of publish_finish */
enum status run_folder_lock(struct run_folder *run);

/* Find the folder of an earlier attempt, or with `resume` what to resume: the newest unfinished run with a
 * checkpoint, or the newest finished one. Called again before a restart in the foreground, it keeps the run's folder.
 * errors  STATUS_NO_INPUT a job of a daemon has no run of its own to resume; STATUS_CREATE a path is too long */
enum status run_folder_find(struct run_folder *run, uint32_t attempt, bool resume);

/* Where the checkpoints are that a resumed run continues from. */
enum status run_folder_checkpoint(const struct run_folder *run, char out[PATH_MAX]);

/* Could run_folder_open make or use a folder there? Makes nothing. errors  STATUS_CREATE */
enum status run_folder_check(const struct run_folder *run);

/* Make the folder unless it was found; open it. errors  those of output_open, run_folder_lock; STATUS_CREATE */
enum status run_folder_open(struct run_folder *run, struct output *output);

/* Copy a finished run's metrics, checkpoints and event files to the run that continues it. errors  STATUS_CREATE,
 * STATUS_IO */
enum status run_folder_continue(const struct run_folder *run);

/* Let home lead to the run. remark: why it does not, where something else has that name; "" otherwise */
void run_folder_lead(struct run_folder *run, char *remark, size_t capacity);

/* All files are on the disk: make them the results of output.dir. errors  those of publish.h */
enum status run_folder_publish(struct run_folder *run);

/* Has a folder of results an entry of that name? */
bool run_folder_has(const char *folder, const char *name);

/* Where the results are in the end: in dir or in home. */
const char *run_folder_results(const struct run_folder *run);

/* After output_close: unlock. `keep` false: also remove the folders that were made for it and are empty; home then
 * leads to where it led before. */
void run_folder_close(struct run_folder *run, bool keep);

#endif
