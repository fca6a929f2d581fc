#include "trainerd/daemon/jobs/jobs.h"

#include "protocol/clock.h"
#include "protocol/file.h"
#include "protocol/log.h"
#include "protocol/memory.h"
#include "trainerd/daemon/commands/submission.h"
#include "trainerd/daemon/jobs/folders.h"
#include "trainerd/daemon/jobs/job_clock.h"
#include "trainerd/daemon/jobs/reserve.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct listener {
    jobs_listener *call;
    void *context;
    struct listener *next;
};

struct jobs {
    struct store *store;
    const struct gpus *gpus;
    bool in_slurm;
    char folder[PATH_MAX - 64]; /* STATE/jobs or SHARED/jobs, absolute; shorter than PATH_MAX for the names in it */
    struct job_record **all;    /* ids ascending */
    size_t n, capacity;
    struct listener *listeners;
    struct reserve reserve;
    struct quota quota;
    struct need whole; /* the machine */
    struct shares shares;
    bool drains;
};

static const struct job_progress unknown_progress = {.loss = NAN,
                                                     .train_metric = NAN,
                                                     .valid_metric = NAN,
                                                     .test_metric = NAN,
                                                     .best_valid_metric = NAN,
                                                     .best_test_metric = NAN,
                                                     .epoch_s = NAN,
                                                     .seconds_left = NAN,
                                                     .compute_s = NAN,
                                                     .wait_s = NAN,
                                                     .evaluate_s = NAN,
                                                     .bytes_sent = NAN,
                                                     .bytes_received = NAN,
                                                     .memory = NAN};

/* --- the records in memory --- */

static void add(struct jobs *jobs, const struct job_record *record)
{
    if (jobs->n == jobs->capacity) {
        jobs->capacity = jobs->capacity == 0 ? 64 : 2 * jobs->capacity;
        struct job_record **more = memory_alloc(jobs->capacity, sizeof *more);
        if (jobs->n > 0) {
            memcpy(more, jobs->all, jobs->n * sizeof *more);
        }
        free(jobs->all);
        jobs->all = more;
    }
    struct job_record *copy = memory_alloc(1, sizeof *copy);
    *copy = *record;
    jobs->all[jobs->n++] = copy;
}

static bool add_each(void *context, const struct job_record *record)
{
    add(context, record);
    return true;
}

static struct job_record *find(const struct jobs *jobs, int64_t id)
{
    size_t low = 0, high = jobs->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (jobs->all[middle]->id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < jobs->n && jobs->all[low]->id == id ? jobs->all[low] : NULL;
}

static void notify(const struct jobs *jobs, const struct job_record *record)
{
    for (const struct listener *listener = jobs->listeners; listener != NULL; listener = listener->next) {
        listener->call(listener->context, record);
    }
}

/* Could a change not be saved since the disk was full, and is there space now? */
static bool has_space_now(struct jobs *jobs, enum status status)
{
    return status == STATUS_IO && store_found_no_space(jobs->store) && reserve_release(&jobs->reserve);
}

/* --- draining --- */

#define FACT_DRAINS "drains"

static enum status drain_load(struct jobs *jobs)
{
    char value[STORE_FACT_BYTES];
    enum status status = store_fact_get(jobs->store, FACT_DRAINS, value);
    jobs->drains = status == STATUS_OK && strcmp(value, "yes") == 0;
    return status;
}

bool jobs_drain(const struct jobs *jobs)
{
    return jobs->drains;
}

enum status jobs_drain_set(struct jobs *jobs, bool drains)
{
    enum status status = store_fact_put(jobs->store, FACT_DRAINS, drains ? "yes" : "no");
    status = has_space_now(jobs, status) ? store_fact_put(jobs->store, FACT_DRAINS, drains ? "yes" : "no") : status;
    jobs->drains = status == STATUS_OK ? drains : jobs->drains;
    return status;
}

/* --- opening --- */

static enum status find_folder(struct jobs *jobs, const char *base)
{
    char whole[PATH_MAX];
    if (realpath(base, whole) == NULL) {
        return status_fail(STATUS_CREATE, "cannot find the folder '%s' for jobs: %s", base, strerror(errno));
    }
    if (snprintf(jobs->folder, sizeof jobs->folder, "%s/jobs", whole) >= (int)sizeof jobs->folder) {
        return status_fail(STATUS_CREATE, "the path of the folder for jobs is too long: '%.64s…'", whole);
    }
    if (jobs->in_slurm && strpbrk(jobs->folder, "%\\") != NULL) { /* sbatch --output replaces what they begin */
        return status_fail(STATUS_CREATE, "the folder for jobs is '%s': expected a path without %% and \\, for Slurm",
                           jobs->folder);
    }
    return file_folder_make(jobs->folder);
}

enum status jobs_open(const char *state_folder, const struct jobs_options *options, struct jobs **out)
{
    static const struct gpus none;
    static const struct jobs_options local;
    options = options != NULL ? options : &local;
    struct jobs *jobs = memory_alloc(1, sizeof *jobs);
    int64_t highest = 0;
    jobs->gpus = options->gpus != NULL ? options->gpus : &none;
    jobs->in_slurm = options->in_slurm;
    jobs->quota = options->quota;
    jobs->whole = options->whole;
    enum status status = store_open(state_folder, &jobs->store);
    status = status == STATUS_OK ? find_folder(jobs, options->shared != NULL ? options->shared : state_folder) : status;
    status = status == STATUS_OK ? store_highest(jobs->store, &highest) : status;
    status = status == STATUS_OK ? folders_check(jobs->folder, store_id(jobs->store), highest) : status;
    status = status == STATUS_OK ? job_clock_open(jobs->store) : status;
    status = status == STATUS_OK ? drain_load(jobs) : status;
    status = status == STATUS_OK ? shares_open(&jobs->shares, options->half_life_s, &jobs->whole, jobs->store) : status;
    status = status == STATUS_OK ? store_each(jobs->store, add_each, jobs) : status;
    if (status != STATUS_OK) {
        jobs_close(jobs);
        return status;
    }
    *out = jobs;
    return STATUS_OK;
}

void jobs_close(struct jobs *jobs)
{
    if (jobs == NULL) {
        return;
    }
    for (size_t i = 0; i < jobs->n; i++) {
        free(jobs->all[i]);
    }
    while (jobs->listeners != NULL) {
        struct listener *next = jobs->listeners->next;
        free(jobs->listeners);
        jobs->listeners = next;
    }
    free(jobs->all);
    shares_release(&jobs->shares);
    store_close(jobs->store);
    free(jobs);
}

void jobs_listen(struct jobs *jobs, jobs_listener *listener, void *context)
{
    struct listener *more = memory_alloc(1, sizeof *more);
    *more = (struct listener){.call = listener, .context = context, .next = jobs->listeners};
    jobs->listeners = more;
}

void jobs_unlisten(struct jobs *jobs, jobs_listener *listener, void *context)
{
    for (struct listener **link = &jobs->listeners; *link != NULL; link = &(*link)->next) {
        struct listener *one = *link;
        if (one->call == listener && one->context == context) {
            *link = one->next;
            free(one);
            return;
        }
    }
}

/* --- looking --- */

const struct job_record *jobs_get(const struct jobs *jobs, int64_t id)
{
    return find(jobs, id);
}

const struct job_record *jobs_find(const struct jobs *jobs, const char *name_or_number, uid_t uid)
{
    char *end;
    errno = 0;
    long long id = strtoll(name_or_number, &end, 10);
    if (name_or_number[0] >= '0' && name_or_number[0] <= '9' && *end == '\0' && errno == 0) {
        return find(jobs, id);
    }
    bool sees_all = uid == 0 || uid == geteuid();
    for (size_t i = jobs->n; i-- > 0;) {
        if ((sees_all || jobs->all[i]->uid == uid) && strcmp(jobs->all[i]->name, name_or_number) == 0) {
            return jobs->all[i];
        }
    }
    return NULL;
}

const struct job_record *const *jobs_all(const struct jobs *jobs, size_t *n_out)
{
    *n_out = jobs->n;
    return (const struct job_record *const *)jobs->all;
}

struct store *jobs_store(const struct jobs *jobs)
{
    return jobs->store;
}

const struct gpus *jobs_gpus(const struct jobs *jobs)
{
    return jobs->gpus;
}

bool jobs_are_in_slurm(const struct jobs *jobs)
{
    return jobs->in_slurm;
}

void jobs_reserve(struct jobs *jobs, const char *state_folder, int64_t n_bytes)
{
    reserve_open(&jobs->reserve, state_folder, n_bytes);
}

/* --- what users may have, and have used --- */

const struct quota *jobs_quota(const struct jobs *jobs)
{
    return &jobs->quota;
}

struct shares *jobs_shares(struct jobs *jobs)
{
    return &jobs->shares;
}

enum status jobs_check_queued(const struct jobs *jobs, uid_t uid, size_t n_more)
{
    return quota_check_queued(&jobs->quota, (const struct job_record *const *)jobs->all, jobs->n, uid, n_more);
}

enum status jobs_check_quota(const struct jobs *jobs, const char *file, const struct job_record *record)
{
    return jobs->in_slurm ? STATUS_OK : quota_check_job(&jobs->quota, &jobs->whole, file, record);
}

/* --- changing --- */

#define BIT(state) (1u << JOB_STATE_##state)
#define ENDS (BIT(SUCCEEDED) | BIT(FAILED) | BIT(CANCELLED))

/* The states that may follow each state. An attempt only moves forward; the next one begins in the queue. */
static const unsigned steps[JOB_STATE_N] = {
    [JOB_STATE_QUEUED] = BIT(QUEUED) | BIT(SUBMITTED) | BIT(PREPARING) | BIT(FAILED) | BIT(CANCELLED),
    [JOB_STATE_SUBMITTED] = BIT(SUBMITTED) | BIT(PREPARING) | BIT(STARTING) | BIT(RUNNING) | BIT(QUEUED) | ENDS,
    [JOB_STATE_PREPARING] = BIT(PREPARING) | BIT(STARTING) | BIT(RUNNING) | BIT(QUEUED) | ENDS,
    [JOB_STATE_STARTING] = BIT(STARTING) | BIT(RUNNING) | BIT(QUEUED) | ENDS,
    [JOB_STATE_RUNNING] = BIT(RUNNING) | BIT(QUEUED) | ENDS,
    [JOB_STATE_FAILED] = BIT(QUEUED),
    [JOB_STATE_CANCELLED] = BIT(QUEUED),
};

/* A job's record and its output folder, from its job file. errors  those of jobs_submit */
static enum status fill(const struct jobs *jobs, struct job_record *record, const struct store_submission *submission,
                        struct job *job, char output[PATH_MAX])
{
    enum status status = submission_job(submission, job);
    status = status == STATUS_OK ? submission_output(job, submission->folder, output) : status;
    if (status == STATUS_OK) {
        const char *file = submission->file != NULL ? submission->file : "job.toml";
        status = submission_check_launcher(file, jobs->in_slurm, job);
        submission_ask(job, (int32_t)job->workers.count, record);
        record->n_part = (int32_t)job->partition.parts;
        if (status == STATUS_OK && !jobs->in_slurm) {
            status = submission_check_gpus(file, record, jobs->gpus->n);
        }
        status = status == STATUS_OK ? jobs_check_quota(jobs, file, record) : status;
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (record->name[0] == '\0') {
        submission_cut(job->job.name, record->name, sizeof record->name);
    }
    record->state = JOB_STATE_QUEUED;
    record->reason = JOB_REASON_WAITING_TURN;
    record->submitted_at = record->changed_at = clock_wall_s();
    record->exit_code = -1;
    record->progress = unknown_progress;
    record->progress.n_epoch = job_predicts(job) ? 0 : job->train.epochs;
    return STATUS_OK;
}

/* Of several jobs: which one it was. */
static enum status fail_at(enum status status, size_t i, size_t n)
{
    char *reason = strdup(status_reason());
    ASSERT(reason != NULL);
    status = n > 1 ? status_fail(status, "job %zu of %zu: %s", i + 1, n, reason) : status;
    free(reason);
    return status;
}

/* Runs make folders of their own, except in a folder that the job file names. */
static enum status check_output(const struct job *job, char *const *output, size_t i)
{
    for (size_t k = 0; k < i && job->output.dir[0] != '\0'; k++) {
        if (strcmp(output[k], output[i]) == 0) {
            return status_fail(STATUS_CONFIG,
                               "output.dir is '%s', as job %zu's: expected a folder of its own, or none, which makes one",
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

enum status jobs_submit(struct jobs *jobs, struct job_record *record, const struct store_submission *submission, size_t n,
                        int64_t *existing_out)
{
    struct job *job = memory_alloc(1, sizeof *job);
    struct store_submission *whole = memory_alloc(n, sizeof *whole);
    char path[PATH_MAX], **output = memory_alloc(n, sizeof *output);
    enum status status = check_queued(jobs, record->uid, submission->submission_id, n);
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        status = fill(jobs, &record[i], &submission[i], job, path);
        if (status == STATUS_OK) {
            output[i] = strdup(path);
            ASSERT(output[i] != NULL);
            whole[i] = submission[i];
            whole[i].output = output[i];
            status = check_output(job, output, i);
        }
        status = status != STATUS_OK ? fail_at(status, i, n) : status;
    }
    if (status == STATUS_OK) {
        status = store_insert(jobs->store, record, whole, n, existing_out);
        status = has_space_now(jobs, status) ? store_insert(jobs->store, record, whole, n, existing_out) : status;
    }
    for (size_t i = 0; i < n; i++) {
        free(output[i]);
    }
    free(output);
    free(whole);
    free(job);
    if (status == STATUS_OK && *existing_out == 0) {
        for (size_t i = 0; i < n; i++) {
            add(jobs, &record[i]);
        }
        for (size_t i = 0; i < n; i++) {
            notify(jobs, find(jobs, record[i].id));
        }
    }
    return status;
}

void jobs_keep_time(struct jobs *jobs)
{
    reserve_refill(&jobs->reserve);
    if (job_clock_keep(jobs->store) != STATUS_OK) {
        log_warn("%s", status_reason());
    }
}

enum status jobs_change(struct jobs *jobs, const struct job_record *changed)
{
    struct job_record *record = find(jobs, changed->id);
    if (record == NULL) {
        return status_fail(STATUS_USAGE, "there is no job %lld", (long long)changed->id);
    }
    if ((steps[record->state] >> changed->state & 1u) == 0) {
        return status_fail(STATUS_USAGE, "job %lld is %s: it cannot become %s", (long long)record->id,
                           job_state_name(record->state), job_state_name(changed->state));
    }
    struct job_record next = *changed;
    next.changed_at = clock_wall_s();
    if (job_state_ended(next.state) && !job_state_ended(record->state)) {
        next.ended_at = next.changed_at;
    }
    struct store_use use;
    const struct store_use *more = shares_after(&jobs->shares, record, &next, job_clock_s(), &use) ? &use : NULL;
    enum status status = store_update(jobs->store, &next, more);
    status = has_space_now(jobs, status) ? store_update(jobs->store, &next, more) : status;
    if (status == STATUS_OK) {
        if (more != NULL) {
            shares_set(&jobs->shares, more);
        }
        *record = next;
        notify(jobs, record);
    }
    return status;
}

void jobs_progress(struct jobs *jobs, int64_t id, const struct job_progress *progress, int64_t n_event_bytes)
{
    struct job_record *record = find(jobs, id);
    ASSERT(record != NULL);
    record->progress = *progress;
    record->n_event_bytes = n_event_bytes;
    notify(jobs, record);
}

void jobs_wait(struct jobs *jobs, int64_t id, enum job_reason reason, const char *text)
{
    struct job_record *record = find(jobs, id);
    ASSERT(record != NULL && !job_state_ended(record->state));
    if (record->reason != reason || strcmp(record->reason_text, text) != 0) {
        record->reason = reason;
        submission_cut(text, record->reason_text, sizeof record->reason_text);
        notify(jobs, record);
    }
}

void jobs_plans(struct jobs *jobs, int64_t id, int64_t n_bytes)
{
    struct job_record *record = find(jobs, id);
    ASSERT(record != NULL);
    record->planning = n_bytes;
}

/* --- their folders --- */

void jobs_folder(const struct jobs *jobs, int64_t id, char *out)
{
    snprintf(out, PATH_MAX, "%s/%lld", jobs->folder, (long long)id);
}

enum status jobs_folder_make(const struct jobs *jobs, int64_t id)
{
    const struct job_record *record = find(jobs, id);
    ASSERT(record != NULL);
    char folder[PATH_MAX];
    jobs_folder(jobs, id, folder);
    enum status status = folders_make(folder, record);
    return status == STATUS_OK && jobs->in_slurm ? folders_give(folder, record) : status;
}

/* --- jobs that are kept no longer --- */

#define N_REMOVED_MOST 200 /* at once, while other requests wait */

/* Take a record out of memory. */
static void forget(struct jobs *jobs, int64_t id)
{
    size_t at = 0;
    while (jobs->all[at]->id != id) {
        at++;
    }
    free(jobs->all[at]);
    jobs->n--;
    memmove(&jobs->all[at], &jobs->all[at + 1], (jobs->n - at) * sizeof *jobs->all);
}

void jobs_retain(struct jobs *jobs, const struct retention *retention)
{
    int64_t ids[N_REMOVED_MOST];
    char folder[PATH_MAX];
    size_t n = retention_find(retention, (const struct job_record *const *)jobs->all, jobs->n, clock_wall_s(), ids,
                              N_REMOVED_MOST);
    for (size_t i = 0; i < n; i++) { /* first: a record without a folder is found again, a folder without a record is not */
        jobs_folder(jobs, ids[i], folder);
        folders_remove(folder);
    }
    if (n > 0 && store_remove(jobs->store, ids, n) != STATUS_OK) {
        log_warn("%s; it is tried again", status_reason());
        return;
    }
    for (size_t i = 0; i < n; i++) {
        forget(jobs, ids[i]);
    }
    if (n > 0) {
        log_info("%zu jobs, the first of them %lld, are kept no longer (daemon.retain_days, daemon.retain_jobs)", n,
                 (long long)ids[0]);
    }
}
