/* The files that a run leaves in its folder: which names they have, and which of them a folder holds.
 *
 * One list for all that handles them as a whole. Knows names, not contents; other files of a folder are the user's.
 */
#ifndef TRAINERD_RESULT_FILES_H
#define TRAINERD_RESULT_FILES_H

#include "protocol/base/status.h"
#include "protocol/files/dir.h"

#include <limits.h>
#include <stdbool.h>

#define RESULT_FILE_BYTES (NAME_MAX + 16)

/* Paths in the folder: "model.safetensors", "checkpoint/epoch-9.ckpt"; result.json is the last. */
struct result_files {
    char (*path)[RESULT_FILE_BYTES];
    int n;
};

/* The files of an open folder.
 *
 *   owns    the caller owns *out: result_files_release
 *   errors  STATUS_IO a folder cannot be read
 */
enum status result_files_list(int folder, struct result_files *out);
void result_files_release(struct result_files *files);
bool result_files_have(const struct result_files *files, const char *path);

/* Is this the path of a result file? The name of one of tb/'s? */
bool result_file_is(const char *path);
bool result_file_is_event(const char *name);

/* Open the folder of a result file; *name_out: the file's name there. errors  those of dir_inner */
enum status result_file_folder(const struct dir *dir, const char *path, bool makes, struct dir *out,
                               const char **name_out);

/* Give a result file a second name, or a copy, in another folder. errors  those of dir_share, dir_inner */
enum status result_file_share(const struct dir *from, const struct dir *to, const char *path, bool copies);

/* Remove from a folder of results temporary files that fit and files that fit (NULL: none), and the folder if it is
 * empty then. errors  those of dir_inner, unless it is not there */
enum status result_folder_clear(const struct dir *dir, const char *name, dir_fits *asides, dir_fits *files);

/* Are files files, and folders folders? errors  STATUS_CREATE what is something else, as a link */
enum status result_files_check(const struct dir *dir);

#endif
