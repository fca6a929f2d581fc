#include "tests/unit/trainerd/daemon/jobs/queue_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* One decision each. Jobs are R running, Q queued, E ended, with slots and GiB (?: not known), and g GPUs needed, h
 * GPUs held (a set), u user, p priority, n GiB that planning needs, t when it began. Decisions are S start, P plan,
 * - not looked at, else the reason to wait, or never to start, and words of its text. */
static const struct {
    const char *jobs, *decisions;
    struct quota quota;
    struct queue_capacity machine; /* n_slot 0: the usual one */
    struct store_use use[2];       /* of users, with a half-life of 1000 s */
    double now;
} rows[] = {
    /* Jobs that fit beside each other start together; the earlier one goes first, but for priority. */
    {.jobs = "R1,1 Q1,1 Q2,1", .decisions = "-|S|S"},
    {.jobs = "Q3,1 Q3,1", .decisions = "S|WAITING_SLOTS 1 of 4 slots are free, it needs 3"},
    {.jobs = "Q3,1 Q3,1p1", .decisions = "WAITING_SLOTS needs 3|S"},
    /* What is free is kept for a job that waits for more; another one passes it where it cannot delay it. */
    {.jobs = "R2,1 Q3,1 Q1,1",
     .decisions = "-|WAITING_SLOTS 2 of 4 slots are free, it needs 3|WAITING_TURN reserved for job 2"},
    {.jobs = "R1,1h5 Q1,1g1 Q1,1 Q2,1",
     .decisions = "-|WAITING_GPUS 0 of 2 GPUs are free, it needs 1|S|WAITING_TURN reserved for job 2"},
    {.jobs = "R1,6 Q1,3",
     .decisions = "-|WAITING_MEMORY 2048.0 of 8192.0 MiB of memory are free, it needs 3072.0 MiB"},
    {.jobs = "Q1,9 Q1,1", .decisions = "NEVER OUT_OF_MEMORY needs 9216.0 MiB of memory|S"},
    {.jobs = "Q3,1g3 Q1,1g1", .decisions = "S|WAITING_GPUS 0 of 2 GPUs are free, it needs 1"}, /* all GPUs, in turn */
    {.jobs = "E4,8 E4,8 Q4,8", .decisions = "-|-|S"},
    /* Jobs of Slurm need nothing of this machine; drained, no job starts and none is planned. */
    {.jobs = "R4,8 Q64,64g9 Q1,? Q1,1",
     .decisions = "-|S|P|S",
     .machine = {.n_slot = 4, .memory = 8 * GIB, .is_elsewhere = true}},
    {.jobs = "R4,8 Q64,64g9 Q1,? Q1,1",
     .decisions = "-|DRAINING (trainctl undrain)|DRAINING (trainctl undrain)|DRAINING (trainctl undrain)",
     .machine = {.n_slot = 4, .memory = 8 * GIB, .is_elsewhere = true, .drains = true}},
    {.jobs = "R1,1 Q1,1 Q1,?",
     .decisions = "-|DRAINING (trainctl undrain)|DRAINING (trainctl undrain)",
     .machine = {.n_slot = 4, .gpus = 0x5, .memory = 8 * GIB, .drains = true}},
    /* Jobs on GPUs wait, and hold nothing, where the daemon has no GPUs any more. */
    {.jobs = "Q3,7g3 Q4,8 Q1,?g1",
     .decisions = "WAITING_GPUS it needs a GPU (workers.device), the daemon has no GPUs (daemon.gpus)|S|WAITING_GPUS "
                  "it needs a GPU",
     .machine = {.n_slot = 4, .memory = 8 * GIB}},
    /* Planning: one at a time of a user, in its turn, within the memory that there is. */
    {.jobs = "Q1,? Q1,? Q1,1", .decisions = "P|WAITING_TURN |WAITING_TURN reserved for job 1"},
    {.jobs = "R1,4u1 Q1,?u2n7 Q1,1.5u3",
     .decisions = "-|WAITING_MEMORY planning it may take 7168.0 MiB|WAITING_TURN reserved for job 2"},
    {.jobs = "Q1,?n9 Q1,1",
     .decisions = "NEVER OUT_OF_MEMORY planning it takes 9216.0 MiB of memory, cutting its graph included, the "
                  "daemon has 8192.0|S"},
    /* Quotas hold back their own user's jobs. */
    {.jobs = "R2,1u1 Q1,1u1 Q2,1u2",
     .decisions = "-|WAITING_QUOTA its user has 2 of 2 slots, it needs 1 (daemon.max_slots_per_user)|S",
     .quota = {.n_slot = 2}},
    {.jobs = "R1,1u1 Q1,1u1 Q1,1u1 Q1,1u2",
     .decisions = "-|S|WAITING_QUOTA its user has 2 of 2 jobs that run, it needs 1 (daemon.max_running_per_user)|S",
     .quota = {.n_running = 2}},
    {.jobs = "R1,2u1 Q1,2u1 Q1,2u2",
     .decisions = "-|WAITING_QUOTA its user has 2048.0 of 3072.0 MiB of memory, it needs 2048.0 "
                  "(daemon.max_memory_per_user)|S",
     .quota = {.memory = 3 * GIB}},
    {.jobs = "R1,1g1h1u1 Q1,1g1u1 Q1,1u1 Q1,1g1u2",
     .decisions = "-|WAITING_QUOTA its user has 1 of 1 GPUs, it needs 1 (daemon.max_gpus_per_user)|S|S",
     .quota = {.n_gpu = 1}},
    /* Over its quota, a job has a reservation in the quota only; waiting for the machine, it keeps its place. */
    {.jobs = "R2,1u1 Q2,1u1 Q1,1u1 Q1,1u2",
     .decisions = "-|WAITING_QUOTA its user has 2 of 3 slots, it needs 2|WAITING_QUOTA what else its user may have "
                  "is reserved for job 2, which is before it|S",
     .quota = {.n_slot = 3}},
    {.jobs = "R2,1u2 Q3,1u1 Q1,1u1",
     .decisions = "-|WAITING_SLOTS 2 of 4 slots are free, it needs 3|WAITING_QUOTA reserved for job 2",
     .quota = {.n_slot = 3}},
    {.jobs = "R2,1u1 Q1,1u1",
     .decisions = "-|WAITING_QUOTA its user has 2 of 1 slots, it needs 1",
     .quota = {.n_slot = 1}}, /* it has shrunk */
    {.jobs = "Q3,1u1 Q1,3u1 Q1,?u1n3 Q1,1u1",
     .decisions = "NEVER QUOTA it needs 3 slots, one user's jobs may have 2 (daemon.max_slots_per_user)|NEVER QUOTA "
                  "it needs 3072.0 MiB of memory, one user's jobs may have 2048.0 (daemon.max_memory_per_user)|NEVER "
                  "QUOTA it needs 3072.0 MiB of memory|S",
     .quota = {.n_slot = 2, .memory = 2 * GIB}},
    {.jobs = "Q9,1u1", .decisions = "S", .quota = {.n_slot = 4}}, /* it takes all 4 */
    /* A job that its quota holds back is planned, and reserves no memory; exempt users have no quota; of Slurm's jobs
     * only the number counts. */
    {.jobs = "R1,1u1 Q1,?u1 Q1,6u2", .decisions = "-|P|S", .quota = {.n_running = 1}},
    {.jobs = "Q1,1u8 Q1,1u8",
     .decisions = "S|S",
     .quota = {.n_running = 1, .n_queued = 1, .exempt = {7, 8}, .n_exempt = 2}},
    {.jobs = "R1,1u1 Q64,64g9u1 Q1,1u1",
     .decisions = "-|S|WAITING_QUOTA its user has 2 of 2 jobs that run",
     .quota = {.n_running = 2, .n_slot = 1, .memory = GIB, .n_gpu = 1},
     .machine = {.n_slot = 4, .gpus = 0x5, .memory = 8 * GIB, .is_elsewhere = true}},
    /* Among equal priority, who used less goes first; what runs counts at once, and old use less than new. */
    {.jobs = "Q3,1u1 Q3,1u2", .decisions = "WAITING_SLOTS needs 3|S", .use = {{1, 10, 0}, {2, 9, 0}}},
    {.jobs = "Q3,1u1p1 Q3,1u2", .decisions = "S|WAITING_SLOTS needs 3", .use = {{1, 10, 0}, {2, 9, 0}}},
    {.jobs = "R1,1u1t1 Q3,1u1 Q3,1u2", .decisions = "-|WAITING_SLOTS needs 3|S", .now = 100},
    {.jobs = "Q3,1u2 Q3,1u1", .decisions = "-|S", .use = {{1, 100, 0}, {2, 30, 2000}}, .now = 2000}, /* 25 and 30 */
    {.jobs = "Q3,1u2 Q3,1u1", .decisions = "S|-", .use = {{1, 7, 0}, {2, 7, 0}}, .now = 50},         /* by number */
    /* A user's own jobs go by priority, then number; a big job's reservation holds for users who used more. */
    {.jobs = "Q1,1u1p-1 Q3,1u1 Q3,1u1 Q4,1u2",
     .decisions = "WAITING_TURN reserved for job 3|S|WAITING_SLOTS needs 3|WAITING_SLOTS needs 4",
     .use = {{2, 100, 0}}},
    {.jobs = "R2,1u3 Q1,1u2 Q4,1u1",
     .decisions = "-|WAITING_TURN reserved for job 3|WAITING_SLOTS 2 of 4 slots are free, it needs 4",
     .use = {{2, 1, 0}}},
};

/* The next job of a row. */
static const char *job_read(const char *at, struct job_record *out)
{
    static const enum job_state states[] = {
        ['R'] = JOB_STATE_RUNNING, ['Q'] = JOB_STATE_QUEUED, ['E'] = JOB_STATE_SUCCEEDED};
    char *end;
    out->state = states[(unsigned char)*at];
    out->n_slot = (int32_t)strtol(at + 1, &end, 10);
    if (end[1] == '?') {
        out->memory = -1;
        end += 2;
    } else {
        out->memory = (int64_t)(strtod(end + 1, &end) * GIB);
    }
    while (*end != ' ' && *end != '\0') {
        char what = *end;
        long value = strtol(end + 1, &end, 10);
        out->n_gpu = what == 'g' ? (int32_t)value : out->n_gpu;
        out->gpus = what == 'h' ? (uint64_t)value : out->gpus;
        out->uid = what == 'u' ? (uid_t)value : out->uid;
        out->priority = what == 'p' ? (int32_t)value : out->priority;
        out->run.attempt_at = what == 't' ? (double)value : out->run.attempt_at;
        out->queued.planning_need = what == 'n' ? value * GIB : out->queued.planning_need;
    }
    return end + (*end == ' ');
}

/* What is expected of a job, up to the next '|'. */
static const char *decision_expect(size_t row, size_t job, const char *at)
{
    const struct queue_decision *got = &decision[job];
    char expected[256], *words = expected;
    size_t n = strcspn(at, "|");
    snprintf(expected, sizeof expected, "%.*s", (int)n, at);
    bool never = strncmp(words, "NEVER ", 6) == 0;
    words += never ? 6 : 0;
    const char *reason = strcmp(words, "S") == 0 ? "NONE" : strcmp(words, "P") == 0 ? "PLANNING" : words;
    enum queue_verdict verdict = never              ? QUEUE_VERDICT_NEVER
                                 : words[1] == '\0' ? (*words == 'S' ? QUEUE_VERDICT_START : QUEUE_VERDICT_PLAN)
                                                    : QUEUE_VERDICT_WAIT;
    if (strcmp(expected, "-") != 0) {
        size_t n_reason = strcspn(reason, " ");
        const char *name = job_reason_name(got->reason);
        cr_assert(got->verdict == verdict && strlen(name) == n_reason && strncmp(name, reason, n_reason) == 0,
                  "row %zu, job %zu: verdict %d, %s: %s, expected %s", row, job + 1, (int)got->verdict, name,
                  got->text, expected);
        if (reason == words) {
            cr_assert_not_null(strstr(got->text, words + n_reason + 1), "row %zu, job %zu: %s, expected %s", row,
                               job + 1, got->text, expected);
        }
    }
    return at + n + (at[n] == '|');
}

Test(queue, each_of_these_jobs_starts_is_planned_or_waits_for_what_it_says)
{
    const struct queue_capacity usual = whole;
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        size_t n = 0;
        memset(jobs, 0, sizeof jobs);
        for (const char *at = rows[row].jobs; *at != '\0'; n++) {
            at = job_read(at, &jobs[n]);
            jobs[n].id = (int64_t)n + 1;
        }
        whole = rows[row].machine.n_slot > 0 ? rows[row].machine : usual;
        whole.quota = &rows[row].quota;
        struct shares shares = {.half_life_s = 1000, .whole = queue_whole(&whole)};
        for (int i = 0; i < 2 && rows[row].use[i].uid != 0; i++) {
            shares_set(&shares, &rows[row].use[i]);
        }
        whole.shares = rows[row].use[0].uid != 0 || rows[row].now > 0 ? &shares : NULL;
        decide(rows[row].now);
        shares_release(&shares);
        const char *at = rows[row].decisions;
        for (size_t job = 0; job < n; job++) {
            at = decision_expect(row, job, at);
        }
    }
}

Test(queue, the_gpus_that_a_job_holds_count_as_long_as_the_daemon_has_them)
{
    running(1, GIB)->gpus = 0xe; /* 1, 2 and 3, of which the daemon has 2 */
    running(1, GIB)->gpus = 0x4; /* and so does another, which an older daemon began */
    queued(1, GIB)->n_gpu = 2;
    queued(1, GIB)->n_gpu = 1;
    decide(0);
    EXPECT(2, WAIT, WAITING_GPUS, "1 of 2 GPUs are free, it needs 2");
    EXPECT(3, WAIT, WAITING_TURN, "reserved for job 3");
    jobs[0].state = jobs[1].state = JOB_STATE_SUCCEEDED;
    decide(0);
    STARTS(2);
}

Test(queue, a_job_that_wants_more_slots_than_there_are_runs_alone)
{
    struct job_record *before = running(1, GIB);
    queued(9, GIB);
    queued(1, GIB);
    decide(0);
    EXPECT(1, WAIT, WAITING_SLOTS, "3 of 4 slots are free, it needs 4");
    EXPECT(2, WAIT, WAITING_TURN, "reserved for job 2");
    before->state = JOB_STATE_SUCCEEDED;
    decide(0);
    STARTS(1);
    EXPECT(2, WAIT, WAITING_SLOTS, "0 of 4 slots are free");
    jobs[1].state = JOB_STATE_RUNNING;
    decide(0);
    EXPECT(2, WAIT, WAITING_SLOTS, "0 of 4 slots are free");
}

Test(queue, each_job_that_waits_further_has_its_place_in_the_order_of_the_queue)
{
    running(2, GIB);
    queued(3, GIB);
    queued(1, GIB)->priority = 1; /* starts: it has no place of those that wait */
    queued(1, -1);
    queued(1, GIB)->priority = -1;
    queued(1, 100 * GIB); /* can never start */
    queued(4, GIB);
    decide(0);
    STARTS(2);
    static const size_t order[] = {1, 3, 6, 4};
    for (size_t i = 0; i < 4; i++) {
        cr_expect_eq(decision[order[i]].place, (int64_t)i + 1, "job %zu has place %lld", order[i],
                     (long long)decision[order[i]].place);
    }
    whole.drains = true;
    decide(0);
    cr_expect_eq(decision[2].place, 1);
    whole.drains = false;
}

Test(queue, a_job_that_is_planned_holds_up_no_other_users_jobs)
{
    queued(1, -1)->uid = 1;
    queued(1, -1)->uid = 1;
    queued(1, -1)->uid = 2;
    queued(1, 4 * GIB)->uid = 2;
    queued(1, GIB)->uid = 1;
    decide(0);
    EXPECT(0, PLAN, PLANNING, "");
    EXPECT(1, WAIT, WAITING_TURN, "");
    EXPECT(2, PLAN, PLANNING, "");
    jobs[2].memory = 4 * GIB; /* half of all: what user 1 has not reserved */
    decide(0);
    EXPECT(0, PLAN, PLANNING, "");
    STARTS(2);
    EXPECT(3, WAIT, WAITING_MEMORY, "3584.0 of 8192.0 MiB of memory are free"); /* 512 are for planning job 1 */
}

Test(queue, planning_takes_an_eighth_of_its_users_share_until_more_is_known)
{
    queued(1, -1)->uid = 1;
    queued(1, -1)->uid = 2;
    decide(0);
    EXPECT(0, PLAN, PLANNING, "");
    cr_assert_eq(decision[0].planning, GIB / 2);
    jobs[0].queued.planning_need = 3 * GIB;
    decide(0);
    EXPECT(0, PLAN, PLANNING, "");
    cr_assert_eq(decision[0].planning, 3 * GIB);
}

Test(queue, planning_waits_until_the_memory_that_it_may_take_is_free)
{
    running(1, 8 * GIB - 1);
    queued(1, -1);
    decide(0);
    EXPECT(1, WAIT, WAITING_MEMORY, "0.0 of 8192.0 MiB of memory are free, planning it may take 1024.0 MiB");
    jobs[0].memory = 6 * GIB;
    decide(0);
    EXPECT(1, PLAN, PLANNING, "");
    jobs[1].queued.planning_need = 3 * GIB;
    decide(0);
    EXPECT(1, WAIT, WAITING_MEMORY, "planning it may take 3072.0 MiB");
}

Test(queue, planning_that_runs_takes_memory_from_jobs_and_from_other_planning)
{
    queued(1, -1)->uid = 1;
    jobs[0].queued.planning = jobs[0].queued.planning_need = 6 * GIB;
    queued(1, 3 * GIB)->uid = 2;
    queued(1, -1)->uid = 3;
    jobs[2].queued.planning_need = 3 * GIB;
    decide(0);
    EXPECT(0, PLAN, PLANNING, "");
    EXPECT(1, WAIT, WAITING_MEMORY, "2048.0 of 8192.0 MiB of memory are free");
    EXPECT(2, WAIT, WAITING_MEMORY, "planning it may take 3072.0 MiB");
    jobs[0].state = JOB_STATE_CANCELLED; /* its process has not ended yet */
    decide(0);
    EXPECT(1, WAIT, WAITING_MEMORY, "2048.0 of 8192.0 MiB of memory are free");
}

Test(queue, so_many_users_jobs_are_planned_at_a_time)
{
    for (uid_t uid = 1; uid <= QUEUE_PLANNING_MOST + 1; uid++) {
        queued(0, -1)->uid = uid;
    }
    decide(0);
    for (int i = 0; i < QUEUE_PLANNING_MOST; i++) {
        EXPECT(i, PLAN, PLANNING, "");
    }
    EXPECT(QUEUE_PLANNING_MOST, WAIT, WAITING_TURN, "");
}

Test(queue, jobs_far_from_their_turn_are_not_planned_yet)
{
    running(4, GIB);
    queued(1, GIB);
    queued(1, -1);
    decide(0);
    EXPECT(2, PLAN, PLANNING, "");
    jobs[2].memory = GIB;
    queued(1, -1);
    decide(0);
    EXPECT(3, WAIT, WAITING_TURN, "");
}

Test(queue, a_job_that_backs_off_holds_nothing_until_its_time)
{
    struct job_record *job = queued(4, GIB);
    job->run.next_attempt_at = 100;
    job->reason = JOB_REASON_BACKING_OFF;
    strcpy(job->reason_text, "worker 1 was lost");
    queued(4, GIB);
    decide(99);
    EXPECT(0, WAIT, BACKING_OFF, "worker 1 was lost");
    STARTS(1);
    decide(100);
    STARTS(0);
    EXPECT(1, WAIT, WAITING_SLOTS, "0 of 4 slots");
}

/* CPU seconds of a decision about ten thousand jobs that wait, of so many users. */
static double decide_many(unsigned n_user, enum queue_verdict *seventh_out)
{
    enum { N = 10000 };
    struct job_record *many = calloc(N, sizeof *many);
    const struct job_record **all = calloc(N, sizeof *all);
    struct queue_decision *decisions = calloc(N, sizeof *decisions);
    struct shares shares = {.half_life_s = 86400, .whole = queue_whole(&whole)};
    const struct quota quota = {.n_running = 100, .n_slot = 100, .memory = GIB, .exempt = {7}, .n_exempt = 1};
    whole.shares = &shares;
    whole.quota = &quota;
    for (int i = 0; i < N; i++) {
        many[i] = (struct job_record){.id = i + 1,
                                      .state = JOB_STATE_QUEUED,
                                      .uid = (uid_t)(unsigned)i % n_user,
                                      .n_slot = 1,
                                      .memory = -1,
                                      .priority = i % 7};
        all[i] = &many[i];
        shares_set(&shares, &(struct store_use){.uid = many[i].uid, .used = (double)(i * 37 % 1000)});
    }
    struct timespec before, after;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    queue_decide(all, N, &whole, 0, decisions);
    queue_keep_first(all, N, decisions, 0, &shares);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    *seventh_out = decisions[6].verdict;
    shares_release(&shares);
    free(decisions);
    free(all);
    free(many);
    return (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
}

/* Looking at all users for each job took 13 times as long. */
Test(queue, ten_thousand_waiting_jobs_are_decided_in_milliseconds_and_of_as_many_users_in_little_longer)
{
    enum queue_verdict seventh;
    double one = 1e9, many = 1e9;
    for (int i = 0; i < 3; i++) {
        one = fmin(one, decide_many(1, &seventh));
        cr_assert_eq(seventh, QUEUE_VERDICT_PLAN);
        many = fmin(many, decide_many(10000, &seventh));
    }
    cr_assert_lt(one, 0.5, "%g s", one);
    cr_assert_lt(many, 6 * one, "%g s for one user's jobs, %g s for one of each of 10000 users", one, many);
}
