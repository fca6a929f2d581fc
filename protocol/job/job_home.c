/* "~" at the beginning of the paths that a job reads, as in shells. The process that reads the paths decides whose
 * home it is. */
#include "protocol/job/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status job_home_path(const char *key, char path[JOB_TEXT_BYTES])
{
    const char *home = getenv("HOME");
    char whole[JOB_TEXT_BYTES];
    if (path[0] != '~' || (path[1] != '/' && path[1] != '\0')) {
        return STATUS_OK;
    }
    if (home == NULL || home[0] != '/') {
        return status_fail(STATUS_CONFIG, "%s: %s: there is no home folder, expected $HOME", key, path);
    }
    if (snprintf(whole, sizeof whole, "%s%s", home, path + 1) >= (int)sizeof whole) {
        return status_fail(STATUS_CONFIG, "%s: is too long with the home folder %s in it: %.60s…", key, home, path);
    }
    memcpy(path, whole, sizeof whole);
    return STATUS_OK;
}

enum status job_home(struct job *job)
{
    const struct {
        const char *key;
        char *path;
    } rows[] = {{"dataset.path", job->dataset.path},
                {"partition.file", job->partition.file},
                {"partition.cache", job->partition.cache},
                {"model.init", job->model.init},
                {"model.program", job->model.program},
                {"train.class_weights", job->train.class_weights},
                {"workers.hosts", job->workers.hosts},
                {"workers.token_file", job->workers.token_file},
                {"memory.spill", job->memory.spill},
                {"predict.model", job->predict.model},
                {"predict.pairs", job->predict.pairs},
                {"predict.nodes", job->predict.nodes},
                {"post.probabilities_file", job->post.probabilities_file}};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == STATUS_OK; i++) {
        status = job_home_path(rows[i].key, rows[i].path);
    }
    return status;
}
