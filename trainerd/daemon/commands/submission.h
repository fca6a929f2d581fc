/* What a submitted job file asks for: workers, slots, GPUs, its output folder.
 *
 * The one place where the daemon looks into job files. Knows nothing of the store.
 */
#ifndef TRAINERD_DAEMON_SUBMISSION_H
#define TRAINERD_DAEMON_SUBMISSION_H

#include "protocol/job/job.h"
#include "trainerd/daemon/jobs/job_record.h"
#include "trainerd/daemon/jobs/store.h"

/* Check the job file with its settings. errors  STATUS_CONFIG "job.toml:LINE:COLUMN: …", STATUS_USAGE a setting that
 * is none */
enum status submission_job(const struct store_submission *submission, struct job *out);

/* Its absolute output folder. out PATH_MAX; errors  STATUS_CONFIG too long */
enum status submission_output(const struct job *job, const char *folder, char *out);

/* Note what the job asks for when n_worker workers run it. Its memory is not known then. */
void submission_ask(const struct job *job, int32_t n_worker, struct job_record *record);

/* The first capacity - 1 bytes of a text, or fewer: no character is cut in two. */
void submission_cut(const char *text, char *out, size_t capacity);

#endif
