#include "protocol/files/file.h"

#include "protocol/base/memory.h"
#include "protocol/files/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

int file_write(int file, const void *bytes, size_t n_bytes)
{
    const char *at = bytes;
    while (n_bytes > 0) {
        ssize_t n = write(file, at, n_bytes);
        if (n < 0 && errno != EINTR) {
            return errno;
        }
        if (n > 0) {
            at += n;
            n_bytes -= (size_t)n;
        }
    }
    return 0;
}

int file_read(int file, void *bytes, size_t n_bytes)
{
    char *at = bytes;
    while (n_bytes > 0) {
        ssize_t n = read(file, at, n_bytes);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return n == 0 ? ENODATA : errno;
        }
        if (n > 0) {
            at += n;
            n_bytes -= (size_t)n;
        }
    }
    return 0;
}

ssize_t file_read_at(int file, void *bytes, size_t n_bytes, int64_t offset)
{
    size_t at = 0;
    while (at < n_bytes) {
        ssize_t got = pread(file, (char *)bytes + at, n_bytes - at, offset + (int64_t)at);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got < 0 ? -1 : (ssize_t)at;
        }
        at += (size_t)got;
    }
    return (ssize_t)at;
}

void file_close(int file)
{
    if (file >= 0) {
        close(file);
    }
}

/* The open folder of a path, and the last name of it. */
static enum status parent_open(const char *path, struct dir *parent, const char **name_out)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (n >= sizeof folder) {
        return status_fail(STATUS_CREATE, "cannot create '%s': its name is too long for this system", path);
    }
    snprintf(folder, sizeof folder, "%.*s", n > 0 ? (int)n : 1, n > 0 ? path : ".");
    *name_out = slash != NULL ? slash + 1 : path;
    enum status status = dir_open(folder, DIR_LAST_FOLLOWED, parent);
    return status != STATUS_NO_INPUT ? status
                                     : status_fail(STATUS_CREATE, "cannot create '%s': %s", path, strerror(ENOENT));
}

enum status file_replace(const char *path, const struct iovec *piece, int n_piece)
{
    struct dir parent;
    const char *name = path;
    enum status status = parent_open(path, &parent, &name);
    if (status == STATUS_OK) {
        status = dir_replace(&parent, name, piece, n_piece);
        dir_close(&parent);
    }
    return status;
}

enum status file_folder_make(const char *path, size_t *n_made_from_io)
{
    char folder[PATH_MAX];
    if (snprintf(folder, sizeof folder, "%s", path) >= PATH_MAX) {
        return status_fail(STATUS_CREATE, "cannot make folder '%s': its name is too long for this system", path);
    }
    for (size_t i = 1; path[i - 1] != '\0'; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        folder[i] = '\0';
        int made = mkdir(folder, 0777);
        if (made != 0 && errno != EEXIST) {
            return status_fail(STATUS_CREATE, "cannot make folder '%s': %s", folder, strerror(errno));
        }
        if (made == 0 && n_made_from_io != NULL && *n_made_from_io == 0) {
            *n_made_from_io = i;
        }
        folder[i] = path[i];
    }
    struct stat found;
    if (stat(path, &found) != 0 || !S_ISDIR(found.st_mode)) {
        return status_fail(STATUS_CREATE, "cannot make folder '%s': something else has that name", path);
    }
    return STATUS_OK;
}

enum status file_open(const char *path, int *file_out)
{
    /* Without O_NONBLOCK opening a pipe waits for its writer. */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0) {
        enum status code = errno == ENOENT || errno == ENOTDIR ? STATUS_NO_INPUT : STATUS_IO;
        return status_fail(code, "%s: cannot open: %s", path, strerror(errno));
    }
    struct stat found;
    if (fstat(file, &found) != 0 || !S_ISREG(found.st_mode)) {
        close(file);
        return status_fail(STATUS_DATA, "%s: is a folder, device, pipe or socket, expected a file", path);
    }
    *file_out = file;
    return STATUS_OK;
}

enum status file_load(const char *path, int64_t n_most, char **text_out, size_t *n_out)
{
    int file;
    struct stat info;
    enum status status = file_open(path, &file);
    if (status != STATUS_OK) {
        return status;
    }
    int error = fstat(file, &info) == 0 ? 0 : errno;
    if (error == 0 && info.st_size > n_most) {
        close(file);
        return status_fail(STATUS_DATA, "%s: has %lld bytes, expected at most %lld", path, (long long)info.st_size,
                           (long long)n_most);
    }
    *n_out = error == 0 ? (size_t)info.st_size : 0;
    char *text = memory_alloc(*n_out + 1, 1);
    error = error == 0 ? file_read(file, text, *n_out) : error;
    close(file);
    if (error != 0) {
        free(text);
        return status_fail(STATUS_IO, "%s: %s", path, strerror(error));
    }
    *text_out = text;
    return STATUS_OK;
}

enum status file_room(int64_t n, const char *what)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= (rlim_t)n) {
        return STATUS_OK;
    }
    rlim_t may = limit.rlim_max;
    limit.rlim_cur = may < (rlim_t)n ? may : (rlim_t)n;
    if (may < (rlim_t)n || setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return status_fail(STATUS_NOMEM,
                           "%s may have %llu files open, and needs %lld: raise ulimit -n (LimitNOFILE of a service)",
                           what, (unsigned long long)may, (long long)n);
    }
    return STATUS_OK;
}

const char *file_limit_text(void)
{
    static _Thread_local char text[80];
    struct rlimit limit;
    text[0] = '\0';
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        snprintf(text, sizeof text, " (files may have at most %llu bytes: ulimit -f)",
                 (unsigned long long)limit.rlim_cur);
    }
    return text;
}
