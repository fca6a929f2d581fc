/* The part of the queue that a pass looks at. */
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "trainerd/daemon/jobs/queue.h"

#include <criterion/criterion.h>

#define N_MANY (3 * QUEUE_FRONT_MOST)

static struct job_record record[N_MANY + 8];
static struct store_submission submission[N_MANY + 8];
static bool is_front[N_MANY + 8];
static size_t n;
static struct jobs *jobs;

static void add(uid_t uid, enum job_state state, int32_t priority)
{
    submission[n] = (struct store_submission){.submission_id = "", .config = "", .folder = "", .output = ""};
    record[n++] = (struct job_record){.uid = uid, .state = state, .priority = priority};
}

/* Of those that were added, in a store. */
static size_t front(void)
{
    struct store *store;
    int64_t existing;
    expect_done(store_open(folder, &store));
    expect_done(store_insert(store, record, submission, n, &existing));
    store_close(store);
    expect_done(jobs_open(folder, NULL, &jobs));
    return queue_front(jobs, is_front);
}

static void end(void)
{
    jobs_close(jobs);
    folder_remove();
}

TestSuite(queue_front, .init = folder_make, .fini = end);

Test(queue_front, few_jobs_are_all_looked_at)
{
    for (size_t i = 0; i < QUEUE_FRONT_MOST; i++) {
        add(1, JOB_STATE_QUEUED, (int32_t)(i % 7));
    }
    cr_assert_eq(front(), QUEUE_FRONT_MOST);
}

Test(queue_front, of_very_many_the_first_of_each_user_are_by_priority_then_number)
{
    for (size_t i = 0; i < N_MANY; i++) {
        add(1, JOB_STATE_QUEUED, i % 10 == 0 ? 5 : 0);
    }
    add(2, JOB_STATE_QUEUED, -9);
    add(1, JOB_STATE_RUNNING, 0);
    size_t n_high = (N_MANY + 9) / 10, n_low = 0;
    cr_assert_eq(front(), QUEUE_FRONT_MOST / 2 + 2);
    for (size_t i = 0; i < N_MANY; i++) {
        bool is_high = i % 10 == 0;
        cr_assert_eq(is_front[i], is_high || n_low < QUEUE_FRONT_MOST / 2 - n_high, "%zu", i);
        n_low += is_front[i] && !is_high;
    }
    cr_assert(is_front[N_MANY] && is_front[N_MANY + 1]);
    jobs_plans(jobs, N_MANY - 1, 1);
    cr_assert_eq(queue_front(jobs, is_front), QUEUE_FRONT_MOST / 2 + 3, "one that is planned is not looked at");
}

Test(queue_front, rising_priorities_leave_the_last_and_many_users_have_some_each)
{
    for (size_t i = 0; i < N_MANY; i++) {
        add((uid_t)(i % 64), JOB_STATE_QUEUED, (int32_t)i);
    }
    cr_assert_eq(front(), 64 * QUEUE_FRONT_LEAST);
    for (size_t i = 0; i < N_MANY; i++) {
        cr_assert_eq(is_front[i], i >= N_MANY - 64 * QUEUE_FRONT_LEAST, "%zu", i);
    }
}
