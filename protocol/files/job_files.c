#include "protocol/files/job_files.h"

#include "protocol/files/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void job_files_name(int i, char out[JOB_FILE_NAME_BYTES])
{
    static const char *const names[] = {[JOB_FILE_RUNS] = "runs",
                                        [JOB_FILE_EVENTS] = "events.jsonl",
                                        [JOB_FILE_METRICS] = "metrics.jsonl",
                                        [JOB_FILE_RESULT] = "result.json",
                                        [JOB_FILE_LOG] = "log"};
    if (i < JOB_FILE_RANK_0) {
        snprintf(out, JOB_FILE_NAME_BYTES, "%s", names[i]);
    } else {
        snprintf(out, JOB_FILE_NAME_BYTES, "rank-%d.log", i - JOB_FILE_RANK_0);
    }
}

static int append(const struct dir *dir, const char *name, int64_t n_most)
{
    struct stat about;
    int file = openat(dir->file, name, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (file >= 0 && fstat(file, &about) == 0 && about.st_size >= n_most) {
        (void)!ftruncate(file, 0);
    }
    return file;
}

enum status job_files_open(const char *folder, int32_t n_rank, struct job_files *out)
{
    struct dir dir;
    char name[JOB_FILE_NAME_BYTES];
    int n = JOB_FILE_RANK_0 + (n_rank < JOB_FILES_RANK_MOST ? n_rank : JOB_FILES_RANK_MOST);
    enum status status = dir_open(folder, DIR_LAST_NO_LINK, &dir);
    for (out->n = 0; status == STATUS_OK && out->n < n;) {
        job_files_name(out->n, name);
        int file = append(&dir, name, out->most_bytes);
        if (file >= 0) {
            out->file[out->n++] = file;
        } else {
            status = status_fail(STATUS_CREATE, "cannot open '%s/%s': %s", folder, name, strerror(errno));
        }
    }
    if (status != STATUS_OK) {
        job_files_close(out);
    }
    out->by_name = true;
    dir_close(&dir);
    return status;
}

void job_files_close(struct job_files *files)
{
    for (int i = 0; i < files->n; i++) {
        close(files->file[i]);
    }
    files->n = 0;
}

void job_files_print(const struct job_files *files, char out[JOB_FILES_TEXT_BYTES])
{
    int n = snprintf(out, JOB_FILES_TEXT_BYTES, "%" PRId64, files->most_bytes);
    for (int i = 0; i < files->n; i++) {
        n += snprintf(out + n, JOB_FILES_TEXT_BYTES - (size_t)n, ",%d", files->file[i]);
    }
}

static bool take(const char *text, struct job_files *out)
{
    char *end;
    errno = 0;
    out->most_bytes = strtoll(text, &end, 10);
    if (end == text || out->most_bytes < 1 || errno != 0) {
        return false;
    }
    for (; *end == ',' && out->n < JOB_FILES_MOST; out->n++) {
        struct stat about;
        const char *number = end + 1;
        long file = strtol(number, &end, 10);
        if (end == number || file <= STDERR_FILENO || file > INT_MAX || fstat((int)file, &about) != 0 ||
            !S_ISREG(about.st_mode) || fcntl((int)file, F_SETFD, FD_CLOEXEC) != 0) {
            return false;
        }
        out->file[out->n] = (int)file;
    }
    return *end == '\0' && (out->n == 0 || out->n >= JOB_FILE_RANK_0);
}

enum status job_files_read(const char *text, struct job_files *out)
{
    *out = (struct job_files){0};
    return take(text, out)
               ? STATUS_OK
               : status_fail(STATUS_USAGE,
                             "--job-files is '%.200s', expected a number of bytes, and no descriptors or those of %d "
                             "or more open plain files, between commas",
                             text, JOB_FILE_RANK_0);
}

bool job_files_last_run(int file, char out[PATH_MAX])
{
    char text[2 * PATH_MAX];
    struct stat about;
    out[0] = '\0';
    if (fstat(file, &about) != 0) {
        return false;
    }
    int64_t from = about.st_size > (int64_t)sizeof text ? about.st_size - (int64_t)sizeof text : 0;
    ssize_t n = pread(file, text, sizeof text, from);
    const char *end = n > 0 ? memrchr(text, '\n', (size_t)n) : NULL;
    if (end == NULL) {
        return false;
    }
    const char *before = memrchr(text, '\n', (size_t)(end - text));
    const char *line = before != NULL ? before + 1 : text;
    size_t n_line = (size_t)(end - line);
    if ((before == NULL && from > 0) || n_line >= PATH_MAX || memchr(line, '\0', n_line) != NULL) {
        return false;
    }
    memcpy(out, line, n_line);
    out[n_line] = '\0';
    return out[0] == '/' || strcmp(out, JOB_RUNS_PUBLISHED) == 0;
}
