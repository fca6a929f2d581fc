/* What a daemon's job keeps of its runs: the last one's folder, and metrics and result of the published one.
 *
 * Where the daemon owns the job's folder these are files that the coordinator inherits (protocol/files/job_files.h);
 * in a folder of the job's owner they are `run`, a link, and results/. Each function does nothing for a job without a
 * daemon.
 */
#ifndef TRAINERD_RUN_FOLDER_JOB_H
#define TRAINERD_RUN_FOLDER_JOB_H

#include "trainerd/coordinator/folder/run_folder.h"

/* The whole path of the last run's folder; or another text: its results are published. false: the job had no run. */
bool run_job_last(const struct run_folder *run, char out[PATH_MAX]);
/* Has the job kept a result? */
bool run_job_has_result(const struct run_folder *run);
/* Before the first attempt: nothing is left of a job of that number before. */
void run_job_forget(const struct run_folder *run);
/* The last run is in run->dir. / Its results are published. errors  STATUS_CREATE, STATUS_IO */
enum status run_job_lead(const struct run_folder *run);
enum status run_job_lead_to_results(const struct run_folder *run);
/* Keep metrics.jsonl, or of a long one the end, and result.json of the run. errors  those of dir.h; STATUS_IO */
enum status run_job_keep(const struct run_folder *run);

/* Let the link `name` in a folder lead to the target. errors  those of dir_link_replace and dir_open */
enum status run_link_lead(const char *folder, const char *name, const char *target);
/* The target of a link; false where that is no link. */
bool run_link_read(const char *path, char out[PATH_MAX]);

#endif
