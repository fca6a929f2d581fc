#include "trainerd/coordinator/folder/output.h"

#include "protocol/files/file.h"
#include "trainerd/coordinator/folder/checkpoint.h"
#include "trainerd/coordinator/folder/result_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum status output_dir(const char *dir, const char *name, char out[PATH_MAX])
{
    int n = dir[0] != '\0' ? snprintf(out, PATH_MAX, "%s", dir) : snprintf(out, PATH_MAX, "runs/%s", name);
    if (n >= PATH_MAX - 64) {
        return status_fail(STATUS_CONFIG, "output.dir is %d bytes long: expected less than %d", n, PATH_MAX - 64);
    }
    for (; n > 1 && out[n - 1] == '/'; n--) {
        out[n - 1] = '\0';
    }
    return STATUS_OK;
}

static enum status not_writable(const char *dir, const char *why)
{
    return status_fail(STATUS_CREATE, "output folder '%s': %s", dir, why);
}

enum status output_check(const char *dir)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", dir);
    struct stat stat_of;
    while (stat(path, &stat_of) != 0) {
        if (errno != ENOENT) {
            return not_writable(dir, strerror(errno));
        }
        char *slash = strrchr(path, '/');
        if (slash == NULL) {
            snprintf(path, sizeof path, ".");
        } else {
            slash[slash == path ? 1 : 0] = '\0';
        }
    }
    if (!S_ISDIR(stat_of.st_mode)) {
        return status_fail(STATUS_CREATE, "output folder '%s': '%s' is not a folder", dir, path);
    }
    if (access(path, W_OK | X_OK) != 0) {
        return status_fail(STATUS_CREATE, "output folder '%s': '%s' cannot be written: %s", dir, path,
                           strerror(errno));
    }
    return STATUS_OK;
}

enum status output_lock(const struct dir *dir)
{
    return flock(dir->file, LOCK_EX | LOCK_NB) == 0
               ? result_files_check(dir)
               : not_writable(dir->path,
                              "another running job writes to it: expected a folder of its own for each job");
}

enum status output_open(const struct dir *folder, const char *name, struct output *out)
{
    *out = (struct output){.metrics = -1};
    enum status status = folder != NULL ? dir_inner(folder, name, false, &out->dir)
                                        : dir_open(name, DIR_LAST_NO_LINK, &out->dir);
    if (status == STATUS_OK) {
        status = output_lock(&out->dir);
    }
    if (status == STATUS_OK && faccessat(out->dir.file, ".", W_OK | X_OK, 0) != 0) {
        status = not_writable(out->dir.path, strerror(errno));
    }
    if (status != STATUS_OK) {
        output_close(out, false);
    }
    return status;
}

void output_close(struct output *output, bool keep)
{
    if (output->metrics >= 0) {
        close(output->metrics);
        if (!keep && output->n_metrics_bytes == 0) {
            dir_file_remove(&output->dir, "metrics.jsonl");
        }
    }
    dir_close(&output->dir);
    output->metrics = -1;
}

/* --- what an earlier attempt has left --- */

static enum status checkpoints_set_aside(const struct output *output)
{
    enum status status = result_folder_clear(&output->dir, "checkpoint", checkpoint_is,
                                             NULL); /* which has removed it where none is whole */
    if (status != STATUS_OK || faccessat(output->dir.file, "checkpoint", F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
        return status;
    }
    status = result_folder_clear(&output->dir, "checkpoint.old", checkpoint_is, checkpoint_is);
    if (status == STATUS_OK && renameat(output->dir.file, "checkpoint", output->dir.file, "checkpoint.old") != 0) {
        status = status_fail(STATUS_IO, "cannot rename '%s/checkpoint' of an earlier job to 'checkpoint.old': %s",
                             output->dir.path, strerror(errno));
    }
    return status;
}

enum status output_clear(struct output *output, bool resume)
{
    dir_asides_remove(&output->dir, result_file_is);
    enum status status = dir_file_remove(&output->dir, "result.json");
    if (status != STATUS_OK || resume) {
        return status;
    }
    dir_files_remove(&output->dir, result_file_is);
    status = result_folder_clear(&output->dir, "tb", result_file_is_event, result_file_is_event);
    if (status != STATUS_OK) {
        return status;
    }
    return checkpoints_set_aside(output);
}

enum status output_path(const struct output *output, const char *name, char out[PATH_MAX])
{
    int n = snprintf(out, PATH_MAX, "%s/%s", output->dir.path, name);
    return n < PATH_MAX ? STATUS_OK : not_writable(output->dir.path, "its files' names are too long for this system");
}

/* --- metrics.jsonl --- */

/* Copy the first n bytes of the older file. *error_out: an errno of the new one */
static enum status metrics_copy(const struct output *output, int to, int64_t n, int *error_out)
{
    struct stat about = {0};
    char bytes[1 << 16];
    int from = -1;
    enum status status = dir_file_open(&output->dir, "metrics.jsonl", &from);
    if (status != STATUS_OK && status != STATUS_NO_INPUT) {
        return status;
    }
    if (status == STATUS_NO_INPUT || fstat(from, &about) != 0 || about.st_size < n) {
        status = status_fail(STATUS_DATA,
                             "'%s/metrics.jsonl' has %lld bytes: expected at least the %lld of the checkpoint",
                             output->dir.path, (long long)about.st_size, (long long)n);
    }
    for (int64_t at = 0; status == STATUS_OK && *error_out == 0 && at < n;) {
        size_t piece = n - at < (int64_t)sizeof bytes ? (size_t)(n - at) : sizeof bytes;
        *error_out = file_read(from, bytes, piece);
        *error_out = *error_out == 0 ? file_write(to, bytes, piece) : *error_out;
        at += (int64_t)piece;
    }
    if (from >= 0) {
        close(from);
    }
    return status;
}

enum status output_metrics_open(struct output *output, int64_t n_bytes)
{
    struct dir_aside aside;
    int error = 0;
    enum status status = dir_aside_begin(&output->dir, "metrics.jsonl", O_APPEND, &aside);
    if (status != STATUS_OK) {
        return status;
    }
    status = n_bytes > 0 ? metrics_copy(output, aside.file, n_bytes, &error) : STATUS_OK;
    if (status != STATUS_OK) {
        dir_aside_drop(&output->dir, &aside);
        return status;
    }
    status = dir_aside_end(&output->dir, "metrics.jsonl", &aside, error, &output->metrics);
    output->n_metrics_bytes = status == STATUS_OK ? n_bytes : 0;
    return status;
}

enum status output_metrics_cut(struct output *output, int64_t n_bytes)
{
    if (ftruncate(output->metrics, n_bytes) != 0) {
        return status_fail(STATUS_IO, "cannot shorten '%s/metrics.jsonl': %s", output->dir.path, strerror(errno));
    }
    output->n_metrics_bytes = n_bytes;
    return STATUS_OK;
}

enum status output_metrics_append(struct output *output, const char *line, size_t n_bytes)
{
    int error = file_write(output->metrics, line, n_bytes);
    if (error != 0) {
        int shortened = ftruncate(output->metrics, output->n_metrics_bytes);
        return status_fail(STATUS_IO, "cannot write '%s/metrics.jsonl': %s%s", output->dir.path, strerror(error),
                           shortened == 0 ? "" : "; its last line is broken");
    }
    output->n_metrics_bytes += (int64_t)n_bytes;
    return STATUS_OK;
}

enum status output_metrics_sync(struct output *output)
{
    if (output->metrics >= 0 && fdatasync(output->metrics) != 0) {
        return status_fail(STATUS_IO, "cannot write '%s/metrics.jsonl': %s", output->dir.path, strerror(errno));
    }
    return STATUS_OK;
}
