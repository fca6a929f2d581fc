/* What runs is what was admitted: a job's text is the store's, whatever lies in the job's folder meanwhile. */
#include "tests/support/process/folder.h"
#include "tests/system/daemon/daemon_case.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/stat.h>

TestSuite(admitted, .init = folder_make, .fini = folder_remove, .timeout = 900);

#define LINES(epochs) "[workers]\ncount = 1\nthreads = 1\n[train]\nepochs = " #epochs "\ncheckpoint_every = 50\n"

static void edit(int64_t id)
{
    char name[64];
    snprintf(name, sizeof name, "state/jobs/%lld/job.toml", (long long)id);
    folder_write(name, "[dataset]\ngenerator = \"karate\"\n" LINES(7));
}

Test(admitted, a_job_file_that_is_edited_while_its_job_waits_changes_nothing)
{
    daemon_options.capacity.n_slot = 1;
    daemon_start();
    int64_t first = daemon_submit(&(struct daemon_job){.lines = LINES(100000000)});
    daemon_await_epoch(first, 1, 1);
    int64_t second = daemon_submit(&(struct daemon_job){.lines = LINES(20)});
    while (daemon_job(second)->memory < 0) { /* it is planned: its folder is made */
        cr_assert(daemon_hear());
    }
    edit(second);
    cr_assert_eq(daemon_command('c', first, 0), STATUS_OK, "%s", daemon_reason);
    cr_assert_eq(daemon_await_end(second), JOB_STATE_SUCCEEDED, "%s", daemon_job(second)->reason_text);
    cr_assert_eq(daemon_job(second)->progress.epoch, 20);
    daemon_end();
}

Test(admitted, events_that_were_there_before_an_attempt_are_not_believed)
{
    daemon_options.capacity.n_slot = 1;
    daemon_start();
    int64_t first = daemon_submit(&(struct daemon_job){.lines = LINES(100000000)});
    daemon_await_epoch(first, 1, 1);
    int64_t second = daemon_submit(&(struct daemon_job){.lines = LINES(20)});
    while (daemon_job(second)->memory < 0) {
        cr_assert(daemon_hear());
    }
    folder_write("state/jobs/2/events.jsonl",
                 "{\"attempt\":1,\"event\":\"begin\"}\n{\"attempt\":1,\"event\":\"state\",\"state\":\"RUNNING\"}\n"
                 "{\"attempt\":1,\"event\":\"end\",\"exit_code\":65,\"reason\":\"planted\"}\n{\"half");
    cr_assert_eq(daemon_command('c', first, 0), STATUS_OK, "%s", daemon_reason);
    cr_assert_eq(daemon_await_end(second), JOB_STATE_SUCCEEDED, "%s", daemon_job(second)->reason_text);
    cr_assert_eq(daemon_job(second)->progress.epoch, 20);
    daemon_end();
}

Test(admitted, a_job_file_that_is_edited_between_two_attempts_changes_nothing)
{
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = LINES(3000), .max_restarts = 1});
    daemon_await_epoch(id, 1, 100);
    edit(id);
    cr_assert(daemon_kill_coordinator(id));
    cr_assert_eq(daemon_await_end(id), JOB_STATE_SUCCEEDED, "%s", daemon_job(id)->reason_text);
    cr_assert_eq(daemon_job(id)->attempt, 2);
    cr_assert_eq(daemon_job(id)->progress.epoch, 3000);
    daemon_end();
}
