/* The folders of jobs, STATE/jobs/<number>, and the mark that says of which store's jobs they are.
 *
 * A store that is lost, or older than the folders, would give numbers again that have folders: jobs would find events
 * and logs of others. So a store is refused whose folders are another's, or have higher numbers. Jobs without folders
 * are normal: not begun yet, or cleaned away.
 */
#ifndef TRAINERD_DAEMON_FOLDERS_H
#define TRAINERD_DAEMON_FOLDERS_H

#include "protocol/base/status.h"
#include "trainerd/daemon/store/job_record.h"

/* The highest number of a folder below STATE/jobs; 0: no folders. errors  STATUS_CREATE it cannot be read
 */
enum status folders_highest(const char *jobs, int64_t *out);

/* Are these the folders of the store with that id, whose jobs have had numbers up to `highest`? Folders without a
 * mark are marked. errors  STATUS_DATA no; STATUS_CREATE, STATUS_IO */
enum status folders_check(const char *jobs, const char *id, int64_t highest);

/* Mark them as this store's. errors  STATUS_CREATE, STATUS_IO */
enum status folders_mark(const char *jobs, const char *id);

/* Make a job's folder, for the daemon only. errors  STATUS_CREATE it is another user's, or not a folder, … */
enum status folders_make(const char *folder, const struct job_record *record);

/* Give the folder to the job's owner, for coordinators that open files there by name: those of Slurm's jobs, which
 * cannot inherit any. A folder that is the owner's stays as it is; no attempt may run. errors  STATUS_CREATE */
enum status folders_give(const char *folder, const struct job_record *record);

/* Remove a job's folder with the files of daemon and coordinator, unless it has others. It may be missing. */
void folders_remove(const char *folder);

#endif
