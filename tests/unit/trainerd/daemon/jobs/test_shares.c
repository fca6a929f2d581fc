/* The order between users by what they have used, and that no job waits for ever. */
#include "protocol/base/random.h"
#include "tests/support/daemon/jobs_submit.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/unit/trainerd/daemon/jobs/queue_case.h"
#include "trainerd/daemon/jobs/jobs.h"
#include "trainerd/daemon/store/job_clock.h"

#include <math.h>
#include <stdlib.h>

#define HALF_LIFE 1000.0

static struct shares shares;

static void begin(void)
{
    shares = (struct shares){.half_life_s = HALF_LIFE, .whole = queue_whole(&whole)};
    whole.shares = &shares;
}

static void end(void)
{
    shares_release(&shares);
}

TestSuite(shares, .init = begin, .fini = end);

static struct job_record *of(uid_t uid, struct job_record *job)
{
    job->uid = uid;
    return job;
}

static void use(uid_t uid, double used, double at)
{
    shares_set(&shares, &(struct store_use){.uid = uid, .used = used, .at = at});
}

#define CLOSE(a, b) cr_assert_float_eq(a, b, 1e-9 * fabs(b), "%.17g is not %.17g", (double)(a), (double)(b))

/* --- use --- */

Test(shares, use_is_the_largest_part_of_the_machine_times_the_seconds)
{
    const double ran_s = 1.0, nearly = HALF_LIFE / log(2) * (1.0 - exp2(-ran_s / HALF_LIFE)); /* 0.9997 s */
    struct job_record *job = running(1, 6 * GIB);
    job->run.attempt_at = 5;
    CLOSE(shares_using(&shares, job, 5 + ran_s), 0.75 * nearly);
    job->n_slot = 100;
    CLOSE(shares_using(&shares, job, 5 + ran_s), nearly);
    job->n_slot = 1;
    job->memory = -1;
    CLOSE(shares_using(&shares, job, 5 + ran_s), 0.25 * nearly);
    job->n_gpu = 1;
    CLOSE(shares_using(&shares, job, 5 + ran_s), 0.5 * nearly);
    job->run.slurm = 4711;
    cr_assert_eq(shares_using(&shares, job, 5 + ran_s), 0.0);
    job->run.slurm = 0;
    job->run.attempt_at = 0;
    cr_assert_eq(shares_using(&shares, job, 5 + ran_s), 0.0);
}

Test(shares, use_halves_each_half_life_and_never_grows_by_a_clock_that_went_back)
{
    use(1, 8.0, 100);
    cr_assert_eq(shares_used(&shares, 1, 100), 8.0);
    CLOSE(shares_used(&shares, 1, 100 + HALF_LIFE), 4.0);
    CLOSE(shares_used(&shares, 1, 100 + 3 * HALF_LIFE), 1.0);
    cr_assert_eq(shares_used(&shares, 1, 40), 8.0);
    cr_assert_eq(shares_used(&shares, 2, 100), 0.0);
}

Test(shares, what_ran_in_two_attempts_counts_as_in_one)
{
    struct job_record *whole_run = running(1, GIB), before, after;
    whole_run->run.attempt_at = 10;
    double expected = shares_using(&shares, whole_run, 510);
    struct store_use saved;
    before = after = *whole_run;
    after.run.attempt_at = 0;
    after.run.ran_s = 300;
    cr_assert(shares_after(&shares, &before, &after, 310, &saved));
    shares_set(&shares, &saved);
    before = after;
    before.run.attempt_at = 310;
    after.run.ran_s = 500;
    cr_assert(shares_after(&shares, &before, &after, 510, &saved));
    CLOSE(saved.used, expected);
    after.state = JOB_STATE_QUEUED; /* as resume does */
    after.run.ran_s = 0;
    before = after;
    cr_assert_not(shares_after(&shares, &before, &after, 520, &saved), "a change that ends no attempt adds nothing");
}

Test(shares, nothing_is_counted_without_a_half_life)
{
    struct store_use saved;
    struct job_record *job = running(1, GIB), after;
    job->run.attempt_at = 10;
    after = *job;
    after.run.attempt_at = 0;
    after.run.ran_s = 5;
    shares.half_life_s = 0;
    cr_assert_not(shares_after(&shares, job, &after, 15, &saved));
    cr_assert_eq(shares_using(&shares, job, 15), 0.0);
}

/* --- the first jobs of users; test_queue.c has the order --- */

static void keep_first(double now)
{
    const struct job_record *all[QUEUE_CASE_MOST];
    size_t n = 0;
    while (n < QUEUE_CASE_MOST && jobs[n].id != 0) {
        all[n] = &jobs[n];
        n++;
    }
    queue_keep_first(all, n, decision, now, &shares);
}

Test(shares, the_first_job_of_a_user_keeps_its_place_whatever_the_users_other_jobs_use)
{
    use(2, 1, 0);
    of(3, running(2, GIB));
    of(1, queued(4, GIB));
    of(2, queued(1, GIB));
    decide(0);
    keep_first(0);
    use(1, 50, 10);
    decide(10);
    EXPECT(1, WAIT, WAITING_SLOTS, "needs 4");
    EXPECT(2, WAIT, WAITING_TURN, "reserved for job 2");
    of(1, queued(1, GIB)); /* the user's later jobs have the place that their use gives them */
    jobs[0].state = jobs[1].state = JOB_STATE_SUCCEEDED;
    of(2, running(3, GIB));
    decide(20);
    STARTS(2);
    EXPECT(3, WAIT, WAITING_SLOTS, "0 of 4");
}

Test(shares, a_job_that_no_longer_waits_leaves_its_place_to_none)
{
    use(2, 1, 0);
    of(3, running(3, GIB));
    of(1, queued(4, GIB));
    decide(0);
    keep_first(0);
    jobs[1].state = JOB_STATE_RUNNING;
    decide(10);
    keep_first(10);
    jobs[1].state = JOB_STATE_QUEUED; /* its attempt failed */
    use(1, 50, 20);
    of(2, queued(1, GIB));
    decide(20);
    STARTS(2);
}

Test(shares, a_first_job_that_cannot_be_started_now_keeps_its_place)
{
    use(2, 1, 0);
    of(3, running(2, GIB));
    of(1, queued(3, GIB));
    decide(0);
    keep_first(0);
    use(1, 50, 10);
    jobs[0].state = JOB_STATE_SUCCEEDED;
    of(2, queued(3, GIB));
    decide(10);
    STARTS(1);
    keep_first(10); /* it still waits: no process could be made */
    decide(20);
    STARTS(1);
    EXPECT(2, WAIT, WAITING_SLOTS, "1 of 4 slots are free, it needs 3");
    jobs[1].state = JOB_STATE_RUNNING;
    decide(30);
    keep_first(30);
    jobs[1].state = JOB_STATE_QUEUED; /* one that did start has no place to come back to */
    decide(40);
    STARTS(2);
}

/* --- it survives --- */

Test(shares, use_is_saved_with_the_change_that_adds_to_it)
{
    struct store *store;
    struct store_use one = {.uid = 1000, .used = 12.5, .at = 99.25},
                     other = {.uid = 4000000000u, .used = 1e-3, .at = 5};
    struct job_record record = {.uid = 1000, .state = JOB_STATE_QUEUED, .name = "a"};
    const struct store_submission submission = {.submission_id = "", .config = "", .folder = "/", .output = "/o"};
    int64_t existing;
    folder_make();
    expect_done(store_open(folder, &store));
    cr_assert_eq(store_insert(store, &record, &submission, 1, &existing), STATUS_OK);
    cr_assert_eq(store_update(store, &record, &one), STATUS_OK);
    cr_assert_eq(store_update(store, &record, &other), STATUS_OK);
    cr_assert_eq(store_update(store, &record, NULL), STATUS_OK);
    cr_assert_eq(store_fact_put(store, "use 7", "nan 3"), STATUS_OK);
    cr_assert_eq(store_fact_put(store, "use 8", "-1 3"), STATUS_OK);
    cr_assert_eq(store_fact_put(store, "use x", "1 3"), STATUS_OK);
    store_close(store);
    cr_assert_eq(store_open(folder, &store), STATUS_OK);
    struct shares found;
    const struct need machine = queue_whole(&whole);
    expect_done(shares_open(&found, HALF_LIFE, &machine, store));
    cr_assert_eq(found.n, 2);
    cr_assert_eq(shares_used(&found, 1000, 99.25), 12.5);
    cr_assert_eq(shares_used(&found, 4000000000u, 5), 1e-3);
    shares_release(&found);
    store_close(store);
    folder_remove();
}

static struct jobs *jobs_of_folder(void)
{
    const struct jobs_options options = {.whole = queue_whole(&whole), .half_life_s = HALF_LIFE};
    struct jobs *opened;
    expect_done(jobs_open(folder, &options, &opened));
    return opened;
}

static void change(struct jobs *all, enum job_state state, double attempt_at, double ran_s)
{
    struct job_record next = *jobs_get(all, 1);
    next.state = state;
    next.run.attempt_at = attempt_at;
    next.run.ran_s = ran_s;
    expect_done(jobs_change(all, &next));
}

static uint64_t clock_stands(void)
{
    return 0;
}

Test(shares, what_a_job_used_is_its_users_after_a_restart_and_after_the_job_is_resumed_or_removed)
{
    struct job_record record = {.uid = 1000};
    const struct store_submission submission = {
        .submission_id = "", .config = "[dataset]\ngenerator = \"karate\"\n", .folder = "/", .output = ""};
    int64_t existing;
    folder_make();
    struct jobs *all = jobs_of_folder();
    expect_done(jobs_submit(all, &record, &submission, 1, &existing));
    change(all, JOB_STATE_PREPARING, job_clock_s() - 100, 0);
    cr_assert_eq(jobs_shares(all)->n, 0);
    change(all, JOB_STATE_CANCELLED, 0, 100);
    jobs_close(all);
    all = jobs_of_folder();
    double used = shares_used(jobs_shares(all), 1000, job_clock_s());
    cr_assert(used > 20 && used < 25, "%g", used); /* 1 of 4 slots for 100 s */
    change(all, JOB_STATE_QUEUED, 0, 0);
    change(all, JOB_STATE_CANCELLED, 0, 0);
    const struct slice slice = slice_begin(clock_stands);
    jobs_retain(all, &(struct retention){.days = 1e-12}, &slice);
    cr_assert_null(jobs_get(all, 1));
    jobs_close(all);
    all = jobs_of_folder();
    double later = shares_used(jobs_shares(all), 1000, job_clock_s());
    cr_assert(later > 20 && later <= used, "%g after %g", later, used);
    jobs_close(all);
    folder_remove();
}

/* --- no job waits for ever --- */

/* Users with streams of jobs that never end: at each event the queue is asked, jobs run for a random time, and each
 * that ends is followed by another of its user. */
enum { N_USER = 4, N_OF_USER = 4, N_MOST = N_USER * N_OF_USER };
static uint64_t seed, n_drawn;
static struct quota limits;
static double ends_at[N_MOST], waits_since[N_MOST];
static int64_t n_submitted;

static uint32_t draw(uint32_t below)
{
    const struct random_key key = {.seed = seed};
    return random_u32(&key, n_drawn++, 0) % below;
}

static void submit(size_t at, double now)
{
    bool on_gpus = draw(3) == 0;
    jobs[at] = (struct job_record){.id = ++n_submitted,
                                   .uid = 1 + (uid_t)(at % N_USER),
                                   .state = JOB_STATE_QUEUED,
                                   .n_slot = 1 + (int32_t)draw(on_gpus ? 1 : 3),
                                   .n_gpu = on_gpus ? 1 + (int32_t)draw(2) : 0,
                                   .memory = (1 + draw(4)) * GIB};
    waits_since[at] = now;
}

/* The sum of what runs, of one user (0: of all). */
static struct need sum_of(uid_t uid)
{
    const struct need machine = queue_whole(&whole);
    struct need sum = {0};
    for (size_t i = 0; i < N_MOST; i++) {
        if (jobs[i].state == JOB_STATE_RUNNING && (uid == 0 || jobs[i].uid == uid)) {
            const struct need need = need_of_job(&machine, &jobs[i]);
            need_add(&sum, &need);
        }
    }
    return sum;
}

static void expect_within_limits(void)
{
    const struct need machine = queue_whole(&whole), all = sum_of(0);
    cr_assert(need_fits(&all, &machine), "seed %d: the machine has less", (int)seed);
    for (uid_t uid = 1; uid <= N_USER; uid++) {
        const struct need most = quota_find(&limits, uid), has = sum_of(uid);
        cr_assert(need_fits(&has, &most), "seed %d: user %u has %d slots, %d GPUs, %d jobs", (int)seed, (unsigned)uid,
                  (int)has.n_slot, (int)has.n_gpu, (int)has.n_job);
    }
}

static void start(size_t at, double now)
{
    jobs[at].state = JOB_STATE_RUNNING;
    jobs[at].run.attempt_at = now;
    for (int gpu = 0, n = 0; gpu < 3 && n < jobs[at].n_gpu; gpu++) {
        uint64_t held = 0, bit = UINT64_C(1) << gpu;
        for (size_t i = 0; i < N_MOST; i++) {
            held |= jobs[i].gpus;
        }
        if ((whole.gpus & bit & ~held) != 0) {
            jobs[at].gpus |= bit;
            n++;
        }
    }
    ends_at[at] = now + 1 + draw(20);
}

/* What ended next; its time. */
static double end_next(void)
{
    size_t next = N_MOST;
    for (size_t i = 0; i < N_MOST; i++) {
        next = jobs[i].state == JOB_STATE_RUNNING && (next == N_MOST || ends_at[i] < ends_at[next]) ? i : next;
    }
    cr_assert_lt(next, N_MOST, "seed %d: jobs wait, and none runs", (int)seed);
    struct job_record after = jobs[next];
    struct store_use saved;
    double now = ends_at[next];
    after.run.attempt_at = 0;
    after.run.ran_s = now - jobs[next].run.attempt_at;
    if (shares_after(&shares, &jobs[next], &after, now, &saved)) {
        shares_set(&shares, &saved);
    }
    submit(next, now);
    return now;
}

/* The longest wait of a job in so many ends of jobs. */
static double run_streams(int n_end)
{
    double now = 1, longest = 0;
    for (size_t i = 0; i < N_MOST; i++) {
        submit(i, now);
    }
    for (int k = 0; k < n_end; k++) {
        decide(now);
        for (size_t i = 0; i < N_MOST; i++) {
            if (decision[i].verdict == QUEUE_VERDICT_START) {
                longest = fmax(longest, now - waits_since[i]);
                start(i, now);
            }
        }
        keep_first(now);
        expect_within_limits();
        now = end_next();
    }
    for (size_t i = 0; i < N_MOST; i++) {
        longest = jobs[i].state == JOB_STATE_QUEUED ? fmax(longest, now - waits_since[i]) : longest;
    }
    return longest;
}

Test(shares, no_random_schedule_breaks_a_quota_or_keeps_a_job_waiting_for_ever)
{
    for (seed = 1; seed <= 30; seed++) {
        begin();
        n_drawn = 0;
        limits = (struct quota){.n_running = draw(2) == 0 ? 0 : 1 + draw(3),
                                .n_slot = draw(2) == 0 ? 0 : 3 + draw(2),
                                .n_gpu = draw(2) == 0 ? 0 : 2,
                                .memory = draw(2) == 0 ? 0 : (4 + draw(4)) * GIB,
                                .exempt = {N_USER},
                                .n_exempt = draw(2)};
        whole.quota = &limits;
        double longest = run_streams(1500);
        /* Of some 2000 s: 247 at most with these seeds, and 485 where nothing is reserved for jobs that wait. */
        cr_assert_lt(longest, 300, "seed %d: a job waited for %g s", (int)seed, longest);
        end();
    }
}

/* User 1 trains on slots all the time, and has a job that needs both GPUs; user 2 uses one GPU after the other, and
 * less of the machine than user 1. */
Test(shares, a_job_starts_although_its_users_other_jobs_use_more_than_those_that_go_before_it)
{
    double now = 1;
    begin();
    use(1, 100, now);
    of(1, running(3, GIB))->run.attempt_at = now;
    of(2, running(0, GIB / 8))->run.attempt_at = now;
    jobs[1].gpus = 0x1;
    jobs[1].n_gpu = 1;
    of(1, queued(1, GIB))->n_gpu = 2;
    shares.whole.n_gpu = 8; /* so that one GPU is less than three slots */
    for (int k = 0; k < 2000 && jobs[2].state == JOB_STATE_QUEUED; k++) {
        struct job_record *small = &jobs[3 + k % 2];
        bool first = k % 2 == 0;
        *small = (struct job_record){
            .id = 100 + k, .uid = 2, .state = JOB_STATE_QUEUED, .memory = GIB / 8, .n_gpu = 1};
        decide(now);
        jobs[2].state = decision[2].verdict == QUEUE_VERDICT_START ? JOB_STATE_RUNNING : JOB_STATE_QUEUED;
        if (decision[3 + k % 2].verdict == QUEUE_VERDICT_START) {
            small->state = JOB_STATE_RUNNING;
            small->run.attempt_at = now;
            small->gpus = first ? 0x4 : 0x1;
        }
        keep_first(now);
        now += 10;
        struct job_record *older = k == 0 ? &jobs[1] : &jobs[3 + (k + 1) % 2], after = *older; /* ends */
        struct store_use saved;
        after.run.attempt_at = 0;
        after.run.ran_s = older->run.attempt_at > 0 ? now - older->run.attempt_at : 0;
        if (older->state == JOB_STATE_RUNNING && shares_after(&shares, older, &after, now, &saved)) {
            shares_set(&shares, &saved);
        }
        older->state = JOB_STATE_SUCCEEDED;
        older->gpus = 0;
        older->run.attempt_at = 0;
    }
    cr_assert_eq(jobs[2].state, JOB_STATE_RUNNING, "it still waits after %g s: %s", now, decision[2].text);
}
