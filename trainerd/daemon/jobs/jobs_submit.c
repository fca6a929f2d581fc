/* Jobs that are made: their records, from their job files. */
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "trainerd/daemon/jobs/jobs_state.h"
#include "trainerd/daemon/jobs/submission.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct job_progress unknown_progress = {
#define FIGURE(field, name, form) .field = NAN,
#include "trainerd/base/epoch_figures.def"
};

/* A job's record and its output folder, from its job file. errors  those of jobs_submit */
static enum status fill(const struct jobs *jobs, struct job_record *record, const struct store_submission *submission,
                        struct job *job, char output[PATH_MAX])
{
    const char *file = submission->file != NULL ? submission->file : "job.toml";
    enum status status = submission_job(submission, job);
    if (status != STATUS_OK || (status = submission_output(job, submission->folder, output)) != STATUS_OK ||
        (status = submission_check_launcher(file, jobs->in_slurm, job)) != STATUS_OK) {
        return status;
    }
    submission_ask(job, (int32_t)job->workers.count, record);
    record->plan.n_part = (int32_t)job->partition.parts;
    if ((!jobs->in_slurm && (status = submission_check_gpus(file, record, jobs->gpus->n)) != STATUS_OK) ||
        (status = jobs_check_quota(jobs, file, record)) != STATUS_OK) {
        return status;
    }
    if (record->name[0] == '\0') {
        job_text_cut(job->job.name, record->name, sizeof record->name);
    }
    char what[PATH_MAX];
    snprintf(what, sizeof what, "%s: name", file);
    status = submission_check_seen(STATUS_CONFIG, what, record->name);
    if (status != STATUS_OK) {
        return status;
    }
    record->state = JOB_STATE_QUEUED;
    record->reason = JOB_REASON_WAITING_TURN;
    record->times.submitted_at = record->times.changed_at = clock_wall_s();
    record->exit_code = -1;
    record->progress = unknown_progress;
    record->progress.n_epoch = job_predicts(job) ? 0 : job->train.epochs;
    return STATUS_OK;
}

/* Of several jobs: which one it was. */
static enum status fail_at(enum status status, size_t i, size_t n)
{
    return n > 1 ? status_fail(status, "job %zu of %zu: %s", i + 1, n, status_reason()) : status;
}

/* Runs make folders of their own, except in a folder that the job file names. */
static enum status check_output(const struct job *job, char *const *output, size_t i)
{
    for (size_t k = 0; k < i && job->output.dir[0] != '\0'; k++) {
        if (strcmp(output[k], output[i]) == 0) {
            return status_fail(STATUS_CONFIG,
                               "output.dir is '%s', as job %zu's: expected another folder, or no output.dir",
                               job->output.dir, k + 1);
        }
    }
    return STATUS_OK;
}

static void found_submitted(void *context, int64_t id)
{
    *(bool *)context = *(bool *)context || id > 0;
}

/* A submission that is sent again makes no jobs: it is found, however many wait. */
static enum status check_queued(const struct jobs *jobs, uid_t uid, const char *submission_id, size_t n)
{
    bool is_known = false;
    enum status status = jobs_check_queued(jobs, uid, n);
    if (status != STATUS_OK && submission_id[0] != '\0' &&
        store_submitted(jobs->store, uid, submission_id, found_submitted, &is_known) == STATUS_OK && is_known) {
        return STATUS_OK;
    }
    return status;
}

/* --- drafts --- */

struct jobs_draft {
    struct jobs *jobs;
    struct job_record *record;           /* n, borrowed */
    const struct store_submission *from; /* n, borrowed */
    struct store_submission *whole;      /* n, with their output folders */
    char **output;                       /* n */
    struct job *job;                     /* the last that was read */
    size_t n, n_read;
};

enum status jobs_draft_open(struct jobs *jobs, struct job_record *record, const struct store_submission *submission,
                            size_t n, struct jobs_draft **out)
{
    enum status status = check_queued(jobs, record->uid, submission->submission_id, n);
    if (status != STATUS_OK) {
        return status;
    }
    *out = memory_alloc(1, sizeof **out);
    **out = (struct jobs_draft){.jobs = jobs,
                                .record = record,
                                .from = submission,
                                .whole = memory_alloc(n, sizeof *(*out)->whole),
                                .output = memory_alloc(n, sizeof *(*out)->output),
                                .job = memory_alloc(1, sizeof *(*out)->job),
                                .n = n};
    return STATUS_OK;
}

void jobs_draft_close(struct jobs_draft *draft)
{
    for (size_t i = 0; i < draft->n; i++) {
        free(draft->output[i]);
    }
    free(draft->output);
    free(draft->whole);
    free(draft->job);
    free(draft);
}

static enum status read_one(struct jobs_draft *draft, size_t i)
{
    char path[PATH_MAX];
    enum status status = fill(draft->jobs, &draft->record[i], &draft->from[i], draft->job, path);
    if (status == STATUS_OK) {
        draft->output[i] = strdup(path);
        ASSERT(draft->output[i] != NULL);
        draft->whole[i] = draft->from[i];
        draft->whole[i].output = draft->output[i];
        status = check_output(draft->job, draft->output, i);
    }
    return status == STATUS_OK ? status : fail_at(status, i, draft->n);
}

enum status jobs_draft_read(struct jobs_draft *draft, const struct slice *slice, bool *done_out)
{
    enum status status = STATUS_OK;
    do {
        status = read_one(draft, draft->n_read);
        draft->n_read += status == STATUS_OK;
    } while (status == STATUS_OK && draft->n_read < draft->n && (slice == NULL || slice_has_time(slice)));
    *done_out = draft->n_read == draft->n;
    return status;
}

enum status jobs_draft_save(struct jobs_draft *draft, int64_t *existing_out)
{
    struct jobs *jobs = draft->jobs;
    struct job_record *record = draft->record;
    size_t n = draft->n;
    enum status status = check_queued(jobs, record->uid, draft->from->submission_id,
                                      n); /* others may have come meanwhile */
    if (status == STATUS_OK) {
        status = store_insert(jobs->store, record, draft->whole, n, existing_out);
        status = jobs_has_space_now(jobs, status) ? store_insert(jobs->store, record, draft->whole, n, existing_out)
                                                  : status;
    }
    if (status == STATUS_OK && *existing_out == 0) {
        for (size_t i = 0; i < n; i++) {
            jobs_add(jobs, &record[i]);
        }
        for (size_t i = 0; i < n; i++) {
            jobs_notify(jobs, &record[i]);
        }
    }
    return status;
}
