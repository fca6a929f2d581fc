#include "trainerd/daemon/jobs/queue.h"

#include "protocol/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A user's jobs that are planned ahead of their turn. Planning takes cores from running jobs, so these are few. */
#define N_PLANNED_AHEAD 2

/* Planning of which it is not known what it needs gets this part of its user's share of the memory, and at least so many bytes: two processes'. */
#define PLANNING_SHARE 8
#define PLANNING_LEAST (2 * MEMORY_PROCESS_FLOOR)

/* A user with jobs that wait or run. */
struct user {
    uid_t uid;
    int n_waiting;
    bool plans, has_unknown; /* one of his jobs is planned; needs memory of which it is not known how much */
};

struct need {
    int64_t n_slot, n_gpu, memory;
};

/* The state of the walk over waiting jobs. */
struct walk {
    bool is_elsewhere;
    struct need whole;
    struct need free;       /* not used by jobs that run or were just started, nor by planning */
    struct need unreserved; /* of what jobs do not use, what is not reserved for waiting jobs before this one */
    int64_t first_waiting;  /* job; 0: none yet */
    int n_planning;
    struct user *user; /* n_user */
    int n_user;
};

static struct user *user_of(struct walk *walk, uid_t uid)
{
    int at = 0;
    while (at < walk->n_user && walk->user[at].uid != uid) {
        at++;
    }
    if (at == walk->n_user) {
        walk->user[walk->n_user++] = (struct user){.uid = uid};
    }
    return &walk->user[at];
}

/* Threads can share cores, and workers GPUs: a job that asks for more than there are takes them all. Without any GPU it waits for one. */
static struct need need_of(const struct walk *walk, const struct job_record *job)
{
    const struct need *whole = &walk->whole;
    if (walk->is_elsewhere) {
        return (struct need){0};
    }
    return (struct need){.n_slot = job->n_slot < whole->n_slot ? job->n_slot : whole->n_slot,
                         .n_gpu = job->n_gpu < whole->n_gpu || whole->n_gpu == 0 ? job->n_gpu : whole->n_gpu,
                         .memory = job->memory < 0 ? 0 : job->memory};
}

static void take(struct need *from, const struct need *need)
{
    from->n_slot = from->n_slot > need->n_slot ? from->n_slot - need->n_slot : 0;
    from->n_gpu = from->n_gpu > need->n_gpu ? from->n_gpu - need->n_gpu : 0;
    from->memory = from->memory > need->memory ? from->memory - need->memory : 0;
}

static bool fits(const struct need *need, const struct need *in)
{
    return need->n_slot <= in->n_slot && need->n_gpu <= in->n_gpu && need->memory <= in->memory;
}

static void set_wait(struct queue_decision *out, enum job_reason reason)
{
    out->verdict = QUEUE_VERDICT_WAIT;
    out->reason = reason;
}

#define MIB (1024.0 * 1024.0)

/* Describe the first resource that a job lacks. */
static void describe_lack(const struct need *need, const struct need *there, const struct need *whole,
                          struct queue_decision *out)
{
    if (need->n_slot > there->n_slot) {
        set_wait(out, JOB_REASON_WAITING_SLOTS);
        snprintf(out->text, sizeof out->text, "%" PRId64 " of %" PRId64 " slots are free, it needs %" PRId64, there->n_slot,
                 whole->n_slot, need->n_slot);
    } else if (need->n_gpu > there->n_gpu) {
        set_wait(out, JOB_REASON_WAITING_GPUS);
        snprintf(out->text, sizeof out->text, "%" PRId64 " of %" PRId64 " GPUs are free, it needs %" PRId64, there->n_gpu,
                 whole->n_gpu, need->n_gpu);
    } else {
        set_wait(out, JOB_REASON_WAITING_MEMORY);
        snprintf(out->text, sizeof out->text, "%.1f of %.1f MiB of memory are free, it needs %.1f MiB",
                 (double)there->memory / MIB, (double)whole->memory / MIB, (double)need->memory / MIB);
    }
}

static void describe_impossible(const struct need *need, const struct need *whole, struct queue_decision *out)
{
    if (need->n_gpu > whole->n_gpu) { /* there were some when it was submitted, and may be again */
        set_wait(out, JOB_REASON_WAITING_GPUS);
        snprintf(out->text, sizeof out->text, "it needs a GPU (workers.device), the daemon has none (daemon.gpus)");
    } else {
        out->verdict = QUEUE_VERDICT_NEVER;
        out->reason = JOB_REASON_OUT_OF_MEMORY;
        snprintf(out->text, sizeof out->text,
                 "it needs %.1f MiB of memory by its plan, the daemon has %.1f MiB "
                 "(daemon.memory)",
                 (double)need->memory / MIB, (double)whole->memory / MIB);
    }
}

/* Reserve the needs of a job that waits. While the memory of a user's jobs is not known, his share is reserved for all of them: all memory, where
 * there is no other user; more where planning alone is known to take more. */
static void reserve_for(struct walk *walk, const struct job_record *job)
{
    struct need need = need_of(walk, job);
    struct user *user = user_of(walk, job->uid);
    if (job->memory < 0 && !user->has_unknown && !walk->is_elsewhere) {
        int64_t share = walk->whole.memory / walk->n_user;
        need.memory = job->planning_need > share ? job->planning_need : share;
        user->has_unknown = true;
    }
    take(&walk->unreserved, &need);
    walk->first_waiting = walk->first_waiting == 0 ? job->id : walk->first_waiting;
    user->n_waiting++;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What planning gets, in bytes. */
static int64_t planning_bytes(const struct walk *walk, const struct job_record *job)
{
    int64_t share = walk->whole.memory / walk->n_user / PLANNING_SHARE;
    int64_t most = least(share > PLANNING_LEAST ? share : PLANNING_LEAST, walk->whole.memory);
    return job->planning_need > 0 ? job->planning_need : most;
}

static void describe_no_planning(const struct walk *walk, int64_t n_byte, struct queue_decision *out)
{
    if (n_byte > walk->whole.memory) {
        out->verdict = QUEUE_VERDICT_NEVER;
        out->reason = JOB_REASON_OUT_OF_MEMORY;
        snprintf(out->text, sizeof out->text,
                 "planning it takes %.1f MiB of memory, cutting its graph included, the daemon has %.1f MiB (daemon.memory)",
                 (double)n_byte / MIB, (double)walk->whole.memory / MIB);
    } else {
        set_wait(out, JOB_REASON_WAITING_MEMORY);
        snprintf(out->text, sizeof out->text, "%.1f of %.1f MiB of memory are free, planning it may take %.1f MiB",
                 (double)walk->free.memory / MIB, (double)walk->whole.memory / MIB, (double)n_byte / MIB);
    }
}

/* A user's jobs are planned one at a time, so that no planning of his holds up another's. */
static bool may_plan(struct walk *walk, const struct job_record *job)
{
    const struct user *user = user_of(walk, job->uid);
    return walk->n_planning < QUEUE_PLANNING_MOST && !user->plans && user->n_waiting < N_PLANNED_AHEAD;
}

/* Plan a job of which it is not known what it needs? */
static void decide_planning(struct walk *walk, const struct job_record *job, struct queue_decision *out)
{
    const struct need planning = {.memory = planning_bytes(walk, job)};
    bool runs = job->planning > 0; /* what it takes is not free */
    if (!may_plan(walk, job)) {
        set_wait(out, JOB_REASON_WAITING_TURN);
        snprintf(out->text, sizeof out->text, "job %" PRId64 " is before it", walk->first_waiting);
    } else if (runs || fits(&planning, &walk->free)) {
        *out = (struct queue_decision){
            .verdict = QUEUE_VERDICT_PLAN, .reason = JOB_REASON_PLANNING, .planning = planning.memory};
        snprintf(out->text, sizeof out->text, "%s", job_reason_text(JOB_REASON_PLANNING));
        user_of(walk, job->uid)->plans = true;
        walk->n_planning++;
        take(&walk->free, runs ? &(struct need){0} : &planning);
    } else {
        describe_no_planning(walk, planning.memory, out);
    }
}

static void decide(struct walk *walk, const struct job_record *job, double now, struct queue_decision *out)
{
    struct need need = need_of(walk, job);
    if (!fits(&need, &walk->whole)) { /* nothing is reserved for it */
        describe_impossible(&need, &walk->whole, out);
        return;
    }
    if (job->next_attempt_at > now) { /* nothing is reserved during its wait; its priority counts again after it */
        set_wait(out, JOB_REASON_BACKING_OFF);
        snprintf(out->text, sizeof out->text, "%s", job->reason_text);
        return;
    }
    if (job->memory < 0) {
        decide_planning(walk, job, out);
        if (out->verdict != QUEUE_VERDICT_NEVER) {
            reserve_for(walk, job);
        }
        return;
    }
    if (fits(&need, &walk->unreserved) && fits(&need, &walk->free)) {
        *out = (struct queue_decision){.verdict = QUEUE_VERDICT_START};
        take(&walk->free, &need);
        take(&walk->unreserved, &need);
        return;
    }
    if (fits(&need, &walk->free)) {
        set_wait(out, JOB_REASON_WAITING_TURN);
        snprintf(out->text, sizeof out->text, "free resources are reserved for job %" PRId64 ", which is before it",
                 walk->first_waiting);
    } else {
        describe_lack(&need, &walk->free, &walk->whole, out);
    }
    reserve_for(walk, job);
}

struct place {
    const struct job_record *job;
    size_t at;
};

static int compare_places(const void *left, const void *right)
{
    const struct job_record *a = ((const struct place *)left)->job, *b = ((const struct place *)right)->job;
    if (a->priority != b->priority) {
        return a->priority > b->priority ? -1 : 1;
    }
    return a->id < b->id ? -1 : a->id > b->id;
}

void queue_decide(const struct job_record *const *jobs, size_t n, const struct queue_capacity *whole, double now,
                  struct queue_decision *decision)
{
    struct walk walk = {.is_elsewhere = whole->is_elsewhere,
                        .whole = {.n_slot = whole->n_slot, .n_gpu = gpus_n(whole->gpus), .memory = whole->memory}};
    uint64_t free_gpus = whole->gpus;
    struct place *places = memory_alloc(n + 1, sizeof *places);
    size_t n_queued = 0;
    walk.free = walk.whole;
    walk.user = memory_alloc(n + 1, sizeof *walk.user);
    for (size_t i = 0; i < n; i++) {
        decision[i] = (struct queue_decision){.verdict = QUEUE_VERDICT_WAIT};
        if (!job_state_ended(jobs[i]->state)) {
            user_of(&walk, jobs[i]->uid);
        }
        if (jobs[i]->state == JOB_STATE_QUEUED) {
            places[n_queued++] = (struct place){.job = jobs[i], .at = i};
        } else if (!job_state_ended(jobs[i]->state)) {
            struct need need = need_of(&walk, jobs[i]);
            take(&walk.free, &need);
            free_gpus &= ~jobs[i]->gpus;
        }
    }
    walk.free.n_gpu = gpus_n(free_gpus);
    walk.unreserved = walk.free;
    for (size_t i = 0; i < n; i++) { /* planning may end later than its job */
        take(&walk.free, &(struct need){.memory = jobs[i]->planning});
    }
    for (size_t i = 0; i < n_queued && whole->drains; i++) {
        struct queue_decision *out = &decision[places[i].at];
        set_wait(out, JOB_REASON_DRAINING);
        snprintf(out->text, sizeof out->text, "%s (trainctl undrain)", job_reason_text(JOB_REASON_DRAINING));
    }
    n_queued = whole->drains ? 0 : n_queued;
    qsort(places, n_queued, sizeof *places, compare_places);
    for (size_t i = 0; i < n_queued; i++) {
        decide(&walk, places[i].job, now, &decision[places[i].at]);
    }
    free(walk.user);
    free(places);
}
