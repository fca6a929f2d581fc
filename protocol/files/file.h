/* Files written whole: a reader finds the old contents or the new, never a mixture, also after a power cut. The
 * folders they go to, and the plain files that inputs come from. */
#ifndef PROTOCOL_FILE_H
#define PROTOCOL_FILE_H

#include "protocol/base/status.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Write the pieces, one after another, as the file `path`, beneath its folder as protocol/files/dir.h does; links in
 * the folder's path are followed.
 *
 *   owns    borrows all
 *   errors  STATUS_CREATE the folder takes no file, or what has the name is no file; STATUS_IO; an older file of that
 *           name is untouched then
 *   notes   written under another name, fsynced, renamed, the folder fsynced
 */
enum status file_replace(const char *path, const struct iovec *piece, int n_piece);

/* Make a folder with those above it (mode 0777 less the umask); one that is there is fine. *n_made_from_io, unless
 * that is NULL: where it is 0, it becomes the length of the first one's path that was made.
 * errors  STATUS_CREATE with the folder and the reason */
enum status file_folder_make(const char *path, size_t *n_made_from_io);

/* Write all bytes to an open file; returns 0 or errno. Goes on after signals and short writes. */
int file_write(int file, const void *bytes, size_t n_bytes);

/* Read all n_bytes from an open file; returns 0, errno, or ENODATA where the file ends before. Goes on as
 * file_write. */
int file_read(int file, void *bytes, size_t n_bytes);

/* Read n_bytes from there on, fewer only at the file's end; returns how many, or -1 with errno. */
ssize_t file_read_at(int file, void *bytes, size_t n_bytes, int64_t offset);

/* Close an open file; -1: there is none. */
void file_close(int file);

/* Open an input to read: a plain file. A pipe or a device could keep its reader waiting for ever.
 *
 *   owns    *file_out is the caller's to close
 *   errors  STATUS_NO_INPUT when it is not there; STATUS_DATA when it is no plain file; STATUS_IO
 */
enum status file_open(const char *path, int *file_out);

/* Read a whole input of at most n_most bytes; a NUL is behind it.
 *
 *   owns    the caller frees *text_out
 *   errors  those of file_open; STATUS_DATA it has more bytes; STATUS_IO
 */
enum status file_load(const char *path, int64_t n_most, char **text_out, size_t *n_out);

/* Ensure that this process may have n files open, by raising its limit if needed.
 *
 *   what    "a worker", for the reason
 *   errors  STATUS_NOMEM with both numbers
 */
enum status file_room(int64_t n, const char *what);

/* Text to append to a reason if the size of files is limited: " (files may have at most 4096 bytes: ulimit -f)"; ""
 * without a limit. Borrowed: the thread's own. */
const char *file_limit_text(void);

#endif
