/* What one user's jobs may have: limits that are refused at once. test_queue.c has the decisions of the queue. */
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

Test(quota, planning_gets_its_part_of_the_quota_where_that_is_less_than_the_share)
{
    quota.memory = 4 * GIB;
    of(1, queued(1, -1));
    decide(0);
    EXPECT(0, PLAN, PLANNING, "");
    cr_assert_eq(decision[0].planning, GIB / 2);
}

/* --- what is refused --- */

Test(quota, exempt_users_have_no_limit_of_jobs_that_wait)
{
    quota = (struct quota){.n_queued = 1, .exempt = {7, 8}, .n_exempt = 2};
    cr_assert_eq(quota_queued(&quota, 8), 0);
    cr_assert_eq(quota_queued(&quota, 9), 1);
}

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
