/* What a daemon's job keeps of its runs in its files (protocol/files/job_files.h): the last one's folder, and metrics
 * and result of the published one. Each function does nothing for a job without a daemon.
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

#endif
