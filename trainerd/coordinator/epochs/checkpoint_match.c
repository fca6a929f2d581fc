/* Does a checkpoint belong to a job? Compares the keys that change the computed numbers. */
#include "trainerd/coordinator/folder/checkpoint.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/job/job_keys.h"
#include "trainerd/coordinator/epochs/plateau.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys that do not change the computed numbers. partition.parts may be left out. */
static bool is_free(const struct job_key *key, const struct job *job)
{
    static const char *const free_keys[] = {"job.*",           "workers.*",           "memory.*",
                                            "output.*",        "exchange.schedule",   "exchange.prefetch",
                                            "partition.cache", "partition.parts",     "train.checkpoint_every",
                                            "train.on_nan",    "train.max_rollbacks", "post.*"};
    char name[JOB_LABEL_BYTES], all[JOB_LABEL_BYTES];
    snprintf(name, sizeof name, "%s.%s", key->section, key->name);
    snprintf(all, sizeof all, "%s.*", key->section);
    for (size_t i = 0; i < sizeof free_keys / sizeof *free_keys; i++) {
        if (strcmp(free_keys[i], name) == 0 || strcmp(free_keys[i], all) == 0) {
            return true;
        }
    }
    /* The cosine schedule ends with the last epoch: every epoch depends on train.epochs. */
    return strcmp(name, "train.epochs") == 0 && job->train.lr_schedule != JOB_LR_SCHEDULE_COSINE;
}

/* Is it the path of a file? */
static bool is_file(const struct job *job, enum job_key_id key)
{
    const char *weights = job->train.class_weights;
    switch (key) {
    case JOB_KEY_dataset_path:
        return job->dataset.path[0] != '\0';
    case JOB_KEY_partition_file:
        return job->partition.file[0] != '\0';
    case JOB_KEY_model_init:
        return job->model.init[0] != '\0';
    case JOB_KEY_train_class_weights:
        return strcmp(weights, "none") != 0 && strcmp(weights, "balanced") != 0;
    default:
        return false;
    }
}

/* A key's value; NULL: those of [model.args]. The caller frees the text. */
static char *value_text(const struct job *job, const struct job_key *key)
{
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    ASSERT(file != NULL);
    if (key != NULL) {
        job_print_value(file, job, key);
    } else {
        job_print_args(file, job);
    }
    fclose(file);
    return text;
}

static enum status compare_key(const struct job *now, const struct job *then, const struct job_key *key,
                               const char *path)
{
    char *here = value_text(now, key), *there = value_text(then, key);
    enum status status = STATUS_OK;
    if (strcmp(here, there) != 0) {
        char label[JOB_LABEL_BYTES] = "[model.args]";
        if (key != NULL) {
            job_key_label(key, label);
        }
        status = status_fail(STATUS_CONFIG,
                             "cannot resume: %s is %.160s, in checkpoint '%s' it is %.160s: expected the same", label,
                             here, path, there);
    }
    free(here);
    free(there);
    return status;
}

static enum status compare(const struct job *now, const struct job *then, const struct checkpoint *checkpoint)
{
    for (int i = 0; i < JOB_KEY_N; i++) {
        const struct job_key *key = &job_keys[i];
        /* Files are compared by content (contents.h), not by path; partitions are compared themselves. */
        bool by_contents = is_file(now, (enum job_key_id)i) && is_file(then, (enum job_key_id)i);
        if (is_free(key, now) || by_contents) {
            continue;
        }
        enum status status = compare_key(now, then, key, checkpoint->path);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return compare_key(now, then, NULL, checkpoint->path);
}

/* Parts that the job leaves out are the checkpoint's. */
static enum status parts_match(const struct job *then, const char *path, struct job *now)
{
    /* Of a program that made a part for each worker where the job did not say. */
    int64_t parts = then->partition.parts > 0 ? then->partition.parts : then->workers.count;
    if (now->partition.parts != 0 && now->partition.parts != parts) {
        return status_fail(
            STATUS_CONFIG,
            "cannot resume: partition.parts is %lld, in checkpoint '%s' it is %lld: expected the same, or none",
            (long long)now->partition.parts, path, (long long)parts);
    }
    if (now->workers.count > parts) {
        return status_fail(
            STATUS_CONFIG,
            "cannot resume: workers.count = %lld is more than the %lld parts of checkpoint '%s': expected at most "
            "as many",
            (long long)now->workers.count, (long long)parts, path);
    }
    now->partition.parts = parts;
    return STATUS_OK;
}

bool checkpoint_library_differs(const struct checkpoint *checkpoint, enum library library, struct library_range now,
                                char *out, size_t capacity)
{
    const struct library_range then = checkpoint->libraries.of[library];
    bool is_same = then.least == now.least && then.most == now.most;
    if (is_same || then.least == LIBRARY_UNKNOWN || now.least == LIBRARY_UNKNOWN) {
        return false;
    }
    snprintf(out, capacity,
             "checkpoint '%s' was computed with %s %s, it is %s here: results have other bits than without a stop",
             checkpoint->path, library_name(library), library_range_text(then).of, library_range_text(now).of);
    return true;
}

/* Workers multiply the learning rate by what these say. */
static enum status rate_match(const struct checkpoint *checkpoint, const struct job *job)
{
    const struct checkpoint_state *state = &checkpoint->state;
    double factor = plateau_factor(job, state);
    return factor > 0.0 && factor <= 1.0
               ? STATUS_OK
               : status_fail(STATUS_DATA,
                             "checkpoint '%s' is damaged: state: plateau_lr is %g and n_rollback %lld, which makes "
                             "the learning rate %g times train.lr = %g: expected a factor above 0 and at most 1",
                             checkpoint->path, state->plateau_lr, (long long)state->n_rollback, factor,
                             job->train.lr);
}

enum status checkpoint_match(const struct checkpoint *checkpoint, struct job *job)
{
    struct job *then = memory_alloc(1, sizeof *then);
    enum status status = job_load_text(checkpoint->job, checkpoint->n_job, checkpoint->path, NULL, 0, then);
    if (status != STATUS_OK) {
        status = status_fail(STATUS_DATA, "cannot resume: the job inside the checkpoint cannot be read: %s",
                             status_reason());
    } else {
        status = compare(job, then, checkpoint);
        if (status == STATUS_OK && (status = parts_match(then, checkpoint->path, job)) == STATUS_OK) {
            status = rate_match(checkpoint, job);
        }
    }
    if (status == STATUS_OK && job->train.epochs < checkpoint->state.n_epoch) {
        status = status_fail(STATUS_CONFIG,
                             "cannot resume: train.epochs is %lld, checkpoint '%s' has %lld epochs done",
                             (long long)job->train.epochs, checkpoint->path, (long long)checkpoint->state.n_epoch);
    }
    free(then);
    return status;
}
