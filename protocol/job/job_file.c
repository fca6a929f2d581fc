/* The bytes of a job file, read whole: only from a regular file of bounded size. */
#include "protocol/base/memory.h"
#include "protocol/files/file.h"
#include "protocol/job/job_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status check_file(int fd, const char *path)
{
    struct stat about;
    if (fstat(fd, &about) != 0) {
        return status_fail(STATUS_IO, "cannot look at '%s': %s", path, strerror(errno));
    }
    if (S_ISDIR(about.st_mode)) {
        return status_fail(STATUS_CONFIG, "'%s' is a folder; expected a job file", path);
    }
    if (!S_ISREG(about.st_mode)) {
        return status_fail(STATUS_CONFIG, "'%s' is a device, pipe or socket; expected a job file", path);
    }
    if (about.st_size > JOB_FILE_MOST_BYTES) {
        return status_fail(STATUS_CONFIG, "'%s' has %lld bytes; expected a job file of at most %d", path,
                           (long long)about.st_size, JOB_FILE_MOST_BYTES);
    }
    return STATUS_OK;
}

/* Read up to `capacity` bytes. A file that grows past them meanwhile is refused as too long. */
static enum status read_all(int fd, const char *path, char *text, size_t capacity, size_t *n_out)
{
    ssize_t n = file_read_at(fd, text, capacity, 0);
    if (n < 0) {
        return status_fail(STATUS_IO, "cannot read '%s': %s", path, strerror(errno));
    }
    *n_out = (size_t)n;
    return *n_out < capacity ? STATUS_OK
                             : status_fail(STATUS_CONFIG, "'%s' has more than %zu bytes", path, capacity - 1);
}

typedef enum status load_function(const char *text, size_t n_bytes, const char *origin, const char *const *set,
                                  size_t n_set, struct job *out);

static enum status load_from(int file, const char *origin, const char *const *set, size_t n_set, load_function *load,
                             struct job *out)
{
    size_t capacity = JOB_FILE_MOST_BYTES + 1, n = 0;
    enum status status = check_file(file, origin);
    if (status != STATUS_OK) {
        return status;
    }
    char *text = memory_alloc(capacity, 1);
    status = read_all(file, origin, text, capacity, &n);
    if (status == STATUS_OK) {
        status = load(text, n, origin, set, n_set, out);
    }
    free(text);
    return status;
}

enum status job_load_file(int file, const char *origin, const char *const *set, size_t n_set, struct job *out)
{
    return load_from(file, origin, set, n_set, job_load_text, out);
}

/* Without O_NONBLOCK opening a FIFO waits for its writer. */
static int open_file(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

enum status job_load(const char *path, const char *const *set, size_t n_set, struct job *out)
{
    int fd = open_file(path);
    if (fd < 0) {
        return status_fail(STATUS_NO_INPUT, "cannot open job file '%.512s': %s", path, strerror(errno));
    }
    enum status status = load_from(fd, path, set, n_set, job_load_own, out);
    close(fd);
    return status;
}

/* Its text, which is not empty and has no NUL. */
static enum status read_program(int fd, const char *path, char text[VERTEX_TEXT_MOST + 1])
{
    size_t n = 0;
    enum status status = check_file(fd, path);
    if (status == STATUS_OK) {
        status = read_all(fd, path, text, VERTEX_TEXT_MOST + 1, &n);
    }
    if (status == STATUS_OK && (n == 0 || strlen(text) < n)) {
        return status_fail(STATUS_CONFIG, "'%.512s' is %s; expected a program", path, n == 0 ? "empty" : "no text");
    }
    return status;
}

enum status job_text_read(enum job_key_id key, const char *path, char text[VERTEX_TEXT_MOST + 1])
{
    char whole[JOB_TEXT_BYTES], name[64];
    snprintf(whole, sizeof whole, "%s", path);
    snprintf(name, sizeof name, "%s.%s", job_keys[key].section, job_keys[key].name);
    enum status status = job_home_path(name, whole);
    if (status != STATUS_OK) {
        return status;
    }
    int fd = open_file(whole);
    if (fd < 0) {
        return status_fail(STATUS_NO_INPUT, "%s: cannot open '%.512s': %s", name, whole, strerror(errno));
    }
    memset(text, 0, VERTEX_TEXT_MOST + 1);
    status = read_program(fd, whole, text);
    close(fd);
    return status;
}
