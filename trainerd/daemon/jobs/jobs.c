#include "trainerd/daemon/jobs/jobs.h"

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/files/file.h"
#include "trainerd/daemon/jobs/jobs_state.h"
#include "trainerd/daemon/jobs/submission.h"
#include "trainerd/daemon/store/folders.h"
#include "trainerd/daemon/store/job_clock.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the records in memory --- */

void jobs_add(struct jobs *jobs, const struct job_record *record)
{
    struct job_record *copy = memory_alloc(1, sizeof *copy);
    *copy = *record;
    job_index_add(&jobs->index, copy);
}

static void forget(struct jobs *jobs, int64_t id)
{
    struct job_record *record = jobs_record(jobs, id);
    job_index_remove(&jobs->index, record);
    free(record);
}

static bool add_each(void *context, const struct job_record *record)
{
    jobs_add(context, record);
    return true;
}

struct job_record *jobs_record(const struct jobs *jobs, int64_t id)
{
    const struct job_list *all = &jobs->index.all.jobs;
    size_t place = job_list_place(all, id);
    return place < all->n && all->at[place]->id == id ? all->at[place] : NULL;
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
    status = jobs_has_space_now(jobs, status) ? store_fact_put(jobs->store, FACT_DRAINS, drains ? "yes" : "no")
                                              : status;
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
    if (status != STATUS_OK ||
        (status = find_folder(jobs, options->shared != NULL ? options->shared : state_folder)) != STATUS_OK ||
        (status = store_highest(jobs->store, &highest)) != STATUS_OK ||
        (status = folders_check(jobs->folder, store_id(jobs->store), highest)) != STATUS_OK ||
        (status = job_clock_open(jobs->store)) != STATUS_OK || (status = drain_load(jobs)) != STATUS_OK ||
        (status = shares_open(&jobs->shares, options->half_life_s, &jobs->whole, jobs->store)) != STATUS_OK ||
        (status = store_each(jobs->store, add_each, jobs)) != STATUS_OK) {
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
    for (size_t i = 0; i < jobs->index.all.jobs.n; i++) {
        free(jobs->index.all.jobs.at[i]);
    }
    while (jobs->listeners != NULL) {
        struct listener *next = jobs->listeners->next;
        free(jobs->listeners);
        jobs->listeners = next;
    }
    job_index_release(&jobs->index);
    free(jobs->expired.ids);
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
    const struct job_set *named = sees_all ? job_index_find(&jobs->index, JOB_KEY_NAME, 0, name_or_number)
                                           : job_index_find(&jobs->index, JOB_KEY_NAME_OF_OWNER, uid, name_or_number);
    return named->jobs.n > 0 ? named->jobs.at[named->jobs.n - 1] : NULL;
}

const struct job_record *const *jobs_all(const struct jobs *jobs, size_t *n_out)
{
    *n_out = jobs->index.all.jobs.n;
    return (const struct job_record *const *)jobs->index.all.jobs.at;
}

const struct job_record *const *jobs_not_ended(const struct jobs *jobs, size_t *n_out)
{
    *n_out = jobs->index.open.n;
    return (const struct job_record *const *)jobs->index.open.at;
}

const struct job_index *jobs_index(const struct jobs *jobs)
{
    return &jobs->index;
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
    const struct job_set *own = job_index_find(&jobs->index, JOB_KEY_OWNER, uid, "");
    return quota_check_queued(&jobs->quota, own->n_of_state[JOB_STATE_QUEUED] + own->n_promised, uid, n_more);
}

void jobs_promise(struct jobs *jobs, uid_t uid, int64_t n)
{
    job_index_promise(&jobs->index, uid, n);
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

/* What the record becomes. errors  STATUS_USAGE its state may not follow the present one */
static enum status next_of(const struct jobs *jobs, const struct job_record *changed, struct job_record *out)
{
    const struct job_record *record = jobs_record(jobs, changed->id);
    if (record == NULL) {
        return status_fail(STATUS_USAGE, "there is no job %lld", (long long)changed->id);
    }
    if ((steps[record->state] >> changed->state & 1u) == 0) {
        return status_fail(STATUS_USAGE, "job %lld is %s: it cannot become %s", (long long)record->id,
                           job_state_name(record->state), job_state_name(changed->state));
    }
    *out = *changed;
    out->times.changed_at = clock_wall_s();
    if (job_state_ended(out->state) && !job_state_ended(record->state)) {
        out->times.ended_at = out->times.changed_at;
    }
    return STATUS_OK;
}

/* It is saved. */
static void take_over(struct jobs *jobs, const struct job_record *next)
{
    struct job_record *record = jobs_record(jobs, next->id);
    enum job_state before = record->state;
    *record = *next;
    job_index_changed(&jobs->index, record, before);
    jobs_notify(jobs, record);
}

enum status jobs_change(struct jobs *jobs, const struct job_record *changed)
{
    struct job_record next;
    enum status status = next_of(jobs, changed, &next);
    if (status != STATUS_OK) {
        return status;
    }
    struct store_use use;
    const struct job_record *before = jobs_record(jobs, changed->id);
    const struct store_use *more = shares_after(&jobs->shares, before, &next, job_clock_s(), &use) ? &use : NULL;
    status = store_update(jobs->store, &next, more);
    status = jobs_has_space_now(jobs, status) ? store_update(jobs->store, &next, more) : status;
    if (status == STATUS_OK) {
        if (more != NULL) {
            shares_set(&jobs->shares, more);
        }
        take_over(jobs, &next);
    }
    return status;
}

enum status jobs_change_some(struct jobs *jobs, struct job_record *changed, size_t n, const struct slice *slice,
                             size_t *n_out)
{
    enum status status = STATUS_OK;
    *n_out = 0;
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        bool ends_attempt = jobs_get(jobs, changed[i].id)->run.attempt_at > 0.0 && changed[i].run.attempt_at <= 0.0;
        ASSERT(!ends_attempt); /* what its user has used would have to be saved, too */
        status = next_of(jobs, &changed[i], &changed[i]);
    }
    if (status == STATUS_OK) {
        status = store_update_some(jobs->store, changed, n, slice, n_out);
    }
    status = jobs_has_space_now(jobs, status) ? store_update_some(jobs->store, changed, n, slice, n_out) : status;
    for (size_t i = 0; i < *n_out; i++) {
        take_over(jobs, &changed[i]);
    }
    return status;
}

void jobs_progress(struct jobs *jobs, int64_t id, const struct job_progress *progress, int64_t n_event_bytes)
{
    struct job_record *record = jobs_record(jobs, id);
    ASSERT(record != NULL);
    record->progress = *progress;
    record->run.n_event_bytes = n_event_bytes;
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
    record->queued.place = place;
}

void jobs_plans(struct jobs *jobs, int64_t id, int64_t n_bytes)
{
    struct job_record *record = jobs_record(jobs, id);
    ASSERT(record != NULL);
    record->queued.planning = n_bytes;
}

/* --- jobs that are kept no longer --- */

#define N_REMOVED_MOST 200 /* in one transaction */

/* Look for those that are kept no longer. */
static void find_expired(struct jobs *jobs, const struct retention *retention)
{
    struct expired *expired = &jobs->expired;
    const struct job_list *all = &jobs->index.all.jobs;
    free(expired->ids);
    *expired = (struct expired){.ids = memory_alloc(all->n + 1, sizeof *expired->ids), .found_at = clock_wall_s()};
    expired->n = retention_find(retention, (const struct job_record *const *)all->at, all->n, expired->found_at,
                                expired->ids, all->n);
}

/* Not begun again since it was found. */
static bool is_expired(const struct jobs *jobs, int64_t id)
{
    const struct job_record *record = jobs_record(jobs, id);
    return record != NULL && job_state_ended(record->state) && record->queued.planning == 0 &&
           record->times.ended_at <= jobs->expired.found_at;
}

bool jobs_retain(struct jobs *jobs, const struct retention *retention, const struct slice *slice)
{
    struct expired *expired = &jobs->expired;
    int64_t ids[N_REMOVED_MOST];
    char folder[PATH_MAX];
    size_t n = 0;
    if (expired->done == expired->n) {
        find_expired(jobs, retention);
    }
    /* Folders first: a record without a folder is found again, a folder without a record is not. */
    for (bool has_time = true; expired->done < expired->n && n < N_REMOVED_MOST && has_time;
         has_time = slice_has_time(slice)) {
        int64_t id = expired->ids[expired->done++];
        if (is_expired(jobs, id)) {
            jobs_folder(jobs, id, folder);
            folders_remove(folder);
            ids[n++] = id;
        }
    }
    if (n > 0 && store_remove(jobs->store, ids, n) != STATUS_OK) {
        log_warn("%s; it is tried again", status_reason());
        expired->done = expired->n;
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        forget(jobs, ids[i]);
    }
    if (n > 0) {
        log_info("removed %zu expired jobs, the first is %lld (daemon.retain_days, daemon.retain_jobs)", n,
                 (long long)ids[0]);
    }
    return expired->done < expired->n;
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
