#include "trainerd/daemon/jobs/queue.h"

#include "protocol/base/amounts.h"
#include "protocol/base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A user's jobs that are planned ahead of their turn. Planning takes cores from running jobs, so these are few. */
#define N_PLANNED_AHEAD 2

/* Planning of unknown need gets this part of its user's share of memory, and at least two processes' floor. */
#define PLANNING_SHARE 8
#define PLANNING_LEAST (2 * MEMORY_PROCESS_FLOOR)

/* A user with jobs that wait or run. */
struct user {
    uid_t uid;
    int n_waiting;
    int64_t first_waiting;   /* job; 0: none yet */
    bool plans, has_unknown; /* one of his jobs is planned; needs memory of which it is not known how much */
    struct need most, has;   /* that his running jobs may have; that they have */
    /* of what he may have and has not, what is not reserved for his waiting jobs before this one */
    struct need unreserved;
    double used; /* of the machine, lately */
    /* the first of his jobs that waited when the queue last ran; NULL: it waits no more */
    const struct job_record *kept;
    double kept_used; /* his use when it came to be that */
};

/* The state of the walk over waiting jobs. */
struct walk {
    bool is_elsewhere;
    struct need whole;
    struct need free;       /* not used by jobs that run or were just started, nor by planning */
    struct need unreserved; /* of what jobs do not use, what is not reserved for waiting jobs before this one */
    int64_t first_waiting;  /* job; 0: none yet */
    int n_planning;
    struct user *user; /* n_user, uids ascending */
    size_t n_user;
};

static int compare_users(const void *left, const void *right)
{
    uid_t a = ((const struct user *)left)->uid, b = ((const struct user *)right)->uid;
    return a < b ? -1 : a > b;
}

/* Everyone with a job that has not ended. */
static void find_users(struct walk *walk, const struct job_record *const *jobs, size_t n)
{
    size_t n_open = 0;
    walk->user = memory_alloc(n + 1, sizeof *walk->user);
    for (size_t i = 0; i < n; i++) {
        if (!job_state_ended(jobs[i]->state)) {
            walk->user[n_open++].uid = jobs[i]->uid;
        }
    }
    qsort(walk->user, n_open, sizeof *walk->user, compare_users);
    for (size_t i = 0; i < n_open; i++) {
        if (walk->n_user == 0 || walk->user[walk->n_user - 1].uid != walk->user[i].uid) {
            walk->user[walk->n_user++] = walk->user[i];
        }
    }
}

static struct user *user_of(const struct walk *walk, uid_t uid)
{
    return bsearch(&(struct user){.uid = uid}, walk->user, walk->n_user, sizeof *walk->user, compare_users);
}

/* What a job takes of this machine, and of its user's quota. */
static struct need take_of(const struct walk *walk, const struct job_record *job)
{
    return walk->is_elsewhere ? (struct need){.n_job = 1} : need_of_job(&walk->whole, job);
}

static void settle(struct queue_decision *out, enum queue_verdict verdict, enum job_reason reason)
{
    out->verdict = verdict;
    out->reason = reason;
}

#define MIB (1024.0 * 1024.0)

/* Describe the first resource that a job lacks. */
static void describe_lack(const struct need *need, const struct need *there, const struct need *whole,
                          struct queue_decision *out)
{
    if (need->n_slot > there->n_slot) {
        settle(out, QUEUE_VERDICT_WAIT, JOB_REASON_WAITING_SLOTS);
        snprintf(out->text, sizeof out->text, "%" PRId64 " of %" PRId64 " slots are free, it needs %" PRId64,
                 there->n_slot, whole->n_slot, need->n_slot);
    } else if (need->n_gpu > there->n_gpu) {
        settle(out, QUEUE_VERDICT_WAIT, JOB_REASON_WAITING_GPUS);
        snprintf(out->text, sizeof out->text, "%" PRId64 " of %" PRId64 " GPUs are free, it needs %" PRId64,
                 there->n_gpu, whole->n_gpu, need->n_gpu);
    } else {
        settle(out, QUEUE_VERDICT_WAIT, JOB_REASON_WAITING_MEMORY);
        snprintf(out->text, sizeof out->text, "%.1f of %.1f MiB of memory are free, it needs %.1f MiB",
                 (double)there->memory / MIB, (double)whole->memory / MIB, (double)need->memory / MIB);
    }
}

static void describe_impossible(const struct need *need, const struct need *whole, struct queue_decision *out)
{
    if (need->n_gpu > whole->n_gpu) { /* there were some when it was submitted, and may be again */
        settle(out, QUEUE_VERDICT_WAIT, JOB_REASON_WAITING_GPUS);
        snprintf(out->text, sizeof out->text,
                 "it needs a GPU (workers.device), the daemon has no GPUs (daemon.gpus)");
    } else {
        settle(out, QUEUE_VERDICT_NEVER, JOB_REASON_OUT_OF_MEMORY);
        snprintf(out->text, sizeof out->text,
                 "it needs %.1f MiB of memory by its plan, the daemon has %.1f MiB (daemon.memory)",
                 (double)need->memory / MIB, (double)whole->memory / MIB);
    }
}

/* Its user's quota can never hold it. Planning that is known to need more than the quota counts as the job. */
static bool is_above_quota(const struct user *user, const struct need *need, int64_t planning_need,
                           struct queue_decision *out)
{
    struct need known = *need;
    known.memory = planning_need > known.memory ? planning_need : known.memory;
    if (need_fits(&known, &user->most)) {
        return false;
    }
    settle(out, QUEUE_VERDICT_NEVER, JOB_REASON_QUOTA);
    quota_describe_above(&user->most, &known, out->text, sizeof out->text);
    return true;
}

/* The memory that a user's jobs may have: his share, all of it where there is no other user, or his quota. */
static int64_t share_of(const struct walk *walk, const struct user *user)
{
    return smaller(walk->whole.memory / (int64_t)walk->n_user, user->most.memory);
}

/* Reserve the needs of a waiting job: of its user's quota, and of the machine unless the quota holds it back. While
 * the memory of a user's jobs is unknown, the user's share is reserved, or what planning needs if that is more. */
static void reserve_for(struct walk *walk, struct user *user, const struct job_record *job, bool is_held,
                        struct queue_decision *out)
{
    struct need need = take_of(walk, job);
    bool is_unknown = job->memory < 0 && !walk->is_elsewhere;
    int64_t share = is_unknown ? share_of(walk, user) : 0;
    int64_t unknown = job->queued.planning_need > share ? job->queued.planning_need : share;
    need.memory = is_unknown ? unknown : need.memory;
    need_take(&user->unreserved, &need);
    user->first_waiting = user->first_waiting == 0 ? job->id : user->first_waiting;
    user->n_waiting++;
    out->is_in_line = !is_held;
    if (is_held) {
        return;
    }
    need.memory = is_unknown && user->has_unknown ? 0 : need.memory;
    user->has_unknown = user->has_unknown || is_unknown;
    need_take(&walk->unreserved, &need);
    walk->first_waiting = walk->first_waiting == 0 ? job->id : walk->first_waiting;
}

/* What planning gets, in bytes. */
static int64_t planning_bytes(const struct walk *walk, const struct user *user, const struct job_record *job)
{
    int64_t share = share_of(walk, user) / PLANNING_SHARE;
    int64_t most = smaller(share > PLANNING_LEAST ? share : PLANNING_LEAST, walk->whole.memory);
    return job->queued.planning_need > 0 ? job->queued.planning_need : most;
}

static void describe_no_planning(const struct walk *walk, int64_t n_byte, struct queue_decision *out)
{
    if (n_byte > walk->whole.memory) {
        settle(out, QUEUE_VERDICT_NEVER, JOB_REASON_OUT_OF_MEMORY);
        snprintf(out->text, sizeof out->text,
                 "planning it takes %.1f MiB of memory, cutting its graph included, the daemon has %.1f MiB "
                 "(daemon.memory)",
                 (double)n_byte / MIB, (double)walk->whole.memory / MIB);
    } else {
        settle(out, QUEUE_VERDICT_WAIT, JOB_REASON_WAITING_MEMORY);
        snprintf(out->text, sizeof out->text, "%.1f of %.1f MiB of memory are free, planning it may take %.1f MiB",
                 (double)walk->free.memory / MIB, (double)walk->whole.memory / MIB, (double)n_byte / MIB);
    }
}

/* A user's jobs are planned one at a time, so that no planning of his holds up another's. */
static bool may_plan(const struct walk *walk, const struct user *user)
{
    return walk->n_planning < QUEUE_PLANNING_MOST && !user->plans && user->n_waiting < N_PLANNED_AHEAD;
}

/* Plan a job of which it is not known what it needs? */
static void decide_planning(struct walk *walk, struct user *user, const struct job_record *job,
                            struct queue_decision *out)
{
    const struct need planning = {.memory = planning_bytes(walk, user, job)};
    bool runs = job->queued.planning > 0; /* what it takes is not free */
    if (!may_plan(walk, user)) {
        settle(out, QUEUE_VERDICT_WAIT, JOB_REASON_WAITING_TURN);
    } else if (runs || need_fits(&planning, &walk->free)) {
        settle(out, QUEUE_VERDICT_PLAN, JOB_REASON_PLANNING);
        out->planning = planning.memory;
        snprintf(out->text, sizeof out->text, "%s", job_reason_text(JOB_REASON_PLANNING));
        user->plans = true;
        walk->n_planning++;
        need_take(&walk->free, runs ? &(struct need){0} : &planning);
    } else {
        describe_no_planning(walk, planning.memory, out);
    }
}

/* Its user's quota holds it back. */
static void describe_held(const struct user *user, const struct need *need, struct queue_decision *out)
{
    settle(out, QUEUE_VERDICT_WAIT, JOB_REASON_WAITING_QUOTA);
    quota_describe_held(&user->most, &user->has, need, out->text, sizeof out->text);
    if (out->text[0] == '\0') {
        snprintf(out->text, sizeof out->text,
                 "what else its user may have is reserved for job %" PRId64 ", which is before it",
                 user->first_waiting);
    }
}

/* A job that cannot be started now, though it is to, waits further in its place. */
static void start(struct walk *walk, struct user *user, const struct need *need, struct queue_decision *out)
{
    out->verdict = QUEUE_VERDICT_START;
    out->is_in_line = true;
    need_take(&walk->free, need);
    need_take(&walk->unreserved, need);
    need_take(&user->unreserved, need);
    need_add(&user->has, need);
}

static void decide(struct walk *walk, const struct job_record *job, double now, struct queue_decision *out)
{
    struct user *user = user_of(walk, job->uid);
    const struct need need = take_of(walk, job);
    out->used = user->used;
    if (!need_fits(&need, &walk->whole)) { /* nothing is reserved for it */
        describe_impossible(&need, &walk->whole, out);
        return;
    }
    if (is_above_quota(user, &need, walk->is_elsewhere ? 0 : job->queued.planning_need, out)) {
        return;
    }
    if (job->run.next_attempt_at >
        now) { /* nothing is reserved during its wait; its priority counts again after it */
        settle(out, QUEUE_VERDICT_WAIT, JOB_REASON_BACKING_OFF);
        snprintf(out->text, sizeof out->text, "%s", job->reason_text);
        return;
    }
    bool is_held = !need_fits(&need, &user->unreserved);
    if (job->memory < 0) {
        decide_planning(walk, user, job, out);
        if (out->verdict != QUEUE_VERDICT_NEVER) {
            reserve_for(walk, user, job, is_held, out);
        }
        return;
    }
    if (is_held) {
        describe_held(user, &need, out);
    } else if (need_fits(&need, &walk->unreserved) && need_fits(&need, &walk->free)) {
        start(walk, user, &need, out);
        return;
    } else if (need_fits(&need, &walk->free)) {
        settle(out, QUEUE_VERDICT_WAIT, JOB_REASON_WAITING_TURN);
        snprintf(out->text, sizeof out->text, "free resources are reserved for job %" PRId64 ", which is before it",
                 walk->first_waiting);
    } else {
        describe_lack(&need, &walk->free, &walk->whole, out);
    }
    reserve_for(walk, user, job, is_held, out);
}

/* --- the order --- */

struct place {
    const struct job_record *job;
    size_t at;
    double used; /* what its user has used, as it counts for this job */
};

static int compare_places(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    if (a->job->priority != b->job->priority) {
        return a->job->priority > b->job->priority ? -1 : 1;
    }
    if (a->used != b->used) {
        return a->used < b->used ? -1 : 1;
    }
    return a->job->id < b->job->id ? -1 : a->job->id > b->job->id;
}

/* A user's use counts as of the first of its jobs that wait: so a user's own jobs stay in their order. */
static double use_of(const struct user *user, const struct job_record *job)
{
    bool is_kept = user->kept != NULL && job->priority == user->kept->priority && job->id <= user->kept->id;
    return is_kept && user->kept_used < user->used ? user->kept_used : user->used;
}

/* What users may have and have used. */
static void measure_users(struct walk *walk, const struct queue_capacity *capacity, double now)
{
    for (size_t i = 0; i < walk->n_user; i++) {
        struct user *user = &walk->user[i];
        user->most = user->unreserved = quota_find(capacity->quota, user->uid);
        user->used = capacity->shares != NULL ? shares_used(capacity->shares, user->uid, now) : 0.0;
    }
}

/* Put jobs that wait into places, and take what the others have. */
static size_t place(struct walk *walk, const struct job_record *const *jobs, size_t n,
                    const struct queue_capacity *capacity, double now, struct place *places)
{
    const struct shares *shares = capacity->shares;
    uint64_t free_gpus = capacity->gpus;
    size_t n_queued = 0;
    for (size_t i = 0; i < n; i++) {
        struct user *user = job_state_ended(jobs[i]->state) ? NULL : user_of(walk, jobs[i]->uid);
        if (jobs[i]->state == JOB_STATE_QUEUED) {
            double first = shares != NULL ? shares_first_used(shares, user->uid, jobs[i]->id, now) : -1.0;
            user->kept = first >= 0.0 ? jobs[i] : user->kept;
            user->kept_used = first >= 0.0 ? first : user->kept_used;
            places[n_queued++] = (struct place){.job = jobs[i], .at = i};
        } else if (user != NULL) {
            const struct need need = take_of(walk, jobs[i]);
            need_take(&walk->free, &need);
            need_take(&user->unreserved, &need);
            need_add(&user->has, &need);
            user->used += shares != NULL ? shares_using(shares, jobs[i], now) : 0.0;
            free_gpus &= ~jobs[i]->gpus;
        }
    }
    walk->free.n_gpu = gpus_n(free_gpus);
    for (size_t i = 0; i < n_queued; i++) {
        places[i].used = use_of(user_of(walk, places[i].job->uid), places[i].job);
    }
    qsort(places, n_queued, sizeof *places, compare_places);
    return n_queued;
}

struct need queue_whole(const struct queue_capacity *capacity)
{
    return (struct need){capacity->n_slot, gpus_n(capacity->gpus), capacity->memory, NEED_UNLIMITED};
}

void queue_decide(const struct job_record *const *jobs, size_t n, const struct queue_capacity *whole, double now,
                  struct queue_decision *decision)
{
    struct walk walk = {.is_elsewhere = whole->is_elsewhere, .whole = queue_whole(whole)};
    struct place *places = memory_alloc(n + 1, sizeof *places);
    int64_t n_place = 0;
    walk.free = walk.whole;
    find_users(&walk, jobs, n);
    measure_users(&walk, whole, now);
    size_t n_queued = place(&walk, jobs, n, whole, now, places);
    walk.unreserved = walk.free;
    for (size_t i = 0; i < n; i++) { /* planning may end later than its job */
        decision[i] = (struct queue_decision){.verdict = QUEUE_VERDICT_WAIT};
        need_take(&walk.free, &(struct need){.memory = jobs[i]->queued.planning});
    }
    for (size_t i = 0; i < n_queued; i++) {
        struct queue_decision *out = &decision[places[i].at];
        out->place = n_place + 1;
        if (whole->drains) {
            settle(out, QUEUE_VERDICT_WAIT, JOB_REASON_DRAINING);
            snprintf(out->text, sizeof out->text, "%s (trainctl undrain)", job_reason_text(JOB_REASON_DRAINING));
        } else {
            decide(&walk, places[i].job, now, out);
        }
        n_place += out->verdict == QUEUE_VERDICT_WAIT || out->verdict == QUEUE_VERDICT_PLAN;
    }
    free(walk.user);
    free(places);
}

/* Of each user, all of whose jobs have the same use, in the order of places: by priority, then number. */
static int compare_firsts(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    if (a->job->uid != b->job->uid) {
        return a->job->uid < b->job->uid ? -1 : 1;
    }
    return compare_places(left, right);
}

void queue_keep_first(const struct job_record *const *jobs, size_t n, const struct queue_decision *decision,
                      double now, struct shares *shares)
{
    struct place *places = memory_alloc(n + 1, sizeof *places);
    size_t n_line = 0;
    for (size_t i = 0; i < n; i++) {
        if (decision[i].is_in_line && jobs[i]->state == JOB_STATE_QUEUED) {
            places[n_line++] = (struct place){.job = jobs[i], .used = decision[i].used};
        }
    }
    qsort(places, n_line, sizeof *places, compare_firsts);
    for (size_t i = 0, at = 0; i < shares->n; i++) {
        while (at < n_line && places[at].job->uid < shares->share[i].uid) {
            at++;
        }
        bool has_one = at < n_line && places[at].job->uid == shares->share[i].uid;
        shares->share[i].first = has_one ? shares->share[i].first : 0;
    }
    for (size_t i = 0; i < n_line; i++) {
        if (i == 0 || places[i].job->uid != places[i - 1].job->uid) {
            shares_first_set(shares, places[i].job->uid, places[i].job->id, places[i].used, now);
        }
    }
    free(places);
}
