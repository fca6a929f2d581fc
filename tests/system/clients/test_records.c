/* The daemon's records from the command line: copied, lost, restored, repaired. */
#include "tests/support/process/command.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/served.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

static void make_all(void)
{
    folder_make();
    served_address_set();
    folder_write(
        "job.toml",
        "name = \"k\"\n[dataset]\ngenerator = \"karate\"\n[partition]\ncache = \"off\"\n[workers]\nthreads = "
        "1\n[train]\nepochs = 3\n");
    served_begin();
}

TestSuite(records, .init = make_all, .fini = folder_remove, .timeout = 900);

#define start(...) command_start("trainctl", __VA_ARGS__)

Test(records, what_was_backed_up_is_there_again_after_the_store_was_lost)
{
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait");
    EXPECT(0, "1 jobs in /", "backup", "copy");
    EXPECT(73, "File exists", "backup", "copy");
    EXPECT(69, "another daemon serves the state folder", "restore", "copy", "--state", "state");
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait");
    served_end();
    cr_assert_eq(unlink(folder_path("state/jobs.sqlite")), 0);
    const char *again[] = {"--listen", served_address, "--state", "state", NULL};
    cr_assert_eq(command_finish(command_start("trainerd", again)), 65, "%s", output);
    expect_words(output, "state/jobs/2' is there, but the store's jobs have had numbers up to 0");
    EXPECT(66, "cannot open 'nothing'", "restore", "nothing", "--state", "state");
    EXPECT(0, "state/jobs.sqlite has 1 jobs, 0 rows are set aside, the next job is 3", "restore", "copy", "--state",
           "state");
    served_begin();
    EXPECT(0, "SUCCEEDED", "watch", "1");
    EXPECT(66, "there is no job '2'", "status", "2");
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait");
    cr_assert_str_eq(printed, "3\n");
    served_end();
}

Test(records, a_repair_goes_on_above_the_folders_that_are_there)
{
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait");
    served_end();
    cr_assert_eq(truncate(folder_path("state/jobs.sqlite"), 0), 0);
    EXPECT(0, "\"jobs\":0,\"aside\":0,\"next\":2,\"before\":\"", "repair", "--state", "state", "--json");
    served_begin();
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait");
    cr_assert_str_eq(printed, "2\n");
    served_end();
}

Test(records, a_drained_daemon_starts_nothing_also_after_a_restart_until_it_is_told_to)
{
    EXPECT(0, "no job starts until trainctl undrain; 0 run", "drain");
    EXPECT(0, "1", "submit", "job.toml");
    EXPECT(0, "the daemon is draining and starts no jobs", "status");
    served_end();
    served_begin();
    EXPECT(0, "DRAINING", "status", "1", "--json");
    EXPECT(0, "", "undrain");
    EXPECT(66, "there is no group 'none'", "cancel", "--group", "none");
    EXPECT(0, "66  there is no group 'none'", "audit", "--limit", "1");
    EXPECT(0, "\"what\":\"drain\"", "audit", "--json");
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait");
    EXPECT(0, "SUCCEEDED", "watch", "1");
}

Test(records, users_are_a_table_with_what_they_have_of_what_they_may_have)
{
    served_end();
    served_begin_with((const char *const[]){"max_running_per_user=3", "quota_exempt=", "fair_half_life=0", NULL});
    EXPECT(0, "use is not counted (daemon.fair_half_life)", "users");
    expect_words(printed, "USER");
    expect_words(printed, "0/3");
    EXPECT(0, "\"half_life_s\":null", "users", "--json");
}

Test(records, jobs_that_are_kept_no_longer_leave_their_results)
{
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait", "--name", "first");
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait", "--name", "second");
    served_end();
    served_begin_with((const char *const[]){"retain_jobs=1", NULL});
    EXPECT(66, "there is no job '1'", "show", "1");
    EXPECT(0, "second", "status", "2");
    cr_assert_not(folder_has("state/jobs/1"));
    cr_assert(folder_has("state/jobs/2"));
    cr_assert(folder_has("runs/first-1/result.json"));
}
