#include "trainerd/base/restart.h"

#include <criterion/criterion.h>

static const struct restart_backoff backoff = {.first_s = 1.0, .most_s = 60.0};

static const enum status all[] = {
#define X(name, code, exit_code, text, cure) STATUS_##name,
    STATUS_LIST(X)
#undef X
};
#define N_STATUS (sizeof all / sizeof *all)

/* How many restarts follow when every attempt ends with this status. */
static int64_t n_restart(enum restart_runner runner, enum status status, int64_t n_most)
{
    struct restart_failure failure = {.status = status, .n_restart_most = n_most, .n_worker = 2};
    while (restart_decide(runner, &backoff, &failure).restarts) {
        failure.n_restart++;
        cr_assert_leq(failure.n_restart, n_most);
    }
    return failure.n_restart;
}

Test(restart, the_daemon_restarts_after_what_may_be_gone_by_then_and_after_nothing_else)
{
    for (size_t i = 0; i < N_STATUS; i++) {
        bool as_often_as_allowed = all[i] == STATUS_PEER || all[i] == STATUS_IO || all[i] == STATUS_INTERRUPTED;
        int64_t expected = as_often_as_allowed ? 3 : all[i] == STATUS_BUG ? 1 : 0;
        cr_assert_eq(n_restart(RESTART_RUNNER_DAEMON, all[i], 3), expected, "%s", status_name(all[i]));
        cr_assert_eq(n_restart(RESTART_RUNNER_DAEMON, all[i], 0), 0, "%s", status_name(all[i]));
        cr_assert_eq(restart_is_possible(all[i]), expected > 0, "%s", status_name(all[i]));
    }
}

Test(restart, a_job_in_the_foreground_restarts_after_a_lost_worker_only)
{
    for (size_t i = 0; i < N_STATUS; i++) {
        cr_assert_eq(n_restart(RESTART_RUNNER_FOREGROUND, all[i], 3), all[i] == STATUS_PEER ? 3 : 0, "%s",
                     status_name(all[i]));
        cr_assert_eq(n_restart(RESTART_RUNNER_FOREGROUND, all[i], 0), 0, "%s", status_name(all[i]));
    }
}

Test(restart, the_daemon_takes_one_worker_less_from_the_second_lost_worker_on)
{
    static const int32_t n_worker[] = {3, 2, 1, 1};
    struct restart_failure failure = {.status = STATUS_PEER, .n_restart_most = 4, .n_worker = 3};
    for (int i = 0; i < 4; i++, failure.n_restart++) {
        failure.n_worker = restart_decide(RESTART_RUNNER_DAEMON, &backoff, &failure).n_worker;
        cr_assert_eq(failure.n_worker, n_worker[i], "%d after loss %d", (int)failure.n_worker, i + 1);
    }
}

Test(restart, workers_stay_where_they_are_on_the_daemons_machine_and_are_never_fewer_than_memory_holds_for)
{
    struct restart_failure failure = {
        .status = STATUS_PEER, .n_restart = 2, .n_restart_most = 4, .n_worker = 3, .is_local = true};
    cr_assert_eq(restart_decide(RESTART_RUNNER_DAEMON, &backoff, &failure).n_worker, 3);
    failure.is_local = false;
    failure.n_worker_least = 3;
    cr_assert_eq(restart_decide(RESTART_RUNNER_DAEMON, &backoff, &failure).n_worker, 3);
    failure.n_worker_least = 2;
    cr_assert_eq(restart_decide(RESTART_RUNNER_DAEMON, &backoff, &failure).n_worker, 2);
}

Test(restart, workers_stay_after_other_failures_and_in_the_foreground)
{
    struct restart_failure failure = {.status = STATUS_IO, .n_restart = 2, .n_restart_most = 4, .n_worker = 3};
    cr_assert_eq(restart_decide(RESTART_RUNNER_DAEMON, &backoff, &failure).n_worker, 3);
    failure.status = STATUS_INTERRUPTED;
    cr_assert_eq(restart_decide(RESTART_RUNNER_DAEMON, &backoff, &failure).n_worker, 3);
    failure.status = STATUS_PEER;
    cr_assert_eq(restart_decide(RESTART_RUNNER_FOREGROUND, &backoff, &failure).n_worker, 3);
}

Test(restart, the_wait_doubles_up_to_its_most)
{
    struct restart_failure failure = {.status = STATUS_PEER, .n_restart = 2, .n_restart_most = 4, .n_worker = 1};
    cr_assert_eq(restart_decide(RESTART_RUNNER_DAEMON, &backoff, &failure).wait_s, 4.0);
    cr_assert_eq(restart_backoff_s(&backoff, 1), 1.0);
    cr_assert_eq(restart_backoff_s(&backoff, 6), 32.0);
    cr_assert_eq(restart_backoff_s(&backoff, 7), 60.0);
    cr_assert_eq(restart_backoff_s(&backoff, 2000000000), 60.0);
    cr_assert_eq(restart_backoff_s(&(struct restart_backoff){0.0, 60.0}, 100), 0.0);
}

Test(restart, a_coordinator_that_the_disk_kept_from_starting_may_start_later)
{
    for (size_t i = 0; i < N_STATUS; i++) {
        cr_assert_eq(restart_can_start_later(all[i]), all[i] == STATUS_IO || all[i] == STATUS_CREATE, "%s",
                     status_name(all[i]));
    }
}
