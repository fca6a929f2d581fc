#include "trainerd/daemon/commands/job_file.h"

#include "protocol/base/amounts.h"
#include "protocol/base/clock.h"
#include "protocol/base/memory.h"
#include "protocol/files/file.h"
#include "trainerd/base/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAIL_BYTES (1 << 20)
#define RIGHTS_S 10.0 /* for which a thread knows which groups a user is in */

struct work {
    struct reader_work reading; /* first member: pointers to both are equal */
    struct job_file_ask ask;
    struct job_file_piece piece;
    job_file_done *done;
    void *context;
};

static void fail(struct job_file_piece *piece, enum status status, const char *what, const char *path,
                 const char *why)
{
    piece->status = status_fail(status, "%s '%.150s': %s", what, path, why);
    snprintf(piece->reason, sizeof piece->reason, "%s", status_reason());
}

/* The owner's rights. The user database may be slow, and a stream opens its file for each piece. */
static enum status rights_of(const struct job_file_ask *ask, const struct rights **out)
{
    static _Thread_local struct rights last;
    static _Thread_local double until_s;
    enum status status = STATUS_OK;
    if (clock_s() >= until_s || last.uid != ask->owner || last.gid != ask->group) {
        until_s = 0.0;
        status = rights_find(ask->owner, ask->group, &last);
        until_s = status == STATUS_OK ? clock_s() + RIGHTS_S : 0.0;
    }
    *out = &last;
    return status;
}

/* Links in the path may lead anywhere: the owner's rights decide, not the daemon's. A link as the last name is not
 * followed, and a pipe not waited for. *error_out: 0 or errno; returns the file or -1 */
static int open_as_owner(const struct job_file_ask *ask, const struct rights *rights, int *error_out)
{
    struct rights before;
    if (rights_take(rights, &before) != STATUS_OK) {
        *error_out = EPERM;
        return -1;
    }
    int file = open(ask->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    *error_out = file < 0 ? errno : 0;
    rights_return(rights, &before);
    return file;
}

/* *n_out: the file's bytes; returns it, or -1 with the failure in the piece. */
static int open_checked(const struct job_file_ask *ask, struct job_file_piece *piece, int64_t *n_out)
{
    struct stat about;
    const struct rights *rights;
    int error;
    if (rights_of(ask, &rights) != STATUS_OK) {
        piece->status = STATUS_IO;
        snprintf(piece->reason, sizeof piece->reason, "%s", status_reason());
        return -1;
    }
    int file = open_as_owner(ask, rights, &error);
    if (file < 0) {
        bool is_missing = error == ENOENT || error == ENOTDIR;
        fail(piece,
             is_missing       ? STATUS_NO_INPUT
             : error == ELOOP ? STATUS_DATA
                              : STATUS_IO,
             "cannot open", ask->path, strerror(error));
        return -1;
    }
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
        fail(piece, STATUS_DATA, "cannot read", ask->path, "it is not a regular file");
        close(file);
        return -1;
    }
    *n_out = about.st_size;
    return file;
}

/* Where the last n_tail lines begin; a last line without an end counts. */
static int64_t find_tail(int file, int64_t size, int64_t n_tail)
{
    int64_t begin = size > TAIL_BYTES ? size - TAIL_BYTES : 0;
    if (n_tail == 0) {
        return size;
    }
    char *bytes = memory_alloc((size_t)(size - begin) + 1, 1);
    ssize_t n = file_read_at(file, bytes, (size_t)(size - begin), begin);
    int64_t at = begin;
    for (ssize_t i = n - 1; i > 0; i--) { /* the newline of the last line begins no line */
        if (bytes[i - 1] == '\n' && --n_tail == 0) {
            at = begin + i;
            break;
        }
    }
    free(bytes);
    return at;
}

/* Offset of the last line with `match` that begins in [offset, before); -1: not found. A hole ends the search. */
static int64_t find_match_in(int file, const char *match, int64_t offset, int64_t before,
                             char bytes[JOB_FILE_PIECE_BYTES + 1])
{
    int64_t found = -1;
    while (offset < before) {
        ssize_t n = file_read_at(file, bytes, JOB_FILE_PIECE_BYTES, offset);
        if (n <= 0 || memchr(bytes, '\0', (size_t)n) != NULL) {
            return found;
        }
        char *line = bytes, *end;
        while ((end = memchr(line, '\n', (size_t)(bytes + n - line))) != NULL) {
            if (memmem(line, (size_t)(end - line), match, strlen(match)) != NULL) {
                found = offset + (line - bytes);
            }
            line = end + 1;
        }
        offset += line > bytes ? line - bytes : n; /* a coordinator writes no line longer than a piece */
        if (n < (ssize_t)JOB_FILE_PIECE_BYTES) {
            return found;
        }
    }
    return found;
}

/* The same in the file's end, else in its beginning: files may be arbitrarily long, and few threads search. */
static int64_t find_match(int file, int64_t size, const char *match, char bytes[JOB_FILE_PIECE_BYTES + 1])
{
    int64_t begin = size > JOB_FILE_SEARCH_BYTES ? size - JOB_FILE_SEARCH_BYTES : 0;
    int64_t found = find_match_in(file, match, begin, size, bytes);
    return found >= 0 || begin == 0 ? found : find_match_in(file, match, 0, JOB_FILE_SEARCH_BYTES, bytes);
}

static void run(struct reader_work *reading)
{
    struct work *work = (struct work *)reading;
    const struct job_file_ask *ask = &work->ask;
    struct job_file_piece *piece = &work->piece;
    int64_t size = 0;
    piece->offset = ask->offset;
    piece->is_end = true;
    int file = open_checked(ask, piece, &size);
    if (file < 0) {
        return;
    }
    if (ask->match != NULL) {
        piece->offset = find_match(file, size, ask->match, piece->bytes);
    } else if (ask->n_tail >= 0) {
        piece->offset = find_tail(file, size, ask->n_tail);
    } else {
        piece->offset = smaller(piece->offset, size);
    }
    ssize_t n = piece->offset < 0 ? 0 : file_read_at(file, piece->bytes, JOB_FILE_PIECE_BYTES, piece->offset);
    if (n < 0) {
        fail(piece, STATUS_IO, "cannot read", ask->path, strerror(errno));
    } else {
        piece->n = (size_t)n;
        piece->is_end = piece->n < JOB_FILE_PIECE_BYTES;
    }
    if (ask->match != NULL && piece->n > 0) {
        const char *end = memchr(piece->bytes, '\n', piece->n);
        piece->n = end != NULL ? (size_t)(end - piece->bytes) : 0;
    }
    piece->bytes[piece->n] = '\0';
    close(file);
}

static void finished(struct reader_work *reading)
{
    struct work *work = (struct work *)reading;
    work->done(work->context, &work->piece);
    free(work);
}

void job_file_read(struct readers *readers, const struct job_file_ask *ask, job_file_done *done, void *context)
{
    struct work *work = memory_alloc(1, sizeof *work);
    work->reading = (struct reader_work){.user = ask->user, .run = run, .done = finished};
    work->ask = *ask;
    work->done = done;
    work->context = context;
    readers_begin(readers, &work->reading);
}
