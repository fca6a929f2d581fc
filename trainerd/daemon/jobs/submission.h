/* The needs of a submitted job file: workers, slots, GPUs, its output folder.
 *
 * The only place where the daemon reads job files. Does not use the store.
 */
#ifndef TRAINERD_DAEMON_SUBMISSION_H
#define TRAINERD_DAEMON_SUBMISSION_H

#include "protocol/job/job.h"
#include "trainerd/daemon/store/job_record.h"
#include "trainerd/daemon/store/store.h"

/* Read job file and settings. errors  STATUS_CONFIG "FILE:LINE:COLUMN: …", STATUS_USAGE a bad setting */
enum status submission_job(const struct store_submission *submission, struct job *out);

/* Its absolute output folder. out PATH_MAX; errors  STATUS_CONFIG too long */
enum status submission_output(const struct job *job, const char *folder, char *out);

/* Set the record's needs for n_worker workers; its memory is not known then. */
void submission_ask(const struct job *job, int32_t n_worker, struct job_record *record);

/* errors  STATUS_CONFIG it asks for GPUs, and the daemon has no GPUs. file: the job file's name; NULL: unnamed
 */
enum status submission_check_gpus(const char *file, const struct job_record *record, int32_t n_gpu);

/* errors  STATUS_CONFIG the launcher needs an allocation of Slurm, and jobs run without; it leaves the number of
 * workers open; in_slurm: workers are Slurm's tasks, and it is another. A number that is Slurm's to say is set to 1
 */
enum status submission_check_launcher(const char *file, bool in_slurm, struct job *job_io);

/* Names, groups and tags are shown to people, who must see what they are. errors  `wrong`, with `what` and the text
 */
enum status submission_check_seen(enum status wrong, const char *what, const char *text);

#endif
