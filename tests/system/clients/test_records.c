/* The daemon's records from the command line: copied, lost, restored, repaired. */
#include "tests/support/process/command.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/served.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void make_all(void)
{
    folder_make();
    served_address_set();
    folder_write("job.toml",
                 "name = \"k\"\n[dataset]\ngenerator = \"karate\"\n[partition]\ncache = \"off\"\n[workers]\nthreads = "
                 "1\n[train]\nepochs = 3\n");
    served_begin();
}

TestSuite(records, .init = make_all, .fini = folder_remove, .timeout = 900);

static pid_t start(const char *const arguments[])
{
    char program[PATH_MAX];
    program_find("trainctl", program, sizeof program);
    return command_start(program, arguments);
}

Test(records, what_was_backed_up_is_there_again_after_the_store_was_lost)
{
    char program[PATH_MAX];
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait");
    EXPECT(0, "1 jobs in /", "backup", "copy");
    EXPECT(73, "File exists", "backup", "copy");
    EXPECT(69, "another daemon serves the state folder", "restore", "copy", "--state", "state");
    EXPECT(0, "SUCCEEDED", "submit", "job.toml", "--wait");
    served_end();
    cr_assert_eq(unlink(folder_path("state/jobs.sqlite")), 0);
    program_find("trainerd", program, sizeof program);
    const char *again[] = {"--listen", served_address, "--state", "state", NULL};
    cr_assert_eq(command_finish(command_start(program, again)), 65, "%s", output);
    cr_assert_not_null(strstr(output, "state/jobs/2' is there, but the store's jobs have had numbers up to 0"), "%s", output);
    EXPECT(66, "cannot open 'nothing'", "restore", "nothing", "--state", "state");
    EXPECT(0, "state/jobs.sqlite has 1 jobs, 0 rows are set aside, the next job is 3", "restore", "copy", "--state", "state");
    served_begin();
    EXPECT(0, "SUCCEEDED", "status", "1");
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
