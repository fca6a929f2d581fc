#include "trainerd/daemon/jobs/retention.h"

#include <criterion/criterion.h>

TestSuite(retention);

#define DAY 86400.0

/* Five jobs: 3 runs, the others ended after that many days. */
static struct job_record jobs[] = {{.id = 1, .state = JOB_STATE_SUCCEEDED, .times.ended_at = 4 * DAY},
                                   {.id = 2, .state = JOB_STATE_FAILED, .times.ended_at = 1 * DAY},
                                   {.id = 3, .state = JOB_STATE_RUNNING},
                                   {.id = 4, .state = JOB_STATE_CANCELLED, .times.ended_at = 3 * DAY},
                                   {.id = 5, .state = JOB_STATE_SUCCEEDED, .times.ended_at = 2 * DAY}};

/* The numbers that are found, as digits. */
static int64_t found(double days, int64_t n_job, double now_days, size_t n_most)
{
    const struct job_record *all[] = {&jobs[0], &jobs[1], &jobs[2], &jobs[3], &jobs[4]};
    const struct retention retention = {.days = days, .n_job = n_job};
    int64_t ids[8], digits = 0;
    size_t n = retention_find(&retention, all, 5, now_days * DAY, ids, n_most);
    for (size_t i = 0; i < n; i++) {
        digits = 10 * digits + ids[i];
    }
    return digits;
}

Test(retention, without_limits_all_jobs_are_kept)
{
    cr_assert_eq(found(0, 0, 1e6, 8), 0);
}

Test(retention, jobs_are_kept_so_many_days_after_their_end)
{
    cr_assert_eq(found(2, 0, 4.5, 8), 25);
    cr_assert_eq(found(2, 0, 4, 8), 2, "exactly two days are kept");
    cr_assert_eq(found(2, 0, 100, 8), 2541, "what runs is kept");
}

Test(retention, the_last_jobs_to_end_are_kept)
{
    cr_assert_eq(found(0, 1, 5, 8), 254);
    cr_assert_eq(found(0, 3, 5, 8), 2);
    cr_assert_eq(found(0, 4, 5, 8), 0);
    cr_assert_eq(found(1.5, 3, 5, 8), 254, "either limit");
}

Test(retention, a_part_is_found_at_a_time_and_planning_that_ends_late_keeps_its_job)
{
    cr_assert_eq(found(1, 0, 100, 2), 25);
    jobs[1].queued.planning = 1;
    cr_assert_eq(found(1, 0, 100, 2), 54);
}
