/* The files in a job's folder (protocol/files/job_files.h), held to a limit. */
#ifndef TRAINERD_DAEMON_OWN_FILES_H
#define TRAINERD_DAEMON_OWN_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* Are this folder's files the daemon's? Also where it is not there yet. Else its owner could put anything into it:
 * nothing is opened to write, or cut. */
bool own_files_are(const char *folder);

/* The most that one of the folder's files has, or takes of the disk, in bytes; 0: there are no files. name_out: of
 * that file */
int64_t own_files_largest(const char *folder, char name_out[NAME_MAX + 1]);
/* Cut what has more bytes, or takes more, to its first n_most. */
void own_files_cut(const char *folder, int64_t n_most);

#endif
