/* The machine's wall clock is set by an hour while the daemon has jobs: what they may use and have to wait stays what
 * it was. */
#include "protocol/base/clock.h"
#include "tests/support/process/folder.h"
#include "tests/system/daemon/daemon_case.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(clock, .init = folder_make, .fini = daemon_case_end, .timeout = 900);

#define JOB "[workers]\ncount = 1\nthreads = 1\n[train]\nepochs = 150\ncheckpoint_every = 50\n"

Test(clock, a_clock_that_is_set_back_keeps_no_job_waiting)
{
    setenv("TRAINERD_FAULTS", "daemon.clock=back@2,coordinator.epoch=stop@101/1",
           1); /* when the first attempt has ended */
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = JOB, .max_restarts = 1});
    daemon_await_stopped(id, 1);
    cr_assert(daemon_kill_coordinator(id));
    daemon_await(id, JOB_STATE_QUEUED);
    double since_s = clock_s();
    cr_assert_eq(daemon_await_end(id), JOB_STATE_SUCCEEDED, "%s", daemon_job(id)->reason_text);
    cr_assert_lt(clock_s() - since_s, 60);
    cr_assert_eq(daemon_job(id)->attempt, 2);
    cr_assert(daemon_job(id)->run.ran_s > 0 && daemon_job(id)->run.ran_s < 60, "%g s", daemon_job(id)->run.ran_s);
}

static void restart_with(const char *fault)
{
    setenv("TRAINERD_FAULTS", "coordinator.epoch=stop@101", 1);
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = JOB, .time_limit_s = 1000});
    daemon_await_stopped(id, 1);
    daemon_kill();
    setenv("TRAINERD_FAULTS", fault, 1);
    daemon_start();
    daemon_continue(id);
    cr_assert_eq(daemon_await_end(id), JOB_STATE_SUCCEEDED, "%s", daemon_job(id)->reason_text);
    cr_assert_eq(daemon_job(id)->attempt, 1);
    cr_assert(daemon_job(id)->run.ran_s > 0 && daemon_job(id)->run.ran_s < 60, "%g s", daemon_job(id)->run.ran_s);
}

Test(clock, a_clock_that_is_set_forward_and_a_restart_use_up_no_time_limit)
{
    restart_with("daemon.clock=forward");
}

Test(clock, a_clock_that_is_set_back_and_a_restart_lose_no_used_time)
{
    restart_with("daemon.clock=back");
}
