/* What one user's jobs may have: the queue's decisions, and what is refused at once. */
#include "tests/support/process/expect.h"
#include "tests/unit/trainerd/daemon/jobs/queue_case.h"

static struct quota quota;

static void begin(void)
{
    whole.quota = &quota;
}

TestSuite(quota, .init = begin);

static struct job_record *of(uid_t uid, struct job_record *job)
{
    job->uid = uid;
    return job;
}

/* --- jobs that wait --- */

Test(quota, a_quota_of_slots_holds_back_its_own_users_job_and_no_other_users)
{
    quota.n_slot = 2;
    of(1, running(2, GIB));
    of(1, queued(1, GIB));
    of(2, queued(2, GIB));
    decide(0);
    EXPECT(1, WAIT, WAITING_QUOTA, "its user has 2 of 2 slots, it needs 1 (daemon.max_slots_per_user)");
    STARTS(2);
}

Test(quota, a_quota_of_running_jobs_holds_back_the_next)
{
    quota.n_running = 2;
    of(1, running(1, GIB));
    of(1, queued(1, GIB));
    of(1, queued(1, GIB));
    of(2, queued(1, GIB));
    decide(0);
    STARTS(1);
    EXPECT(2, WAIT, WAITING_QUOTA, "its user has 2 of 2 jobs that run, it needs 1 (daemon.max_running_per_user)");
    STARTS(3);
}

Test(quota, a_quota_of_memory_is_said_in_mebibytes)
{
    quota.memory = 3 * GIB;
    of(1, running(1, 2 * GIB));
    of(1, queued(1, 2 * GIB));
    of(2, queued(1, 2 * GIB));
    decide(0);
    EXPECT(1, WAIT, WAITING_QUOTA,
           "its user has 2048.0 of 3072.0 MiB of memory, it needs 2048.0 (daemon.max_memory_per_user)");
    STARTS(2);
}

Test(quota, a_quota_of_gpus_leaves_jobs_without_any_alone)
{
    quota.n_gpu = 1;
    of(1, running(1, GIB))->gpus = 0x1;
    jobs[0].n_gpu = 1;
    of(1, queued(1, GIB))->n_gpu = 1;
    of(1, queued(1, GIB));
    of(2, queued(1, GIB))->n_gpu = 1;
    decide(0);
    EXPECT(1, WAIT, WAITING_QUOTA, "its user has 1 of 1 GPUs, it needs 1 (daemon.max_gpus_per_user)");
    STARTS(2);
    STARTS(3);
}

Test(quota, what_a_job_over_its_quota_needs_is_reserved_in_the_quota_alone)
{
    quota.n_slot = 3;
    of(1, running(2, GIB));
    of(1, queued(2, GIB));
    of(1, queued(1, GIB)); /* fits the quota, and would delay the job before it */
    of(2, queued(1, GIB));
    decide(0);
    EXPECT(1, WAIT, WAITING_QUOTA, "its user has 2 of 3 slots, it needs 2");
    EXPECT(2, WAIT, WAITING_QUOTA, "what else its user may have is reserved for job 2, which is before it");
    STARTS(3);
    jobs[0].state = JOB_STATE_SUCCEEDED;
    jobs[3].state = JOB_STATE_RUNNING;
    decide(0);
    STARTS(1);
    STARTS(2);
}

Test(quota, a_job_that_waits_for_the_machine_keeps_its_place_in_its_quota)
{
    quota.n_slot = 3;
    of(2, running(2, GIB));
    of(1, queued(3, GIB)); /* within its quota; the machine has 2 */
    of(1, queued(1, GIB));
    decide(0);
    EXPECT(1, WAIT, WAITING_SLOTS, "2 of 4 slots are free, it needs 3");
    EXPECT(2, WAIT, WAITING_QUOTA, "reserved for job 2");
}

Test(quota, a_user_who_has_more_than_a_new_quota_starts_no_more)
{
    quota.n_slot = 1;
    of(1, running(2, GIB));
    of(1, queued(1, GIB));
    decide(0);
    EXPECT(1, WAIT, WAITING_QUOTA, "its user has 2 of 1 slots, it needs 1");
}

Test(quota, a_job_above_its_quota_never_starts_and_says_which)
{
    quota.n_slot = 2;
    quota.memory = 2 * GIB;
    of(1, queued(3, GIB));
    of(1, queued(1, 3 * GIB));
    of(1, queued(1, -1))->queued.planning_need = 3 * GIB;
    of(1, queued(1, GIB));
    decide(0);
    EXPECT(0, NEVER, QUOTA, "it needs 3 slots, one user's jobs may have 2 (daemon.max_slots_per_user)");
    EXPECT(1, NEVER, QUOTA,
           "it needs 3072.0 MiB of memory, one user's jobs may have 2048.0 (daemon.max_memory_per_user)");
    EXPECT(2, NEVER, QUOTA, "it needs 3072.0 MiB of memory");
    STARTS(3);
}

Test(quota, a_job_that_takes_the_whole_machine_is_held_to_what_the_machine_has)
{
    quota.n_slot = 4;
    of(1, queued(9, GIB)); /* takes all 4 */
    decide(0);
    STARTS(0);
}

Test(quota, a_job_that_its_quota_holds_back_is_planned_and_reserves_no_memory_for_itself)
{
    quota.n_running = 1;
    of(1, running(1, GIB));
    of(1, queued(1, -1));
    of(2, queued(1, 6 * GIB));
    decide(0);
    EXPECT(1, PLAN, PLANNING, "");
    STARTS(2);
}

Test(quota, planning_gets_its_part_of_the_quota_where_that_is_less_than_the_share)
{
    quota.memory = 4 * GIB;
    of(1, queued(1, -1));
    decide(0);
    EXPECT(0, PLAN, PLANNING, "");
    cr_assert_eq(decision[0].planning, GIB / 2);
}

Test(quota, jobs_of_exempt_users_are_held_to_none)
{
    quota = (struct quota){.n_running = 1, .n_queued = 1, .exempt = {7, 8}, .n_exempt = 2};
    of(8, queued(1, GIB));
    of(8, queued(1, GIB));
    decide(0);
    STARTS(0);
    STARTS(1);
    cr_assert_eq(quota_queued(&quota, 8), 0);
    cr_assert_eq(quota_queued(&quota, 9), 1);
}

Test(quota, in_slurm_the_number_of_jobs_alone_is_held_to)
{
    quota = (struct quota){.n_running = 2, .n_slot = 1, .memory = GIB, .n_gpu = 1};
    whole.is_elsewhere = true;
    of(1, running(1, GIB));
    of(1, queued(64, 64 * GIB))->n_gpu = 9;
    of(1, queued(1, GIB));
    decide(0);
    STARTS(1);
    EXPECT(2, WAIT, WAITING_QUOTA, "its user has 2 of 2 jobs that run");
}

/* --- what is refused --- */

Test(quota, more_jobs_than_may_wait_are_refused_with_both_numbers)
{
    quota.n_queued = 5;
    cr_assert_eq(quota_check_queued(&quota, 3, 1, 2), STATUS_OK);
    cr_assert_eq(quota_check_queued(&quota, 3, 1, 3), STATUS_PEER);
    cr_assert_str_eq(status_reason(), "3 of your jobs wait, with 3 more they would be 6: expected at most 5 "
                                      "(daemon.max_queued_per_user)");
    quota.n_queued = 0;
    cr_assert_eq(quota_check_queued(&quota, 3, 1, 3000), STATUS_OK);
}

Test(quota, exempt_users_are_named_by_name_or_number)
{
    expect_done(quota_read_exempt("  root 65534\tdaemon ", &quota));
    cr_assert_eq(quota.n_exempt, 3);
    cr_assert_eq(quota.exempt[0], 0);
    cr_assert_eq(quota.exempt[1], 65534);
    cr_assert_eq(quota.exempt[2], 1);
    cr_assert_eq(quota_read_exempt("", &quota), STATUS_OK);
    cr_assert_eq(quota.n_exempt, 3);
    expect_fails(quota_read_exempt("no-such-user", &quota), STATUS_CONFIG,
                 "daemon.quota_exempt has 'no-such-user': expected users of this machine");
    cr_assert_eq(quota_read_exempt("4294967295", &quota), STATUS_CONFIG);
    cr_assert_eq(quota_read_exempt("12x", &quota), STATUS_CONFIG);
}
