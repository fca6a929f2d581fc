#include "trainerd/daemon/jobs/shares.h"

#include "protocol/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- users --- */

/* Where the user is, or would be. */
static size_t place_of(const struct shares *shares, uid_t uid)
{
    size_t low = 0, high = shares->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (shares->share[middle].uid < uid) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static const struct share *find(const struct shares *shares, uid_t uid)
{
    size_t at = place_of(shares, uid);
    return at < shares->n && shares->share[at].uid == uid ? &shares->share[at] : NULL;
}

static struct share *find_or_add(struct shares *shares, uid_t uid)
{
    size_t at = place_of(shares, uid);
    if (at < shares->n && shares->share[at].uid == uid) {
        return &shares->share[at];
    }
    shares->share = memory_list_grow(shares->share, (int32_t)shares->n, sizeof *shares->share);
    memmove(&shares->share[at + 1], &shares->share[at], (shares->n - at) * sizeof *shares->share);
    shares->share[at] = (struct share){.uid = uid};
    shares->n++;
    return &shares->share[at];
}

static void add_each(void *context, const struct store_use *use)
{
    shares_set(context, use);
}

enum status shares_open(struct shares *out, double half_life_s, const struct need *whole, struct store *store)
{
    *out = (struct shares){.half_life_s = half_life_s, .whole = *whole};
    return half_life_s > 0.0 ? store_uses(store, add_each, out) : STATUS_OK;
}

void shares_release(struct shares *shares)
{
    free(shares->share);
    *shares = (struct shares){0};
}

/* --- use --- */

/* What is left of it. A clock that has lost a minute in a power cut is not ahead of what was saved. */
static double decayed(const struct shares *shares, double used, double at, double now)
{
    return shares->half_life_s > 0.0 ? used * exp2(-fmax(0.0, now - at) / shares->half_life_s) : 0.0;
}

static double part(int64_t of, int64_t whole)
{
    return whole > 0 ? fmin(1.0, (double)of / (double)whole) : 0.0;
}

/* The largest share of the machine, integrated over the last ran_s seconds with decay: ∫ 2^(-t / half-life) dt. */
static double use_of(const struct shares *shares, const struct job_record *job, double ran_s)
{
    if (!(shares->half_life_s > 0.0 && ran_s > 0.0) || job_is_in_slurm(job)) {
        return 0.0;
    }
    const struct need *whole = &shares->whole, need = need_of_job(whole, job);
    double rate = fmax(fmax(part(need.n_slot, whole->n_slot), part(need.n_gpu, whole->n_gpu)),
                       part(need.memory, whole->memory));
    return rate * shares->half_life_s / M_LN2 * -expm1(-M_LN2 * ran_s / shares->half_life_s);
}

double shares_used(const struct shares *shares, uid_t uid, double now)
{
    const struct share *share = find(shares, uid);
    return share != NULL ? decayed(shares, share->used, share->at, now) : 0.0;
}

double shares_using(const struct shares *shares, const struct job_record *job, double now)
{
    return job->run.attempt_at > 0.0 ? use_of(shares, job, now - job->run.attempt_at) : 0.0;
}

bool shares_after(const struct shares *shares, const struct job_record *before, const struct job_record *after,
                  double now, struct store_use *out)
{
    bool has_ended = before->run.attempt_at > 0.0 && after->run.attempt_at <= 0.0;
    double used = has_ended ? use_of(shares, before, after->run.ran_s - before->run.ran_s) : 0.0;
    *out = (struct store_use){.uid = before->uid, .used = shares_used(shares, before->uid, now) + used, .at = now};
    return used > 0.0;
}

void shares_set(struct shares *shares, const struct store_use *use)
{
    struct share *share = find_or_add(shares, use->uid);
    share->used = use->used;
    share->at = use->at;
}

/* --- the first of those that wait --- */

double shares_first_used(const struct shares *shares, uid_t uid, int64_t job, double now)
{
    const struct share *share = find(shares, uid);
    return share != NULL && share->first == job && job != 0 ? decayed(shares, share->first_used, share->first_at, now)
                                                            : -1.0;
}

void shares_first_set(struct shares *shares, uid_t uid, int64_t job, double used, double now)
{
    struct share *share = shares->half_life_s > 0.0 ? find_or_add(shares, uid) : NULL;
    if (share != NULL && share->first != job) {
        share->first = job;
        share->first_used = used;
        share->first_at = now;
    }
}
