#include "trainerd/daemon/jobs/jobs.h"

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/files/file.h"
#include "trainerd/daemon/jobs/jobs_state.h"
#include "trainerd/daemon/store/folders.h"
#include "trainerd/daemon/store/job_clock.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- records in memory --- */

size_t jobs_live_place(const struct jobs *jobs, int64_t id)
{
    size_t low = 0, high = jobs->n_live;
    if (high == 0 || jobs->live[high - 1]->id < id) {
        return high;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (jobs->live[middle]->id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void jobs_add(struct jobs *jobs, const struct job_record *record)
{
    size_t place = jobs_live_place(jobs, record->id);
    jobs->live = memory_list_grow(jobs->live, (int32_t)jobs->n_live, sizeof *jobs->live);
    memmove(&jobs->live[place + 1], &jobs->live[place], (jobs->n_live - place) * sizeof *jobs->live);
    jobs->live[place] = memory_alloc(1, sizeof **jobs->live);
    *jobs->live[place] = *record;
    jobs->n_live++;
}

static void forget(struct jobs *jobs, int64_t id)
{
    size_t place = jobs_live_place(jobs, id);
    free(jobs->live[place]);
    jobs->n_live--;
    memmove(&jobs->live[place], &jobs->live[place + 1], (jobs->n_live - place) * sizeof *jobs->live);
}

static void add_each(void *context, const struct job_record *record)
{
    jobs_add(context, record);
}

struct job_record *jobs_record(const struct jobs *jobs, int64_t id)
{
    size_t place = jobs_live_place(jobs, id);
    return place < jobs->n_live && jobs->live[place]->id == id ? jobs->live[place] : NULL;
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
    return file_folder_make(jobs->folder, NULL);
}

enum status jobs_open(const char *state_folder, const struct jobs_options *options, struct jobs **out)
{
    static const struct gpus none;
    static const struct jobs_options local;
    options = options != NULL ? options : &local;
    struct jobs *jobs = memory_alloc(1, sizeof *jobs);
    int64_t highest = 0;
    jobs->row = memory_alloc(1, sizeof *jobs->row);
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
        (status = store_each_open(jobs->store, add_each, jobs)) != STATUS_OK) {
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
    while (jobs->n_live > 0) {
        free(jobs->live[--jobs->n_live]);
    }
    while (jobs->promises != NULL) {
        struct promise *next = jobs->promises->next;
        free(jobs->promises);
        jobs->promises = next;
    }
    while (jobs->listeners != NULL) {
        struct listener *next = jobs->listeners->next;
        free(jobs->listeners);
        jobs->listeners = next;
    }
    free(jobs->live);
    free(jobs->row);
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
    const struct job_record *record = jobs_record(jobs, id);
    return record != NULL ? record : store_get(jobs->store, id, jobs->row) ? jobs->row : NULL;
}

bool jobs_is_live(const struct jobs *jobs, int64_t id)
{
    return jobs_record(jobs, id) != NULL;
}

const struct job_record *jobs_find(const struct jobs *jobs, const char *name_or_number, uid_t uid, bool sees_all)
{
    char *end;
    errno = 0;
    int64_t id = strtoll(name_or_number, &end, 10);
    if (name_or_number[0] >= '0' && name_or_number[0] <= '9' && *end == '\0' && errno == 0) {
        return jobs_get(jobs, id);
    }
    if (store_named(jobs->store, name_or_number, uid, sees_all, &id) != STATUS_OK) {
        log_error("%s", status_reason());
    }
    return id != 0 ? jobs_get(jobs, id) : NULL;
}

const struct job_record *const *jobs_live(const struct jobs *jobs, size_t *n_out)
{
    *n_out = jobs->n_live;
    return (const struct job_record *const *)jobs->live;
}

enum status jobs_select(const struct jobs *jobs, const struct store_filter *filter, int64_t before, size_t n_most,
                        int64_t *ids_out, size_t *n_out)
{
    if (filter->states != STORE_OPEN || filter->group != NULL || filter->tag != NULL) {
        return store_select(jobs->store, filter, before, n_most, ids_out, n_out);
    }
    *n_out = 0;
    for (size_t at = jobs_live_place(jobs, before); at-- > 0 && *n_out < n_most;) {
        ids_out[*n_out] = jobs->live[at]->id;
        *n_out += !job_state_ended(jobs->live[at]->state);
    }
    return STATUS_OK;
}

int64_t jobs_n(const struct jobs *jobs)
{
    static const struct store_filter all;
    int64_t n_of_state[JOB_STATE_N], n = 0;
    (void)store_count(jobs->store, &all, n_of_state); /* kept, of all jobs */
    for (int state = 0; state < JOB_STATE_N; state++) {
        n += n_of_state[state];
    }
    return n;
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

/* A user's promise; NULL: none was made yet. */
static struct promise *promise_of(const struct jobs *jobs, uid_t uid)
{
    struct promise *promise = jobs->promises;
    while (promise != NULL && promise->uid != uid) {
        promise = promise->next;
    }
    return promise;
}

enum status jobs_check_queued(const struct jobs *jobs, uid_t uid, size_t n_more)
{
    const struct promise *promise = promise_of(jobs, uid);
    int64_t n = 0;
    enum status status = quota_queued(&jobs->quota, uid) > 0 ? store_count_waiting(jobs->store, uid, &n) : STATUS_OK;
    if (status != STATUS_OK) {
        return status;
    }
    n += promise != NULL ? promise->n : 0;
    return quota_check_queued(&jobs->quota, n, uid, n_more);
}

void jobs_promise(struct jobs *jobs, uid_t uid, int64_t n)
{
    struct promise *promise = promise_of(jobs, uid);
    if (promise == NULL) {
        promise = memory_alloc(1, sizeof *promise);
        *promise = (struct promise){.uid = uid, .next = jobs->promises};
        jobs->promises = promise;
    }
    promise->n += n;
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
    enum job_state before = JOB_STATE_N;
    enum status status = record != NULL ? STATUS_OK : store_get_state(jobs->store, changed->id, &before);
    if (status != STATUS_OK) {
        return status;
    }
    before = record != NULL ? record->state : before;
    if ((steps[before] >> changed->state & 1u) == 0) {
        return status_fail(STATUS_USAGE, "job %lld is %s: it cannot become %s", (long long)changed->id,
                           job_state_name(before), job_state_name(changed->state));
    }
    *out = *changed;
    out->times.changed_at = clock_wall_s();
    if (job_state_ended(out->state) && !job_state_ended(before)) {
        out->times.ended_at = out->times.changed_at;
    }
    return STATUS_OK;
}

/* It is saved. */
static void take_over(struct jobs *jobs, const struct job_record *next)
{
    struct job_record *record = jobs_record(jobs, next->id);
    if (record != NULL && job_state_ended(next->state) && next->queued.planning == 0) {
        forget(jobs, next->id);
    } else if (record != NULL) {
        *record = *next;
    } else if (!job_state_ended(next->state)) {
        jobs_add(jobs, next);
    }
    jobs_notify(jobs, next);
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
    const struct store_use *more = before != NULL && shares_after(&jobs->shares, before, &next, job_clock_s(), &use)
                                       ? &use
                                       : NULL;
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
        const struct job_record *before = jobs_record(jobs, changed[i].id);
        bool ends_attempt = before != NULL && before->run.attempt_at > 0.0 && changed[i].run.attempt_at <= 0.0;
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
        job_reason_set(record, reason, "%s", text);
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
    if (n_bytes == 0 && job_state_ended(record->state)) {
        forget(jobs, id);
    }
}

/* --- jobs that are kept no longer --- */

#define N_REMOVED_MOST 200 /* in one transaction */

bool jobs_retain(struct jobs *jobs, const struct retention *retention, const struct slice *slice)
{
    int64_t ids[N_REMOVED_MOST];
    char folder[PATH_MAX];
    size_t n_found, done = 0, n = 0;
    enum status status = store_expired(jobs->store, retention, clock_wall_s(), N_REMOVED_MOST, ids, &n_found);
    /* Folders first: a record without a folder is found again, a folder without a record is not. */
    for (bool has_time = true; status == STATUS_OK && done < n_found && has_time; has_time = slice_has_time(slice)) {
        int64_t id = ids[done++];
        if (jobs_record(jobs, id) == NULL) { /* else its planning has not ended */
            jobs_folder(jobs, id, folder);
            folders_remove(folder);
            ids[n++] = id;
        }
    }
    status = status == STATUS_OK && n > 0 ? store_remove(jobs->store, ids, n) : status;
    if (status != STATUS_OK) {
        log_warn("%s; it is tried again", status_reason());
        return false;
    }
    if (n > 0) {
        log_info("removed %zu expired jobs, the first is %lld (daemon.retain_days, daemon.retain_jobs)", n,
                 (long long)ids[0]);
    }
    return n > 0 && (done < n_found || n_found == N_REMOVED_MOST);
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
