/* Files of a job, read for its owner by a daemon that may be root: what a user can put links into is opened as if he
 * had asked.
 *
 * Reading happens beside the loop, since a file may lie on a disk that does not answer. Knows nothing of what is in
 * files.
 */
#ifndef TRAINERD_DAEMON_JOB_FILE_H
#define TRAINERD_DAEMON_JOB_FILE_H

#include "protocol/status.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#define JOB_FILE_PIECE_BYTES 65536u

struct job_file_ask {
    char path[PATH_MAX];
    uid_t owner;       /* the file is his, or the daemon's own with no second name; else it is refused */
    int64_t offset;    /* where to begin; at the end when the file has become shorter */
    int64_t n_tail;    /* -1, or: begin so that the last n_tail lines follow, as far as they lie in the last MiB */
    const char *match; /* not NULL: the last line that has this in it, alone. A text that stays */
};

struct job_file_piece {
    enum status status; /* STATUS_NO_INPUT not there; STATUS_DATA not a regular file, or somebody else's; STATUS_IO */
    char reason[256];   /* of it */
    int64_t offset;     /* where it begins */
    size_t n;
    bool is_end;                          /* nothing follows yet */
    char bytes[JOB_FILE_PIECE_BYTES + 1]; /* NUL behind them */
};

typedef void job_file_done(void *context, const struct job_file_piece *piece);

/* Read one piece, and call `done` from the loop, always. */
void job_file_read(uv_loop_t *loop, const struct job_file_ask *ask, job_file_done *done, void *context);

#endif
