/* The files in a job's folder that the daemon owns: made and opened for the coordinator to inherit
 * (protocol/files/job_files.h), held to a limit.
 *
 * An older daemon gave the folder to the job's owner, and its coordinators open files there by name: nothing is
 * opened or cut in such a folder.
 */
#ifndef TRAINERD_DAEMON_OWN_FILES_H
#define TRAINERD_DAEMON_OWN_FILES_H

#include "protocol/base/status.h"
#include "protocol/files/job_files.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define OWN_FILES_LOG "log" /* a coordinator's standard output and error */

/* Are this folder's files the daemon's? Also where they, or it, are not there yet. */
bool own_files_are(const char *folder);

/* Open them all, to append, as new files where they are missing: those of n_rank workers, and the job's log. One that
 * an earlier attempt has filled to its limit, n_most bytes, begins anew.
 *
 *   owns    the caller owns *out and *log_out: own_files_close
 *   errors  STATUS_CREATE
 */
enum status own_files_open(const char *folder, int32_t n_rank, int64_t n_most, struct job_files *out, int *log_out);
void own_files_close(struct job_files *files, int log);

/* The most that one of the folder's files has, or takes of the disk, in bytes; 0: there are no files. In a folder of
 * the job's owner events are left out: its coordinators do not know the limit, which others write their events by.
 * name_out: of that file */
int64_t own_files_largest(const char *folder, char name_out[NAME_MAX + 1]);
/* Cut what has more bytes, or takes more, to its first n_most. */
void own_files_cut(const char *folder, int64_t n_most);

#endif
