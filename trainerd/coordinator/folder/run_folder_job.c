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

/* --- links --- */

bool run_link_read(const char *path, char out[PATH_MAX])
{
    ssize_t n = readlink(path, out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

enum status run_link_lead(const char *folder, const char *name, const char *target)
{
    struct dir dir;
    enum status status = dir_open(folder[0] != '\0' ? folder : ".", DIR_LAST_FOLLOWED, &dir);
    if (status == STATUS_OK) {
        status = dir_link_replace(&dir, name, target);
        dir_close(&dir);
    }
    return status;
}

/* --- where the last run is --- */

/* This path of the job's folder. false: it is too long */
static bool job_path(const struct run_folder *run, const char *name, char out[PATH_MAX])
{
    return snprintf(out, PATH_MAX, "%s/%s", run->job_folder, name) < PATH_MAX;
}

bool run_job_last(const struct run_folder *run, char out[PATH_MAX])
{
    char path[PATH_MAX];
    if (run->job_files != NULL) {
        return job_files_last_run(run->job_files->file[JOB_FILE_RUNS], out);
    }
    return run->job_folder != NULL && job_path(run, "run", path) && run_link_read(path, out);
}

bool run_job_has_result(const struct run_folder *run)
{
    char path[PATH_MAX];
    struct stat about;
    if (run->job_files != NULL) {
        return fstat(run->job_files->file[JOB_FILE_RESULT], &about) == 0 && about.st_size > 0;
    }
    return run->job_folder != NULL && job_path(run, "results/result.json", path) && access(path, F_OK) == 0;
}

static bool is_kept(const char *name)
{
    return strcmp(name, "result.json") == 0 || strcmp(name, "metrics.jsonl") == 0;
}

void run_job_forget(const struct run_folder *run)
{
    struct dir folder, results;
    char target[PATH_MAX];
    if (run->job_files != NULL || run->job_folder == NULL ||
        dir_open(run->job_folder, DIR_LAST_NO_LINK, &folder) != STATUS_OK) {
        return; /* the daemon has made its folder for this job */
    }
    if (readlinkat(folder.file, "run", target, sizeof target) >= 0) {
        unlinkat(folder.file, "run", 0);
    }
    if (dir_inner(&folder, "results", false, &results) == STATUS_OK) {
        dir_files_remove(&results, is_kept);
        dir_close(&results);
    }
    dir_close(&folder);
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
    if (run->job_folder == NULL) {
        return STATUS_OK;
    }
    char *whole = realpath(run->dir, NULL), last[PATH_MAX];
    enum status status;
    if (whole == NULL) {
        status = status_fail(STATUS_CREATE, "cannot find output folder '%s': %s", run->dir, strerror(errno));
    } else if (run->job_files != NULL) {
        bool is_known = run_job_last(run, last) && strcmp(last, whole) == 0;
        status = is_known ? STATUS_OK : add_line(run, whole);
    } else {
        status = run_link_lead(run->job_folder, "run", whole);
    }
    free(whole);
    return status;
}

enum status run_job_lead_to_results(const struct run_folder *run)
{
    if (run->job_files != NULL) {
        return add_line(run, JOB_RUNS_PUBLISHED);
    }
    return run->job_folder != NULL ? run_link_lead(run->job_folder, "run", "results") : STATUS_OK;
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

static enum status keep_inherited(const struct run_folder *run)
{
    static const enum job_file files[] = {JOB_FILE_METRICS, JOB_FILE_RESULT};
    struct dir from;
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

static enum status keep_by_name(const struct run_folder *run)
{
    static const char *const names[] = {"metrics.jsonl", "result.json"};
    struct dir from = {.file = -1}, job = {.file = -1}, to = {.file = -1};
    enum status status = dir_open(run->job_folder, DIR_LAST_FOLLOWED, &job);
    if (status == STATUS_OK && (status = dir_inner(&job, "results", true, &to)) == STATUS_OK) {
        status = dir_open(run->dir, DIR_LAST_NO_LINK, &from);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names && status == STATUS_OK; i++) {
        status = dir_share(&from, names[i], &to, names[i], false);
    }
    dir_close(&from);
    dir_close(&job);
    dir_close(&to);
    return status;
}

enum status run_job_keep(const struct run_folder *run)
{
    return run->job_files != NULL ? keep_inherited(run) : run->job_folder != NULL ? keep_by_name(run) : STATUS_OK;
}
