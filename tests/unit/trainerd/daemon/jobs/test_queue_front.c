/* The part of the queue that a pass looks at. */
#include "trainerd/daemon/jobs/queue.h"

#include <criterion/criterion.h>

#define N_MANY (3 * QUEUE_FRONT_MOST)

static struct job_record record[N_MANY + 8];
static const struct job_record *list[N_MANY + 8];
static bool is_front[N_MANY + 8];
static size_t n;

static struct job_record *add(uid_t uid, enum job_state state, int32_t priority)
{
    record[n] = (struct job_record){.id = (int64_t)n + 1, .uid = uid, .state = state, .priority = priority};
    list[n] = &record[n];
    return &record[n++];
}

static size_t front(void)
{
    return queue_front(list, n, is_front);
}

TestSuite(queue_front);

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
    struct job_record *other = add(2, JOB_STATE_QUEUED, -9), *runs = add(1, JOB_STATE_RUNNING, 0);
    struct job_record *planned = add(1, JOB_STATE_QUEUED, -9);
    planned->queued.planning = 1;
    cr_assert_eq(front(), QUEUE_FRONT_MOST / 2 + 3);
    cr_assert(is_front[other->id - 1] && is_front[runs->id - 1] && is_front[planned->id - 1]);
    size_t n_high = 0, n_low = 0;
    for (size_t i = 0; i < N_MANY; i++) {
        bool is_high = i % 10 == 0;
        cr_assert_eq(is_front[i], is_high || n_low < QUEUE_FRONT_MOST / 2 - (N_MANY + 9) / 10, "%zu", i);
        n_high += is_front[i] && is_high;
        n_low += is_front[i] && !is_high;
    }
    cr_assert_eq(n_high, (N_MANY + 9) / 10);
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
