/* Files of a job, read for its owner by a daemon that may be root. A user can put links into these folders and above
 * them, so a file is opened with that user's rights.
 *
 * A thread reads (readers.h), since a disk may hang. Knows nothing of the files' contents.
 */
#ifndef TRAINERD_DAEMON_JOB_FILE_H
#define TRAINERD_DAEMON_JOB_FILE_H

#include "protocol/base/status.h"
#include "trainerd/daemon/commands/readers.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define JOB_FILE_PIECE_BYTES 65536u
#define JOB_FILE_SEARCH_BYTES ((int64_t)64 << 20)

struct job_file_ask {
    char path[PATH_MAX];
    uid_t user;     /* whose job it is, and whose threads read it */
    uid_t owner;    /* the file is opened with this user's rights, … */
    gid_t group;    /* … this group's, and those of the user's other groups */
    int64_t offset; /* where to begin; the end of the file when it has become shorter */
    int64_t n_tail; /* -1, or: begin at the last n_tail lines, as far as they are in the last MiB */
    /* NULL: all lines. Else a constant text: only the last line that contains it, in the file's last
     * JOB_FILE_SEARCH_BYTES or, if it is not there, in as many at the file's beginning. */
    const char *match;
};

struct job_file_piece {
    enum status status; /* STATUS_NO_INPUT not there; STATUS_DATA not a regular file, or a link; STATUS_IO */
    char reason[256];   /* of a failure */
    int64_t offset;     /* where it begins */
    size_t n;
    bool is_end;                          /* of the file, for now */
    char bytes[JOB_FILE_PIECE_BYTES + 1]; /* NUL behind them */
};

typedef void job_file_done(void *context, const struct job_file_piece *piece);

/* Read one piece, and call `done` from the loop, always. */
void job_file_read(struct readers *readers, const struct job_file_ask *ask, job_file_done *done, void *context);

#endif
