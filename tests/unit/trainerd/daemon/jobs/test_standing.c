/* The order in which jobs that have not ended are shown. */
#include "trainerd/daemon/jobs/standing.h"

#include <criterion/criterion.h>

Test(standing, jobs_that_run_come_first_the_newest_before_others_then_those_that_wait_by_place)
{
    const struct job_record jobs[] = {
        {.id = 1, .state = JOB_STATE_RUNNING},  {.id = 2, .state = JOB_STATE_QUEUED, .queued.place = 2},
        {.id = 3, .state = JOB_STATE_QUEUED},   {.id = 4, .state = JOB_STATE_QUEUED, .queued.place = 1},
        {.id = 5, .state = JOB_STATE_STARTING}, {.id = 6, .state = JOB_STATE_QUEUED}};
    static const int64_t order[] = {5, 1, 4, 2, 3, 6};
    enum { N = sizeof jobs / sizeof *jobs };
    const struct job_record *all[N];
    for (int i = 0; i < N; i++) {
        all[i] = &jobs[i];
    }
    standing_sort(all, N);
    for (int i = 0; i < N; i++) {
        cr_expect_eq(all[i]->id, order[i], "place %d has job %lld", i, (long long)all[i]->id);
    }
}
