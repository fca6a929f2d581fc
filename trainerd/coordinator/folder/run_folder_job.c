#include "trainerd/coordinator/folder/run_folder_job.h"

#include "protocol/base/memory.h"
#include "protocol/files/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BYTES 65536

bool run_job_last(const struct run_folder *run, char out[PATH_MAX])
{
    if (run->job_files == NULL) {
        return false;
    }
    if (job_files_last_run(run->job_files->file[JOB_FILE_RUNS], out)) {
        return true;
    }
    char link[PATH_MAX];
    ssize_t n = snprintf(link, sizeof link, "%s/run", run->job_folder) < PATH_MAX ? readlink(link, out, PATH_MAX - 1)
                                                                                  : 0; /* of an older coordinator */
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

bool run_job_has_result(const struct run_folder *run)
{
    struct stat about;
    return run->job_files != NULL && fstat(run->job_files->file[JOB_FILE_RESULT], &about) == 0 && about.st_size > 0;
}

void run_job_forget(const struct run_folder *run)
{
    static const enum job_file files[] = {JOB_FILE_RUNS, JOB_FILE_METRICS, JOB_FILE_RESULT};
    for (size_t i = 0; run->job_files != NULL && i < sizeof files / sizeof *files; i++) {
        (void)!ftruncate(run->job_files->file[files[i]], 0);
    }
}

/* Add a line, at once. */
static enum status add_line(const struct run_folder *run, const char *text)
{
    char line[PATH_MAX + 1];
    int n = snprintf(line, sizeof line, "%s\n", text);
    int error = file_write(run->job_files->file[JOB_FILE_RUNS], line, (size_t)n);
    error = error == 0 && fsync(run->job_files->file[JOB_FILE_RUNS]) != 0 ? errno : error;
    return error == 0 ? STATUS_OK
                      : status_fail(STATUS_IO, "cannot write '%s/runs': %s", run->job_folder, strerror(error));
}

enum status run_job_lead(const struct run_folder *run)
{
    char last[PATH_MAX];
    if (run->job_files == NULL) {
        return STATUS_OK;
    }
    char *whole = realpath(run->dir, NULL);
    if (whole == NULL) {
        return status_fail(STATUS_CREATE, "cannot find output folder '%s': %s", run->dir, strerror(errno));
    }
    bool is_known = run_job_last(run, last) && strcmp(last, whole) == 0;
    enum status status = is_known ? STATUS_OK : add_line(run, whole);
    free(whole);
    return status;
}

enum status run_job_lead_to_results(const struct run_folder *run)
{
    return run->job_files != NULL ? add_line(run, JOB_RUNS_PUBLISHED) : STATUS_OK;
}

/* --- what it keeps --- */

/* Where the whole lines begin that fit; 0: where all do. */
static off_t first_that_fits(int from, off_t n, int64_t most)
{
    char byte = '\n';
    off_t at = n > most ? n - most : 0;
    while (at > 0 && at < n && pread(from, &byte, 1, at - 1) == 1 && byte != '\n') {
        at++;
    }
    return at;
}

/* Replace what the open file has by the end of another. Returns 0 or errno. */
static int copy(int from, int to, int64_t most)
{
    struct stat about;
    char *bytes = memory_alloc(COPY_BYTES, 1);
    int error = fstat(from, &about) != 0 || ftruncate(to, 0) != 0 ? errno : 0;
    off_t at = error == 0 ? first_that_fits(from, about.st_size, most) : 0;
    ssize_t n = 1;
    while (error == 0 && (n = pread(from, bytes, COPY_BYTES, at)) > 0) {
        error = file_write(to, bytes, (size_t)n);
        at += n;
    }
    error = error == 0 && (n < 0 || fsync(to) != 0) ? errno : error;
    free(bytes);
    return error;
}

enum status run_job_keep(const struct run_folder *run)
{
    static const enum job_file files[] = {JOB_FILE_METRICS, JOB_FILE_RESULT};
    struct dir from;
    if (run->job_files == NULL) {
        return STATUS_OK;
    }
    enum status status = dir_open(run->dir, DIR_LAST_NO_LINK, &from);
    for (size_t i = 0; i < sizeof files / sizeof *files && status == STATUS_OK; i++) {
        char name[JOB_FILE_NAME_BYTES];
        int file;
        job_files_name((int)files[i], name);
        status = dir_file_open(&from, name, &file);
        if (status == STATUS_OK) {
            int error = copy(file, run->job_files->file[files[i]], run->job_files->most_bytes);
            close(file);
            status = error == 0
                         ? STATUS_OK
                         : status_fail(STATUS_IO, "cannot write '%s/%s': %s", run->job_folder, name, strerror(error));
        }
    }
    dir_close(&from);
    return status;
}
