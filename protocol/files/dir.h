/* An open folder, and the files that are made, replaced and removed beneath it.
 *
 * In a folder that others may write to, any name may become a link to files that are not theirs. So names are
 * resolved in the open folder, links are not followed, temporary files are always new, and only entries that can be
 * ours are removed.
 */
#ifndef PROTOCOL_DIR_H
#define PROTOCOL_DIR_H

#include "protocol/base/status.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct dir {
    int file;            /* the open folder; -1: none */
    char path[PATH_MAX]; /* as its user names it, for messages */
};

/* May the path's last name be a link? OWN_LINK: one of this user, of root, or of the user of the folder that it is
 * in, not one that another user has put into a folder where all may write (as the kernel's protected_symlinks). */
enum dir_last { DIR_LAST_FOLLOWED, DIR_LAST_OWN_LINK, DIR_LAST_NO_LINK };

/* Open a folder by its path; links above the last name are followed, since the user chose them.
 *
 *   owns    the caller owns *out: dir_close; after a failure there is nothing to close
 *   errors  STATUS_NO_INPUT it is not there · STATUS_CREATE it is no folder, or a link that may not be; it cannot be
 *           opened
 */
enum status dir_open(const char *path, enum dir_last last, struct dir *out);
void dir_close(struct dir *dir);

/* Open the folder of that name beneath; `makes`: make it where it is missing (mode 0777 less the umask). errors
 * those of dir_open */
enum status dir_inner(const struct dir *dir, const char *name, bool makes, struct dir *out);

/* Open a plain file beneath to read.
 *
 *   owns    *file_out is the caller's to close
 *   errors  STATUS_NO_INPUT it is not there · STATUS_CREATE it is a link or no plain file · STATUS_IO
 */
enum status dir_file_open(const struct dir *dir, const char *name, int *file_out);

/* May a file of that name be put there or removed: it does not exist, or is a plain one, which no sticky bit keeps?
 * errors STATUS_CREATE */
enum status dir_file_check(const struct dir *dir, const char *name);

/* Remove a plain file; one that is not there is fine. errors  those of dir_file_check; STATUS_IO */
enum status dir_file_remove(const struct dir *dir, const char *name);

/* Remove plain files with matching names, as far as possible, and temporary files of such names that a dead process
 * left. */
typedef bool dir_fits(const char *name);
void dir_files_remove(const struct dir *dir, dir_fits *fits);
void dir_asides_remove(const struct dir *dir, dir_fits *fits);

/* A temporary file: new, with its own name, NAME.<8 hexadecimal digits>.tmp. */
struct dir_aside {
    char name[NAME_MAX + 1];
    int file; /* -1: none */
};

/* Begin the file `name`; flags are added to O_RDWR. owns  *out until dir_aside_end · errors  STATUS_CREATE */
enum status dir_aside_begin(const struct dir *dir, const char *name, int flags, struct dir_aside *out);

/* Sync it to the disk and rename it, replacing an older file; or remove it after an error (`error` is an errno). Then
 * close it, unless `keep` is given, which receives the open file after success. errors  STATUS_CREATE no plain file
 * has the name; STATUS_IO */
enum status dir_aside_end(const struct dir *dir, const char *name, struct dir_aside *aside, int error, int *keep);

/* Remove and close it. */
void dir_aside_drop(const struct dir *dir, struct dir_aside *aside);

/* Write the pieces, one after another, as the file `name`: a reader finds the old contents or the new. errors  those
 * of the above */
enum status dir_replace(const struct dir *dir, const char *name, const struct iovec *piece, int n_piece);

/* The same of a file of n_bytes, at least 1, that `fill` writes to memory, which is the file's own: pages go to the
 * disk as the system likes. bytes is aligned to a page. Missing free space is found in advance.
 *
 *   errors  those of fill: an older file of that name is untouched then
 */
enum status dir_replace_mapped(const struct dir *dir, const char *name, size_t n_bytes,
                               enum status (*fill)(void *context, char *bytes), void *context);

/* Make a link, or let one lead elsewhere: readers see the old target or the new. errors  STATUS_CREATE something else
 * has the name */
enum status dir_link_replace(const struct dir *dir, const char *name, const char *target);

/* Remove a link, if it leads there; any other entry of that name stays. */
void dir_link_remove(const struct dir *dir, const char *name, const char *target);

/* Give a plain file that no process changes a second name. If the file system has no links, or with `copies`, copy it
 * up to its present end and sync the copy. errors  those of dir_file_open, dir_aside_begin and dir_aside_end */
enum status dir_share(const struct dir *from, const char *from_name, const struct dir *to, const char *to_name,
                      bool copies);

/* The owner of files that are made here, which some file systems set to another user than this process's. errors
 * STATUS_CREATE */
enum status dir_user(const struct dir *dir, uid_t *out);

#endif
