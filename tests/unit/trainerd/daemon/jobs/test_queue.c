#include "tests/unit/trainerd/daemon/jobs/queue_case.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

Test(queue, jobs_that_fit_beside_each_other_start_together)
{
    running(1, GIB);
    queued(1, GIB);
    queued(2, GIB);
    decide(0);
    STARTS(1);
    STARTS(2);
}

Test(queue, the_earlier_job_goes_first)
{
    queued(3, GIB);
    queued(3, GIB);
    decide(0);
    STARTS(0);
    EXPECT(1, WAIT, WAITING_SLOTS, "1 of 4 slots are free, it needs 3");
}

Test(queue, the_higher_priority_goes_before_the_earlier_job)
{
    queued(3, GIB);
    queued(3, GIB)->priority = 1;
    decide(0);
    EXPECT(0, WAIT, WAITING_SLOTS, "needs 3");
    STARTS(1);
}

Test(queue, what_is_free_is_kept_for_a_job_that_waits_for_more)
{
    running(2, GIB);
    queued(3, GIB);
    queued(1, GIB);
    decide(0);
    EXPECT(1, WAIT, WAITING_SLOTS, "2 of 4 slots are free, it needs 3");
    EXPECT(2, WAIT, WAITING_TURN, "reserved for job 2");
}

Test(queue, a_job_passes_one_that_waits_when_it_cannot_delay_it)
{
    running(1, GIB)->gpus = 0x5;
    queued(1, GIB)->n_gpu = 1;
    queued(1, GIB);
    queued(2, GIB);
    decide(0);
    EXPECT(1, WAIT, WAITING_GPUS, "0 of 2 GPUs are free, it needs 1");
    STARTS(2);
    EXPECT(3, WAIT, WAITING_TURN, "reserved for job 2");
}

Test(queue, memory_is_waited_for_with_both_numbers)
{
    running(1, 6 * GIB);
    queued(1, 3 * GIB);
    decide(0);
    EXPECT(1, WAIT, WAITING_MEMORY, "2048.0 of 8192.0 MiB of memory are free, it needs 3072.0 MiB");
}

Test(queue, what_is_more_than_the_machine_has_never_starts)
{
    queued(1, 9 * GIB);
    queued(1, GIB);
    decide(0);
    EXPECT(0, NEVER, OUT_OF_MEMORY, "needs 9216.0 MiB of memory");
    STARTS(1);
}

Test(queue, a_job_with_more_workers_than_there_are_gpus_takes_them_all)
{
    queued(3, GIB)->n_gpu = 3;
    queued(1, GIB)->n_gpu = 1;
    decide(0);
    STARTS(0);
    EXPECT(1, WAIT, WAITING_GPUS, "0 of 2 GPUs are free, it needs 1");
}

Test(queue, jobs_that_run_in_slurm_are_planned_and_start_whatever_this_machine_has)
{
    whole.is_elsewhere = true;
    whole.gpus = 0;
    running(4, 8 * GIB);
    queued(64, 64 * GIB)->n_gpu = 9;
    queued(1, -1);
    queued(1, GIB);
    decide(0);
    STARTS(1);
    EXPECT(2, PLAN, PLANNING, "");
    STARTS(3);
    whole.drains = true;
    decide(0);
    for (size_t i = 1; i < 4; i++) {
        EXPECT(i, WAIT, DRAINING, "(trainctl undrain)");
    }
}

Test(queue, jobs_on_gpus_wait_and_hold_nothing_where_there_are_none_any_more)
{
    whole.gpus = 0;
    queued(3, 7 * GIB)->n_gpu = 3;
    queued(4, 8 * GIB);
    queued(1, -1)->n_gpu = 1;
    decide(0);
    EXPECT(0, WAIT, WAITING_GPUS, "it needs a GPU (workers.device), the daemon has no GPUs (daemon.gpus)");
    STARTS(1);
    EXPECT(2, WAIT, WAITING_GPUS, "it needs a GPU");
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

Test(queue, one_job_at_a_time_is_planned_and_those_behind_it_wait_for_their_turn)
{
    queued(1, -1);
    queued(1, -1);
    queued(1, GIB);
    decide(0);
    EXPECT(0, PLAN, PLANNING, "");
    EXPECT(1, WAIT, WAITING_TURN, "");
    EXPECT(2, WAIT, WAITING_TURN, "reserved for job 1");
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

Test(queue, no_job_behind_planning_that_waits_for_much_starts_in_what_it_waits_for)
{
    running(1, 4 * GIB);
    jobs[0].uid = 1;
    queued(1, -1)->uid = 2;
    jobs[1].queued.planning_need = 7 * GIB;
    queued(1, GIB + GIB / 2)->uid = 3;
    decide(0);
    EXPECT(1, WAIT, WAITING_MEMORY, "planning it may take 7168.0 MiB");
    EXPECT(2, WAIT, WAITING_TURN, "reserved for job 2");
}

Test(queue, planning_that_takes_more_than_there_is_never_begins)
{
    queued(1, -1);
    jobs[0].queued.planning_need = 9 * GIB;
    queued(1, GIB);
    decide(0);
    EXPECT(0, NEVER, OUT_OF_MEMORY,
           "planning it takes 9216.0 MiB of memory, cutting its graph included, the daemon has 8192.0");
    STARTS(1);
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

Test(queue, nothing_starts_and_nothing_is_planned_while_the_daemon_drains)
{
    running(1, GIB);
    queued(1, GIB);
    queued(1, -1);
    struct queue_capacity before = whole;
    whole.drains = true;
    decide(0);
    whole = before;
    EXPECT(1, WAIT, DRAINING, "(trainctl undrain)");
    EXPECT(2, WAIT, DRAINING, "(trainctl undrain)");
}

Test(queue, jobs_that_ended_take_nothing)
{
    running(4, 8 * GIB)->state = JOB_STATE_SUCCEEDED;
    running(4, 8 * GIB)->state = JOB_STATE_FAILED;
    queued(4, 8 * GIB);
    decide(0);
    STARTS(2);
}

Test(queue, no_job_starves_whatever_comes_after_it)
{
    running(1, GIB);
    queued(4, GIB);
    for (int i = 0; i < 6; i++) {
        queued(1, GIB);
    }
    decide(0);
    for (int i = 1; i < 8; i++) {
        cr_assert_eq(decision[i].verdict, QUEUE_VERDICT_WAIT, "job %d started before job 2", i + 1);
    }
    jobs[0].state = JOB_STATE_SUCCEEDED;
    decide(0);
    STARTS(1);
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

Test(queue, ten_thousand_waiting_jobs_are_decided_in_milliseconds)
{
    enum queue_verdict seventh;
    double spent = decide_many(1, &seventh);
    cr_assert_lt(spent, 0.5, "%g s", spent);
    cr_assert_eq(seventh, QUEUE_VERDICT_PLAN);
}

/* Looking at all users for each job took 13 times as long. */
Test(queue, jobs_of_as_many_users_take_little_longer)
{
    enum queue_verdict seventh;
    double one = 1e9, many = 1e9;
    for (int i = 0; i < 3; i++) {
        one = fmin(one, decide_many(1, &seventh));
        many = fmin(many, decide_many(10000, &seventh));
    }
    cr_assert_lt(many, 6 * one, "%g s for one user's jobs, %g s for one of each of 10000 users", one, many);
}
