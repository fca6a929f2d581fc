#include "trainerd/coordinator/results/output.h"

#include "protocol/file.h"
#include "trainerd/coordinator/results/result_files.h"

#include <dirent.h>
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
        return status_fail(STATUS_CREATE, "output folder '%s': '%s' cannot be written: %s", dir, path, strerror(errno));
    }
    return STATUS_OK;
}

enum status output_folders_make(char *dir, size_t *n_made_from_io)
{
    size_t n = strlen(dir);
    for (size_t i = 1; i <= n; i++) {
        if (dir[i] != '/' && dir[i] != '\0') {
            continue;
        }
        char saved = dir[i];
        dir[i] = '\0';
        int made = mkdir(dir, 0777);
        int error = errno;
        dir[i] = saved;
        if (made == 0 && *n_made_from_io == 0) {
            *n_made_from_io = i;
        }
        if (made != 0 && error != EEXIST) {
            return status_fail(STATUS_CREATE, "cannot make output folder '%s': %s", dir, strerror(error));
        }
    }
    return STATUS_OK;
}

enum status output_open(const char *dir, struct output *out)
{
    *out = (struct output){.folder = -1, .metrics = -1};
    snprintf(out->dir, sizeof out->dir, "%s", dir);
    enum status status = output_folders_make(out->dir, &out->n_made_from);
    if (status == STATUS_OK) {
        out->folder = open(out->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (out->folder < 0) {
            status = not_writable(dir, strerror(errno));
        } else if (flock(out->folder, LOCK_EX | LOCK_NB) != 0) {
            status = not_writable(dir, "another running job writes to it: expected a folder of its own for each job");
        } else if (access(out->dir, W_OK | X_OK) != 0) {
            status = not_writable(dir, strerror(errno));
        }
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
            unlinkat(output->folder, "metrics.jsonl", 0);
        }
    }
    if (output->folder >= 0) {
        close(output->folder);
    }
    if (keep || output->n_made_from == 0) {
        return;
    }
    /* From the innermost outwards; a folder that is not empty stays, and so do those above it. */
    for (size_t n = strlen(output->dir); n >= output->n_made_from; n--) {
        if (output->dir[n] == '/' || output->dir[n] == '\0') {
            output->dir[n] = '\0';
            rmdir(output->dir);
        }
    }
    output->metrics = output->folder = -1;
    output->n_made_from = 0;
}

/* Remove the regular files of a folder whose names contain `part`, and the folder if it is empty then. */
static void folder_remove(const char *path, const char *part)
{
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return;
    }
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (strstr(entry->d_name, part) != NULL) {
            unlinkat(dirfd(folder), entry->d_name, 0);
        }
    }
    closedir(folder);
    rmdir(path);
}

static enum status file_remove(const struct output *output, const char *name)
{
    return unlinkat(output->folder, name, 0) == 0 || errno == ENOENT
               ? STATUS_OK
               : status_fail(STATUS_IO, "cannot remove '%s/%s' of an earlier job: %s", output->dir, name, strerror(errno));
}

/* All result files but checkpoints. */
static enum status results_remove(const struct output *output)
{
    struct result_files files;
    enum status status = result_files_list(output->folder, &files);
    for (int i = 0; i < files.n && status == STATUS_OK; i++) {
        status = strncmp(files.path[i], "checkpoint/", 11) != 0 ? file_remove(output, files.path[i]) : STATUS_OK;
    }
    result_files_release(&files);
    unlinkat(output->folder, "tb", AT_REMOVEDIR); /* where it is empty now */
    return status;
}

enum status output_clear(struct output *output, bool resume)
{
    char path[PATH_MAX], old[PATH_MAX];
    enum status status = file_remove(output, "result.json"); /* first: it exists only where all files are complete */
    status = status == STATUS_OK && !resume ? results_remove(output) : status;
    status = status == STATUS_OK ? output_path(output, "checkpoint", path) : status;
    status = status == STATUS_OK ? output_path(output, "checkpoint.old", old) : status;
    if (status != STATUS_OK || resume) {
        return status;
    }
    folder_remove(path, ".tmp"); /* the only file when the first checkpoint was incomplete */
    if (access(path, F_OK) != 0) {
        return STATUS_OK;
    }
    folder_remove(old, "");
    if (renameat(output->folder, "checkpoint", output->folder, "checkpoint.old") != 0) {
        return status_fail(STATUS_IO, "cannot rename '%s/checkpoint' of an earlier job to '%s': %s", output->dir, old,
                           strerror(errno));
    }
    return STATUS_OK;
}

enum status output_path(const struct output *output, const char *name, char out[PATH_MAX])
{
    int n = snprintf(out, PATH_MAX, "%s/%s", output->dir, name);
    return n < PATH_MAX ? STATUS_OK : not_writable(output->dir, "its files' names are too long for this system");
}

enum status output_metrics_open(struct output *output, int64_t n_bytes)
{
    output->metrics = openat(output->folder, "metrics.jsonl", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (output->metrics < 0) {
        return status_fail(STATUS_CREATE, "cannot open '%s/metrics.jsonl': %s", output->dir, strerror(errno));
    }
    struct stat stat_of = {0};
    if (fstat(output->metrics, &stat_of) != 0 || stat_of.st_size < n_bytes) {
        return status_fail(STATUS_DATA, "'%s/metrics.jsonl' has %lld bytes: expected at least the %lld of the checkpoint",
                           output->dir, (long long)stat_of.st_size, (long long)n_bytes);
    }
    return output_metrics_cut(output, n_bytes);
}

enum status output_metrics_cut(struct output *output, int64_t n_bytes)
{
    if (ftruncate(output->metrics, n_bytes) != 0) {
        return status_fail(STATUS_IO, "cannot shorten '%s/metrics.jsonl': %s", output->dir, strerror(errno));
    }
    output->n_metrics_bytes = n_bytes;
    return STATUS_OK;
}

enum status output_metrics_append(struct output *output, const char *line, size_t n_bytes)
{
    int error = file_write(output->metrics, line, n_bytes);
    if (error != 0) {
        int shortened = ftruncate(output->metrics, output->n_metrics_bytes);
        return status_fail(STATUS_IO, "cannot write '%s/metrics.jsonl': %s%s", output->dir, strerror(error),
                           shortened == 0 ? "" : "; its last line is broken");
    }
    output->n_metrics_bytes += (int64_t)n_bytes;
    return STATUS_OK;
}

enum status output_metrics_sync(struct output *output)
{
    if (output->metrics >= 0 && fdatasync(output->metrics) != 0) {
        return status_fail(STATUS_IO, "cannot write '%s/metrics.jsonl': %s", output->dir, strerror(errno));
    }
    return STATUS_OK;
}
