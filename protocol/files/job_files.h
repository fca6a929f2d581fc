/* The files of a daemon's job, open to append. The daemon makes them in a folder that only it can enter, and the
 * job's coordinator inherits them: so a job cannot name the daemon's own files. In a folder of the job's owner the
 * coordinator opens them by name. Each has a limit.
 */
#ifndef PROTOCOL_JOB_FILES_H
#define PROTOCOL_JOB_FILES_H

#include "protocol/base/status.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum job_file {
    /* where its runs are, a line each: a folder's whole path, or JOB_RUNS_PUBLISHED. The last line counts */
    JOB_FILE_RUNS,
    JOB_FILE_EVENTS, /* trainerd/coordinator/folder/events.h */
    /* metrics.jsonl and result.json of the run that it published, which later runs replace in its output folder */
    JOB_FILE_METRICS,
    JOB_FILE_RESULT,
    JOB_FILE_LOG,   /* the coordinator's standard output and error */
    JOB_FILE_RANK_0 /* the log of worker 0; then those of the others */
};
#define JOB_FILES_RANK_MOST 64 /* workers with their own logs; others write to the job's */
#define JOB_FILES_MOST (JOB_FILE_RANK_0 + JOB_FILES_RANK_MOST)
#define JOB_FILE_NAME_BYTES 32
#define JOB_FILES_TEXT_BYTES (32 + 12 * JOB_FILES_MOST)
#define JOB_RUNS_PUBLISHED "published"

struct job_files {
    int64_t most_bytes;       /* of each: a job that writes more is ended */
    int n;                    /* 0: they are opened by name */
    int file[JOB_FILES_MOST]; /* n descriptors, in the order of enum job_file */
    bool by_name;             /* they were: further workers' logs can be, too */
};

/* The name of file i in the job's folder. */
void job_files_name(int i, char out[JOB_FILE_NAME_BYTES]);

/* Open those in a folder that are no worker's, and the logs of n_rank workers; missing ones are made. One that an
 * earlier attempt has filled to its limit begins anew.
 *
 *   out     its most_bytes is given
 *   owns    the caller owns *out: job_files_close
 *   errors  STATUS_NO_INPUT there is no such folder · STATUS_CREATE
 */
enum status job_files_open(const char *folder, int32_t n_rank, struct job_files *out);
void job_files_close(struct job_files *files);

/* As the argument --job-files: the limit, and the descriptors, if there are any. */
void job_files_print(const struct job_files *files, char out[JOB_FILES_TEXT_BYTES]);

/* Read that argument; the descriptors are closed when another program is executed. errors  STATUS_USAGE it is no such
 * text, or one is not an open plain file */
enum status job_files_read(const char *text, struct job_files *out);

/* The last whole line of JOB_FILE_RUNS. false: the file is empty, or it is neither a whole path nor
 * JOB_RUNS_PUBLISHED */
bool job_files_last_run(int file, char out[PATH_MAX]);

#endif
