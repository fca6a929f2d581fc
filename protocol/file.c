#include "protocol/file.h"

#include "protocol/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
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

/* A renamed file is safe only when its folder is on the disk too. */
static int folder_sync(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    snprintf(slash == NULL ? folder : slash + 1, 2, ".");
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = file < 0 || fsync(file) != 0 ? errno : 0;
    if (file >= 0) {
        close(file);
    }
    return error;
}

/* The name that a file is written under, and the file. errors  STATUS_CREATE */
static enum status aside_open(const char *path, char aside[PATH_MAX], int *out)
{
    if (snprintf(aside, PATH_MAX, "%s.tmp", path) >= PATH_MAX) {
        return status_fail(STATUS_CREATE, "cannot create '%s': its name is too long for this system", path);
    }
    *out = open(aside, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return *out >= 0 ? STATUS_OK : status_fail(STATUS_CREATE, "cannot create '%s': %s", aside, strerror(errno));
}

/* Bring the file to the disk and give it its name, or remove it after an error. Returns 0 or errno. */
static int aside_finish(int file, const char *aside, const char *path, int error)
{
    FAULT(FSYNC);
    if (error == 0 && fsync(file) != 0) {
        error = errno;
    }
    if (close(file) != 0 && error == 0) {
        error = errno;
    }
    FAULT(RENAME);
    if (error == 0 && rename(aside, path) != 0) {
        error = errno;
    }
    FAULT(RENAMED);
    if (error == 0) {
        return folder_sync(path);
    }
    unlink(aside);
    return error;
}

static enum status write_status(const char *path, int error)
{
    return error == 0 ? STATUS_OK : status_fail(STATUS_IO, "cannot write '%s': %s", path, strerror(error));
}

enum status file_replace(const char *path, const struct iovec *piece, int n_piece)
{
    char aside[PATH_MAX];
    int file = -1, error = 0;
    enum status status = aside_open(path, aside, &file);
    if (status != STATUS_OK) {
        return status;
    }
    for (int i = 0; i < n_piece && error == 0; i++) {
        error = file_write(file, piece[i].iov_base, piece[i].iov_len);
        if (i == 0) {
            FAULT(WRITE);
        }
    }
    return write_status(path, aside_finish(file, aside, path, error));
}

enum status file_replace_mapped(const char *path, size_t n_bytes, enum status (*fill)(void *context, char *bytes),
                                void *context)
{
    char aside[PATH_MAX], *bytes = NULL;
    int file = -1;
    enum status status = aside_open(path, aside, &file);
    if (status != STATUS_OK) {
        return status;
    }
    /* Without free space for its pages, writing to the memory would end the process with SIGBUS. */
    int error;
    do {
        error = posix_fallocate(file, 0, (off_t)n_bytes);
    } while (error == EINTR);
    if (error == 0) {
        bytes = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        error = bytes != MAP_FAILED ? 0 : errno;
    }
    if (error == 0) {
        status = fill(context, bytes);
        FAULT(WRITE);
        munmap(bytes, n_bytes);
    }
    if (status != STATUS_OK) {
        close(file);
        unlink(aside);
        return status;
    }
    return write_status(path, aside_finish(file, aside, path, error));
}

enum status file_folder_make(const char *path)
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
        if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
            return status_fail(STATUS_CREATE, "cannot make folder '%s': %s", folder, strerror(errno));
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
