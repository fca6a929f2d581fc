/* Random sequences of submissions, changes, removals and restarts: what the queries find is what a plain list says. */
#include "protocol/base/random.h"
#include "tests/support/daemon/jobs_submit.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { N_MOST = 400, N_STEP = 1200 };

/* All that the list knows of a job; 0: there is no such job any more. */
static struct known {
    uid_t uid;
    int group, name, tags; /* tags: a set of "t0", "t1", "t2" */
    int32_t priority;
    enum job_state state;
    int ended; /* as the n-th */
} known[N_MOST + 1];
static int n_known, n_end;
static struct jobs *jobs;
static uint64_t seed, n_drawn;

static int draw(int below)
{
    const struct random_key key = {.seed = seed};
    return (int)(random_u32(&key, n_drawn++, 0) % (uint32_t)below);
}

static void submit(void)
{
    struct known *job = &known[++n_known];
    *job = (struct known){1 + (uid_t)draw(3), draw(3), draw(4), draw(8), draw(3), JOB_STATE_QUEUED, 0};
    struct job_record record = {.uid = job->uid, .priority = job->priority};
    const struct store_submission one = {
        .submission_id = "", .config = "[dataset]\ngenerator = \"karate\"\n", .folder = "/", .output = ""};
    int64_t existing;
    snprintf(record.name, sizeof record.name, "n%d", job->name);
    snprintf(record.group, sizeof record.group, job->group > 0 ? "g%d" : "", job->group);
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(record.tags);
        snprintf(record.tags + n, sizeof record.tags - n, job->tags >> i & 1 ? "%st%d" : "", n > 0 ? "," : "", i);
    }
    expect_done(jobs_submit(jobs, &record, &one, 1, &existing));
    cr_assert_eq(record.id, n_known);
}

/* A step that the state machine allows, or none. */
static void change(void)
{
    static const enum job_state next[JOB_STATE_N][2] = {
        [JOB_STATE_QUEUED] = {JOB_STATE_PREPARING, JOB_STATE_CANCELLED},
        [JOB_STATE_PREPARING] = {JOB_STATE_RUNNING, JOB_STATE_FAILED},
        [JOB_STATE_RUNNING] = {JOB_STATE_SUCCEEDED, JOB_STATE_QUEUED},
        [JOB_STATE_FAILED] = {JOB_STATE_QUEUED, JOB_STATE_QUEUED},
        [JOB_STATE_CANCELLED] = {JOB_STATE_QUEUED, JOB_STATE_QUEUED}};
    int id = 1 + draw(n_known + 1);
    struct known *job = &known[id];
    if (id > n_known || job->uid == 0 || job->state == JOB_STATE_SUCCEEDED) {
        return;
    }
    struct job_record record = *jobs_get(jobs, id);
    cr_assert_eq(record.state, job->state);
    record.state = job->state = next[job->state][draw(2)];
    job->ended = job_state_ended(job->state) ? ++n_end : 0;
    expect_done(jobs_change(jobs, &record));
}

static uint64_t clock_stands(void)
{
    return 0;
}

/* Keep only the last few that ended. */
static void retain(void)
{
    const struct retention few = {.n_job = 1 + draw(20)};
    const struct slice slice = slice_begin(clock_stands);
    for (int i = 1; i <= n_known; i++) {
        int n_later = 0;
        for (int k = 1; k <= n_known; k++) {
            n_later += known[k].uid != 0 && known[k].ended > known[i].ended;
        }
        known[i].uid = known[i].ended > 0 && n_later >= few.n_job ? 0 : known[i].uid;
        known[i].ended = known[i].uid == 0 ? 0 : known[i].ended;
    }
    while (jobs_retain(jobs, &few, &slice)) {
    }
}

/* A random filter: counts and a page of numbers. */
static void expect_list(void)
{
    static const char *const states[] = {"qsprtSFC", "qsprt", "SFC", "FC"}; /* any, open, ended, stopped */
    char group[8], tag[8];
    int g = draw(3), t = draw(4), before = draw(2) == 0 ? N_MOST + 1 : draw(n_known + 2), n_most = 1 + draw(12);
    const struct store_filter filter = {.uid = 1 + (uid_t)draw(3),
                                        .group = g > 0 ? group : NULL,
                                        .tag = t < 3 ? tag : NULL,
                                        .states = (enum store_states)draw(STORE_N_STATES)};
    int64_t ids[16], n_of_state[JOB_STATE_N], n_expected[JOB_STATE_N] = {0};
    size_t n, at = 0;
    snprintf(group, sizeof group, "g%d", g);
    snprintf(tag, sizeof tag, "t%d", t);
    expect_done(jobs_select(jobs, &filter, before, (size_t)n_most, ids, &n));
    expect_done(store_count(jobs_store(jobs), &filter, n_of_state));
    for (int i = n_known; i > 0; i--) {
        bool is_own = known[i].uid == filter.uid || (g == 0 && t == 3);
        if (known[i].uid == 0 || !is_own || (g > 0 && known[i].group != g) || (t < 3 && !(known[i].tags >> t & 1))) {
            continue;
        }
        n_expected[known[i].state]++;
        if (i < before && (int)at < n_most && strchr(states[filter.states], "qsprtSFC"[known[i].state]) != NULL) {
            cr_assert(at < n && ids[at] == i, "job %d is not found, group %d, tag %d", i, g, t);
            at++;
        }
    }
    cr_assert_eq(at, n);
    cr_assert_arr_eq(n_of_state, n_expected, sizeof n_expected);
}

/* Names, and who waits in which order. */
static void expect_queries(void)
{
    char name[8];
    int which = draw(4), newest = 0, newest_own = 0;
    uid_t uid = 1 + (uid_t)draw(3);
    int64_t n_waiting, n_expected = 0, ids[N_MOST];
    size_t n;
    snprintf(name, sizeof name, "n%d", which);
    for (int i = 1; i <= n_known; i++) {
        bool is_named = known[i].uid != 0 && known[i].name == which;
        newest = is_named ? i : newest;
        newest_own = is_named && known[i].uid == uid ? i : newest_own;
        n_expected += known[i].uid == uid && known[i].state == JOB_STATE_QUEUED;
    }
    const struct job_record *any = jobs_find(jobs, name, uid, true);
    cr_assert_eq(any != NULL ? any->id : 0, newest);
    const struct job_record *own = jobs_find(jobs, name, uid, false);
    cr_assert_eq(own != NULL ? own->id : 0, newest_own);
    expect_done(store_count_waiting(jobs_store(jobs), uid, &n_waiting));
    cr_assert_eq(n_waiting, n_expected);
    expect_done(store_first(jobs_store(jobs), uid, N_MOST, ids, &n));
    cr_assert_eq((int64_t)n, n_expected);
    for (size_t i = 1; i < n; i++) {
        int32_t before = known[ids[i - 1]].priority, after = known[ids[i]].priority;
        cr_assert(before > after || (before == after && ids[i - 1] < ids[i]));
    }
}

Test(jobs_random, what_is_found_is_what_a_plain_list_says, .init = folder_make, .fini = folder_remove)
{
    for (seed = 1; seed <= 3; seed++) {
        char state[16];
        snprintf(state, sizeof state, "state-%d", (int)seed);
        n_known = n_end = 0;
        expect_done(jobs_open(folder_path(state), NULL, &jobs));
        for (int step = 0; step < N_STEP; step++) {
            int what = draw(100);
            if (what < 25 && n_known < N_MOST) {
                submit();
            } else if (what == 98) {
                retain();
            } else if (what == 99) {
                jobs_close(jobs);
                expect_done(jobs_open(folder_path(state), NULL, &jobs));
            } else if (n_known > 0) {
                change();
            }
            expect_list();
            expect_queries();
        }
        jobs_close(jobs);
    }
}
