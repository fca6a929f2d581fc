#include "trainerd/coordinator/folder/publish.h"

#include "protocol/base/fault.h"
#include "protocol/base/memory.h"
#include "protocol/files/file.h"
#include "trainerd/coordinator/folder/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOURNAL ".publish"
#define JOURNAL_HEAD "trainerd results 1"
#define JOURNAL_BYTES_MOST (1 << 20)

/* Moves under way. */
struct publish {
    const struct dir *home;
    struct dir from; /* the folder of the run; not open: it is gone, all is moved */
    struct publish_journal journal;
};

static enum status io_fail(const struct publish *publish, const char *what, const char *path)
{
    return status_fail(STATUS_IO, "cannot %s '%s/%s': %s", what, publish->home->path, path, strerror(errno));
}

/* --- the journal: a head, the run's folder, a path a line; result.json last --- */

enum status publish_begin(const struct dir *home, const char *run)
{
    struct dir folder;
    enum status status = dir_inner(home, run, false, &folder);
    if (status != STATUS_OK) {
        return status;
    }
    struct result_files files;
    status = result_files_list(folder.file, &files);
    if (status == STATUS_OK && fsync(folder.file) != 0) {
        status = status_fail(STATUS_IO, "cannot write '%s': %s", folder.path, strerror(errno));
    }
    dir_close(&folder);
    size_t n = sizeof JOURNAL_HEAD + NAME_MAX + 2, at;
    char *text = memory_alloc(n + (size_t)files.n * (RESULT_FILE_BYTES + 1), 1);
    at = (size_t)sprintf(text, "%s\n%.*s\n", JOURNAL_HEAD, NAME_MAX, run);
    for (int i = 0; i < files.n; i++) {
        at += (size_t)sprintf(text + at, "%s\n", files.path[i]);
    }
    const struct iovec piece = {.iov_base = text, .iov_len = at};
    if (status == STATUS_OK) {
        status = dir_replace(home, JOURNAL, &piece, 1);
    }
    free(text);
    result_files_release(&files);
    return status;
}

static enum status damaged(const char *home, int line, const char *expected)
{
    return status_fail(STATUS_DATA, "'%s/%s' is damaged: line %d: expected %s", home, JOURNAL, line, expected);
}

/* A run's folder lies in its home. */
static bool is_run(const char *name)
{
    return strncmp(name, ".run-", 5) == 0 && strlen(name) <= NAME_MAX && strchr(name, '/') == NULL;
}

enum status publish_decode(char *text, size_t n, const char *home, struct publish_journal *out)
{
    *out = (struct publish_journal){0};
    int number = 0;
    bool is_complete = false;
    if (n == 0 || text[n - 1] != '\n' || memchr(text, '\0', n) != NULL) {
        return damaged(home, 1, "lines of text");
    }
    for (char *line = text, *end; line < text + n; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + n - line));
        *end = '\0';
        number++;
        if (number == 1 && strcmp(line, JOURNAL_HEAD) != 0) {
            return damaged(home, number, "'" JOURNAL_HEAD "'");
        }
        if (number == 2 && !is_run(line)) {
            return damaged(home, number, "the name of a run's folder");
        }
        if (number > 2 && (is_complete || !result_file_is(line))) {
            return damaged(home, number, "the path of a result file, result.json the last");
        }
        if (number == 2) {
            snprintf(out->run, sizeof out->run, "%s", line);
        } else if (number > 2) {
            result_files_add(&out->files, line);
        }
        is_complete = number > 2 && strcmp(line, "result.json") == 0;
    }
    return is_complete ? STATUS_OK : damaged(home, number + 1, "result.json");
}

/* Others could have files moved and removed as this user. */
static enum status owner_check(const struct publish *publish, uid_t owner)
{
    uid_t own = geteuid();
    enum status status = owner != own ? dir_user(publish->home, &own) : STATUS_OK;
    return status != STATUS_OK || owner == own
               ? status
               : status_fail(STATUS_CREATE,
                             "'%s/" JOURNAL
                             "' belongs to user %u, who has not finished: expected that user's next run, "
                             "or another folder",
                             publish->home->path, (unsigned)owner);
}

/* found_out false: there is no journal. */
static enum status journal_read(struct publish *publish, bool *found_out)
{
    struct stat about;
    int file;
    enum status status = dir_file_open(publish->home, JOURNAL, &file);
    *found_out = status == STATUS_OK;
    if (status != STATUS_OK) {
        return status == STATUS_NO_INPUT ? STATUS_OK : status;
    }
    char *text = NULL;
    if (fstat(file, &about) != 0 || about.st_size > JOURNAL_BYTES_MOST) {
        status = damaged(publish->home->path, 1, "a plain file of at most a MiB");
    } else {
        status = owner_check(publish, about.st_uid);
    }
    if (status == STATUS_OK) {
        text = memory_alloc((size_t)about.st_size + 1, 1);
        errno = file_read(file, text, (size_t)about.st_size);
        status = errno == 0 ? publish_decode(text, (size_t)about.st_size, publish->home->path, &publish->journal)
                            : io_fail(publish, "read", JOURNAL);
    }
    free(text);
    close(file);
    return status;
}

/* --- its steps; each may have been done before --- */

static bool exists(const struct dir *folder, const char *name)
{
    struct stat about;
    return folder->file >= 0 && fstatat(folder->file, name, &about, AT_SYMLINK_NOFOLLOW) == 0;
}

static enum status remove_one(const struct publish *publish, const char *path)
{
    struct dir folder;
    const char *name;
    enum status status = result_file_folder(publish->home, path, false, &folder, &name);
    if (status == STATUS_OK) {
        status = dir_file_remove(&folder, name);
        dir_close(&folder);
    }
    return status == STATUS_NO_INPUT ? STATUS_OK : status;
}

/* Remove the older results: first result.json, which would stand for all, then what the run has no file for. */
static enum status remove_older(const struct publish *publish)
{
    struct result_files older;
    FAULT(MOVE);
    enum status status = exists(&publish->from, "result.json") ? remove_one(publish, "result.json") : STATUS_OK;
    if (status != STATUS_OK) {
        return status;
    }
    status = result_files_list(publish->home->file, &older);
    for (int i = 0; status == STATUS_OK && i < older.n; i++) {
        if (result_files_have(&publish->journal.files, older.path[i])) {
            continue;
        }
        FAULT(MOVE);
        status = remove_one(publish, older.path[i]);
    }
    result_files_release(&older);
    unlinkat(publish->home->file, "checkpoint", AT_REMOVEDIR); /* where they are empty now */
    unlinkat(publish->home->file, "tb", AT_REMOVEDIR);
    return status;
}

static enum status move(const struct publish *publish, const char *path)
{
    struct dir from = {.file = -1}, to = {.file = -1};
    const char *name;
    enum status status = result_file_folder(&publish->from, path, false, &from, &name);
    if (status == STATUS_OK || status == STATUS_NO_INPUT) {
        status = result_file_folder(publish->home, path, exists(&from, name), &to, &name);
    }
    if (status == STATUS_NO_INPUT || (status == STATUS_OK && !exists(&from, name) && !exists(&to, name))) {
        status = status_fail(STATUS_IO, "'%s/%s' is gone: expected it there or in '%s'", publish->home->path, path,
                             publish->journal.run);
    }
    if (status == STATUS_OK && exists(&from, name)) {
        FAULT(MOVE);
        status = dir_file_check(&to, name);
        if (status == STATUS_OK && renameat(from.file, name, to.file, name) != 0) {
            status = io_fail(publish, "move a run's file to", path);
        }
    }
    dir_close(&from);
    dir_close(&to);
    return status;
}

/* A renamed file is safe once the folder is on the disk. */
static enum status sync_folder(const struct publish *publish, const char *name)
{
    struct dir folder;
    enum status status = dir_inner(publish->home, name, false, &folder);
    if (status != STATUS_OK) {
        return status == STATUS_NO_INPUT ? STATUS_OK : status;
    }
    status = fsync(folder.file) == 0 ? STATUS_OK : io_fail(publish, "write", name);
    dir_close(&folder);
    return status;
}

static enum status move_all(const struct publish *publish)
{
    enum status status = remove_older(publish);
    for (int i = 0; i < publish->journal.files.n && status == STATUS_OK; i++) {
        if (i + 1 == publish->journal.files.n) { /* result.json: all others are on the disk */
            status = sync_folder(publish, "checkpoint");
            if (status == STATUS_OK && (status = sync_folder(publish, "tb")) == STATUS_OK) {
                status = sync_folder(publish, ".");
            }
        }
        if (status == STATUS_OK) {
            status = move(publish, publish->journal.files.path[i]);
        }
    }
    if (status != STATUS_OK) {
        return status;
    }
    return sync_folder(publish, ".");
}

/* Remove what a run leaves in its folder besides results, and the folder, unless there is something else in it. */
static enum status remove_run(const struct publish *publish)
{
    static const char *const folders[] = {"checkpoint", "checkpoint.old", "tb"};
    const struct dir *run = &publish->from;
    for (size_t i = 0; run->file >= 0 && i < sizeof folders / sizeof *folders; i++) {
        result_folder_clear(run, folders[i], checkpoint_is, checkpoint_is); /* what cannot be removed stays */
    }
    if (run->file >= 0) {
        dir_asides_remove(run, result_file_is);
    }
    FAULT(MOVE);
    if (unlinkat(publish->home->file, publish->journal.run, AT_REMOVEDIR) != 0 && errno != ENOENT &&
        errno != ENOTEMPTY && errno != EEXIST) {
        return io_fail(publish, "remove", publish->journal.run);
    }
    return STATUS_OK;
}

static enum status do_journal(struct publish *publish)
{
    enum status status = dir_inner(publish->home, publish->journal.run, false, &publish->from);
    if (status == STATUS_OK) {
        status = move_all(publish);
    } else if (status == STATUS_NO_INPUT) {
        status = STATUS_OK;
    }
    if (status == STATUS_OK) {
        status = remove_run(publish);
    }
    dir_close(&publish->from);
    if (status != STATUS_OK) {
        return status;
    }
    FAULT(MOVE);
    status = dir_file_remove(publish->home, JOURNAL);
    if (status != STATUS_OK) {
        return status;
    }
    return sync_folder(publish, ".");
}

static bool is_journal(const char *name)
{
    return strcmp(name, JOURNAL) == 0;
}

enum status publish_finish(const struct dir *home)
{
    struct publish publish = {.home = home, .from.file = -1};
    bool found = false;
    dir_asides_remove(home, is_journal);
    enum status status = journal_read(&publish, &found);
    status = status == STATUS_OK && found ? do_journal(&publish) : status;
    result_files_release(&publish.journal.files);
    return status;
}
