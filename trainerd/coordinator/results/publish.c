#include "trainerd/coordinator/results/publish.h"

#include "protocol/fault.h"
#include "protocol/file.h"
#include "protocol/memory.h"

#include <dirent.h>
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
#define DEPTH_MOST 8 /* of folders in a run's folder */

/* Moves under way. */
struct publish {
    const char *home;
    int to;   /* the open home */
    int from; /* the open folder of the run; -1: it is gone, all is moved */
    struct publish_journal journal;
};

static enum status io_fail(const struct publish *publish, const char *what, const char *path)
{
    return status_fail(STATUS_IO, "cannot %s '%s/%s': %s", what, publish->home, path, strerror(errno));
}

/* --- the journal: a head, the run's folder, a path a line; result.json last --- */

enum status publish_begin(const char *home, const char *run)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", home, run) >= PATH_MAX - 16) {
        return status_fail(STATUS_CREATE, "output folder '%s': its files' names are too long for this system", home);
    }
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return status_fail(STATUS_IO, "cannot open '%s': %s", path, strerror(errno));
    }
    struct result_files files;
    enum status status = result_files_list(folder, &files);
    if (status == STATUS_OK && fsync(folder) != 0) {
        status = status_fail(STATUS_IO, "cannot write '%s': %s", path, strerror(errno));
    }
    close(folder);
    size_t n = sizeof JOURNAL_HEAD + NAME_MAX + 2, at;
    char *text = memory_alloc(n + (size_t)files.n * (RESULT_FILE_BYTES + 1), 1);
    at = (size_t)sprintf(text, "%s\n%.*s\n", JOURNAL_HEAD, NAME_MAX, run);
    for (int i = 0; i < files.n; i++) {
        at += (size_t)sprintf(text + at, "%s\n", files.path[i]);
    }
    const struct iovec piece = {.iov_base = text, .iov_len = at};
    snprintf(path, sizeof path, "%s/%s", home, JOURNAL);
    status = status == STATUS_OK ? file_replace(path, &piece, 1) : status;
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

/* found_out false: there is none. */
static enum status journal_read(struct publish *publish, bool *found_out)
{
    struct stat about;
    int file = openat(publish->to, JOURNAL, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    *found_out = file >= 0;
    if (file < 0) {
        return errno == ENOENT ? STATUS_OK : io_fail(publish, "open", JOURNAL);
    }
    enum status status = STATUS_OK;
    char *text = NULL;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size > JOURNAL_BYTES_MOST) {
        status = damaged(publish->home, 1, "a plain file of at most a MiB");
    } else {
        text = memory_alloc((size_t)about.st_size + 1, 1);
        errno = file_read(file, text, (size_t)about.st_size);
        status = errno == 0 ? publish_decode(text, (size_t)about.st_size, publish->home, &publish->journal)
                            : io_fail(publish, "read", JOURNAL);
    }
    free(text);
    close(file);
    return status;
}

/* --- its steps; each may have been done before --- */

static bool exists(int folder, const char *path)
{
    struct stat about;
    return folder >= 0 && fstatat(folder, path, &about, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Remove a file or a folder with all in it. Returns 0 or errno. */
static int remove_all(int folder, const char *name, int depth)
{
    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    int inner = depth > 0 ? openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    DIR *all = inner >= 0 ? fdopendir(inner) : NULL;
    if (all == NULL) {
        int error = errno;
        if (inner >= 0) {
            close(inner);
        }
        return error;
    }
    for (struct dirent *entry = readdir(all); entry != NULL; entry = readdir(all)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            remove_all(inner, entry->d_name, depth - 1);
        }
    }
    closedir(all);
    return unlinkat(folder, name, AT_REMOVEDIR) == 0 ? 0 : errno;
}

/* Remove the older results: first result.json, which would stand for all, then what the run has no file for. */
static enum status remove_older(const struct publish *publish)
{
    struct result_files older;
    FAULT(MOVE);
    if (exists(publish->from, "result.json") && unlinkat(publish->to, "result.json", 0) != 0 && errno != ENOENT) {
        return io_fail(publish, "remove", "result.json");
    }
    enum status status = result_files_list(publish->to, &older);
    for (int i = 0; status == STATUS_OK && i < older.n; i++) {
        if (result_files_have(&publish->journal.files, older.path[i])) {
            continue;
        }
        FAULT(MOVE);
        if (unlinkat(publish->to, older.path[i], 0) != 0) {
            status = io_fail(publish, "remove", older.path[i]);
        }
    }
    result_files_release(&older);
    unlinkat(publish->to, "checkpoint", AT_REMOVEDIR); /* where they are empty now */
    unlinkat(publish->to, "tb", AT_REMOVEDIR);
    return status;
}

static enum status move(const struct publish *publish, const char *path)
{
    char folder[RESULT_FILE_BYTES];
    if (!exists(publish->from, path)) {
        return exists(publish->to, path) ? STATUS_OK
                                         : status_fail(STATUS_IO, "'%s/%s' is gone: expected it there or in '%s'",
                                                       publish->home, path, publish->journal.run);
    }
    snprintf(folder, sizeof folder, "%.*s", (int)strcspn(path, "/"), path);
    if (strchr(path, '/') != NULL && mkdirat(publish->to, folder, 0777) != 0 && errno != EEXIST) {
        return io_fail(publish, "make folder", folder);
    }
    FAULT(MOVE);
    return renameat(publish->from, path, publish->to, path) == 0 ? STATUS_OK : io_fail(publish, "move a run's file to", path);
}

/* A renamed file is safe once the folder is on the disk. */
static enum status sync_folder(const struct publish *publish, const char *name)
{
    int folder = openat(publish->to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return errno == ENOENT ? STATUS_OK : io_fail(publish, "open", name);
    }
    enum status status = fsync(folder) == 0 ? STATUS_OK : io_fail(publish, "write", name);
    close(folder);
    return status;
}

static enum status move_all(const struct publish *publish)
{
    enum status status = remove_older(publish);
    for (int i = 0; i < publish->journal.files.n && status == STATUS_OK; i++) {
        if (i + 1 == publish->journal.files.n) { /* result.json: all others are on the disk */
            status = sync_folder(publish, "checkpoint");
            status = status == STATUS_OK ? sync_folder(publish, "tb") : status;
            status = status == STATUS_OK ? sync_folder(publish, ".") : status;
        }
        status = status == STATUS_OK ? move(publish, publish->journal.files.path[i]) : status;
    }
    return status == STATUS_OK ? sync_folder(publish, ".") : status;
}

static enum status do_journal(struct publish *publish)
{
    publish->from = openat(publish->to, publish->journal.run, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (publish->from < 0 && errno != ENOENT) {
        return io_fail(publish, "open", publish->journal.run);
    }
    if (publish->from >= 0) {
        enum status status = move_all(publish);
        close(publish->from);
        if (status != STATUS_OK) {
            return status;
        }
    }
    FAULT(MOVE);
    errno = remove_all(publish->to, publish->journal.run, DEPTH_MOST);
    if (errno != 0) {
        return io_fail(publish, "remove", publish->journal.run);
    }
    FAULT(MOVE);
    if (unlinkat(publish->to, JOURNAL, 0) != 0) {
        return io_fail(publish, "remove", JOURNAL);
    }
    return sync_folder(publish, ".");
}

enum status publish_finish(const char *home)
{
    struct publish publish = {.home = home, .from = -1};
    publish.to = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (publish.to < 0) {
        return status_fail(STATUS_IO, "cannot open '%s': %s", home, strerror(errno));
    }
    bool found = false;
    enum status status = journal_read(&publish, &found);
    status = status == STATUS_OK && found ? do_journal(&publish) : status;
    result_files_release(&publish.journal.files);
    close(publish.to);
    return status;
}
