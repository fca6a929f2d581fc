#include "trainerd/daemon/jobs/jobs.h"

#include "protocol/clock.h"
#include "protocol/file.h"
#include "protocol/log.h"
#include "protocol/memory.h"
#include "trainerd/daemon/commands/submission.h"
#include "trainerd/daemon/jobs/folders.h"
#include "trainerd/daemon/jobs/job_clock.h"
#include "trainerd/daemon/jobs/jobs_state.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the records in memory --- */

void jobs_add(struct jobs *jobs, const struct job_record *record)
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

static bool add_each(void *context, const struct job_record *record)
{
    jobs_add(context, record);
    return true;
}

struct job_record *jobs_record(const struct jobs *jobs, int64_t id)
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

void jobs_notify(const struct jobs *jobs, const struct job_record *record)
{
    for (const struct listener *listener = jobs->listeners; listener != NULL; listener = listener->next) {
        listener->call(listener->context, record);
    }
}

bool jobs_has_space_now(struct jobs *jobs, enum status status)
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
    status = jobs_has_space_now(jobs, status) ? store_fact_put(jobs->store, FACT_DRAINS, drains ? "yes" : "no") : status;
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
    return jobs_record(jobs, id);
}

const struct job_record *jobs_find(const struct jobs *jobs, const char *name_or_number, uid_t uid, bool sees_all)
{
    char *end;
    errno = 0;
    long long id = strtoll(name_or_number, &end, 10);
    if (name_or_number[0] >= '0' && name_or_number[0] <= '9' && *end == '\0' && errno == 0) {
        return jobs_record(jobs, id);
    }
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

void jobs_keep_time(struct jobs *jobs)
{
    reserve_refill(&jobs->reserve);
    if (job_clock_keep(jobs->store) != STATUS_OK) {
        log_warn("%s", status_reason());
    }
}

enum status jobs_change(struct jobs *jobs, const struct job_record *changed)
{
    struct job_record *record = jobs_record(jobs, changed->id);
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
    status = jobs_has_space_now(jobs, status) ? store_update(jobs->store, &next, more) : status;
    if (status == STATUS_OK) {
        if (more != NULL) {
            shares_set(&jobs->shares, more);
        }
        *record = next;
        jobs_notify(jobs, record);
    }
    return status;
}

void jobs_progress(struct jobs *jobs, int64_t id, const struct job_progress *progress, int64_t n_event_bytes)
{
    struct job_record *record = jobs_record(jobs, id);
    ASSERT(record != NULL);
    record->progress = *progress;
    record->n_event_bytes = n_event_bytes;
    jobs_notify(jobs, record);
}

void jobs_wait(struct jobs *jobs, int64_t id, enum job_reason reason, const char *text)
{
    struct job_record *record = jobs_record(jobs, id);
    ASSERT(record != NULL && !job_state_ended(record->state));
    if (record->reason != reason || strcmp(record->reason_text, text) != 0) {
        record->reason = reason;
        submission_cut(text, record->reason_text, sizeof record->reason_text);
        jobs_notify(jobs, record);
    }
}

void jobs_place(struct jobs *jobs, int64_t id, int64_t place)
{
    struct job_record *record = jobs_record(jobs, id);
    ASSERT(record != NULL);
    record->place = place;
}

void jobs_plans(struct jobs *jobs, int64_t id, int64_t n_bytes)
{
    struct job_record *record = jobs_record(jobs, id);
    ASSERT(record != NULL);
    record->planning = n_bytes;
}

/* --- jobs that are kept no longer --- */

#define N_REMOVED_MOST 200 /* at once, while other requests wait */

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

/* --- their folders --- */

void jobs_folder(const struct jobs *jobs, int64_t id, char *out)
{
    snprintf(out, PATH_MAX, "%s/%lld", jobs->folder, (long long)id);
}

enum status jobs_folder_make(const struct jobs *jobs, int64_t id)
{
    const struct job_record *record = jobs_record(jobs, id);
    ASSERT(record != NULL);
    char folder[PATH_MAX];
    jobs_folder(jobs, id, folder);
    enum status status = folders_make(folder, record);
    return status == STATUS_OK && jobs->in_slurm ? folders_give(folder, record) : status;
}
