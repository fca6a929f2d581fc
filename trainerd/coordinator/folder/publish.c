#include "trainerd/coordinator/folder/publish.h"

#include "protocol/base/fault.h"
#include "protocol/files/file.h"
#include "trainerd/coordinator/folder/checkpoint.h"
#include "trainerd/coordinator/folder/result_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOURNAL ".publish"
#define JOURNAL_HEAD "trainerd results 2\n"
#define JOURNAL_BYTES (sizeof JOURNAL_HEAD + NAME_MAX + 2)

static enum status io_fail(const struct dir *home, const char *what, const char *path)
{
    return status_fail(STATUS_IO, "cannot %s '%s/%s': %s", what, home->path, path, strerror(errno));
}

/* --- the journal: a head, and the name of the run's folder --- */

static int journal_print(const char *run, char out[JOURNAL_BYTES])
{
    return snprintf(out, JOURNAL_BYTES, JOURNAL_HEAD "%s\n", run);
}

/* A renamed file is safe once the folder is on the disk. errors  also those of dir_inner */
static enum status sync_folder(const struct dir *home, const char *name)
{
    struct dir folder;
    enum status status = dir_inner(home, name, false, &folder);
    if (status == STATUS_OK) {
        status = fsync(folder.file) == 0 ? STATUS_OK : io_fail(home, "write", name);
        dir_close(&folder);
    }
    return status;
}

enum status publish_begin(const struct dir *home, const char *run)
{
    char text[JOURNAL_BYTES];
    enum status status = sync_folder(home, run);
    const struct iovec piece = {.iov_base = text, .iov_len = (size_t)journal_print(run, text)};
    if (status != STATUS_OK) {
        return status;
    }
    return dir_replace(home, JOURNAL, &piece, 1);
}

/* Others could have files moved and removed as this user. */
static enum status owner_check(const struct dir *home, uid_t owner)
{
    uid_t own = geteuid();
    enum status status = owner != own ? dir_user(home, &own) : STATUS_OK;
    return status != STATUS_OK || owner == own
               ? status
               : status_fail(STATUS_CREATE,
                             "'%s/" JOURNAL
                             "' belongs to user %u, who has not finished: expected that user's next run, "
                             "or another folder",
                             home->path, (unsigned)owner);
}

/* run "": there is no journal */
static enum status journal_read(const struct dir *home, char run[NAME_MAX + 1])
{
    struct stat about;
    char text[JOURNAL_BYTES] = "", again[JOURNAL_BYTES], *name = text + strlen(JOURNAL_HEAD);
    int file;
    enum status status = dir_file_open(home, JOURNAL, &file);
    run[0] = '\0';
    if (status != STATUS_OK) {
        return status == STATUS_NO_INPUT ? STATUS_OK : status;
    }
    ssize_t n = file_read_at(file, text, sizeof text - 1, 0);
    if (n < 0 || fstat(file, &about) != 0) {
        status = io_fail(home, "read", JOURNAL);
    } else {
        status = owner_check(home, about.st_uid);
    }
    close(file);
    if (status != STATUS_OK) {
        return status;
    }
    snprintf(run, NAME_MAX + 1, "%.*s", (int)strcspn(name, "\n"), name);
    if (journal_print(run, again) != n || memcmp(again, text, (size_t)n) != 0 || strncmp(run, ".run-", 5) != 0 ||
        strchr(run, '/') != NULL) {
        return status_fail(
            STATUS_DATA, "'%s/" JOURNAL "' is damaged: expected 'trainerd results 2' and the name of a run's folder",
            home->path);
    }
    return STATUS_OK;
}

/* --- its steps; each may have been done before --- */

static bool exists(const struct dir *folder, const char *name)
{
    struct stat about;
    return fstatat(folder->file, name, &about, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Remove the older results that the run has no file for. */
static enum status remove_older(const struct dir *home, const struct result_files *newer)
{
    struct result_files older;
    enum status status = result_files_list(home->file, &older);
    for (int i = 0; status == STATUS_OK && i < older.n; i++) {
        struct dir folder;
        const char *name;
        if (result_files_have(newer, older.path[i])) {
            continue;
        }
        FAULT(MOVE);
        status = result_file_folder(home, older.path[i], false, &folder, &name);
        if (status == STATUS_OK) {
            status = dir_file_remove(&folder, name);
            dir_close(&folder);
        }
    }
    result_files_release(&older);
    unlinkat(home->file, "checkpoint", AT_REMOVEDIR); /* where they are empty now */
    unlinkat(home->file, "tb", AT_REMOVEDIR);
    return status;
}

/* Give the run's files their second names in the home, result.json last. */
static enum status share_all(const struct dir *home, const struct dir *run, const struct result_files *files)
{
    static const char *const folders[] = {"checkpoint", "tb", "."};
    FAULT(MOVE);
    enum status status = dir_file_remove(home, "result.json"); /* which would stand for all */
    for (int i = 0; i < files->n - 1 && status == STATUS_OK; i++) {
        FAULT(MOVE);
        status = result_file_share(run, home, files->path[i], false);
    }
    if (status == STATUS_OK) {
        status = remove_older(home, files);
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders && status == STATUS_OK; i++) {
        status = sync_folder(home, folders[i]);
        status = status == STATUS_NO_INPUT ? STATUS_OK : status; /* the run has no such folder */
    }
    FAULT(MOVE);
    if (status == STATUS_OK) {
        status = result_file_share(run, home, "result.json", false);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return sync_folder(home, ".");
}

/* Remove what a run leaves in its folder: first, on the disk, what says that its files are not all published. */
static enum status remove_files(const struct dir *run)
{
    FAULT(MOVE);
    enum status status = dir_file_remove(run, "result.json");
    if (status == STATUS_OK && fsync(run->file) != 0) {
        status = io_fail(run, "write", ".");
    }
    if (status != STATUS_OK) {
        return status;
    }
    FAULT(MOVE);
    dir_asides_remove(run, result_file_is); /* what cannot be removed stays */
    dir_files_remove(run, result_file_is);
    result_folder_clear(run, "checkpoint", checkpoint_is, checkpoint_is);
    result_folder_clear(run, "checkpoint.old", checkpoint_is, checkpoint_is);
    result_folder_clear(run, "tb", result_file_is_event, result_file_is_event);
    return STATUS_OK;
}

static enum status publish_folder(const struct dir *home, const struct dir *run)
{
    enum status status = STATUS_OK;
    if (exists(run, "result.json")) {
        struct result_files files;
        status = result_files_list(run->file, &files);
        if (status == STATUS_OK) {
            status = share_all(home, run, &files);
        }
        result_files_release(&files);
    } else if (!exists(home, "result.json")) {
        status = status_fail(STATUS_IO, "'%s/result.json' is gone: expected it there or in '%s'", home->path,
                             run->path);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return remove_files(run);
}

static bool is_journal(const char *name)
{
    return strcmp(name, JOURNAL) == 0;
}

enum status publish_finish(const struct dir *home)
{
    char name[NAME_MAX + 1];
    struct dir run;
    dir_asides_remove(home, is_journal);
    enum status status = journal_read(home, name);
    if (status != STATUS_OK || name[0] == '\0') {
        return status;
    }
    status = dir_inner(home, name, false, &run);
    if (status == STATUS_OK) {
        status = publish_folder(home, &run);
        dir_close(&run);
    } else if (status == STATUS_NO_INPUT) { /* all is done */
        status = STATUS_OK;
    }
    if (status != STATUS_OK) {
        return status;
    }
    FAULT(MOVE);
    if (unlinkat(home->file, name, AT_REMOVEDIR) != 0 && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST) {
        return io_fail(home, "remove", name);
    }
    FAULT(MOVE);
    status = dir_file_remove(home, JOURNAL);
    if (status != STATUS_OK) {
        return status;
    }
    return sync_folder(home, ".");
}
