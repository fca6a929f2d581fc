/* scripts/run-tests, which sums up all tests, with test programs that are shell scripts. */
#include "tests/support/process/command.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char source[PATH_MAX - 64];

static void make_all(void)
{
    cr_assert_not_null(getcwd(source, sizeof source));
    if (access("scripts/run-tests", X_OK) != 0) {
        cr_skip_test("not started at the root of the source");
    }
    folder_make();
    setenv("BUILD", folder, 1);
    unsetenv("TEST_PREPARED");
}

TestSuite(run_tests, .init = make_all, .fini = folder_remove, .timeout = 900);

static void test_write(const char *name, const char *lines)
{
    char text[512];
    snprintf(text, sizeof text, "#!/bin/sh\n%s", lines);
    folder_write(name, text);
    cr_assert_eq(chmod(folder_path(name), 0700), 0);
}

static pid_t start(const char *const arguments[])
{
    static char program[PATH_MAX];
    snprintf(program, sizeof program, "%s/scripts/run-tests", source);
    return command_start(program, arguments);
}

#define SUM(skipped) "echo 'tests: 2 passed, 0 failed, " skipped " skipped'\n"

Test(run_tests, programs_are_summed_up_and_one_that_fails_is_shown)
{
    char good[PATH_MAX], bad[PATH_MAX];
    test_write("good", SUM("1"));
    test_write("bad", "echo FAIL of something\nexit 3\n");
    snprintf(good, sizeof good, "%s", folder_path("good"));
    snprintf(bad, sizeof bad, "%s", folder_path("bad"));
    EXPECT(0, "2 passed, 0 failed, 1 skipped", good);
    EXPECT(1, "2 passed, 1 failed, 1 skipped", good, bad);
    cr_assert_not_null(strstr(output, "FAIL of something"), "%s", output);
}

Test(run_tests, a_skip_for_what_is_not_installed_fails_on_a_machine_that_was_prepared)
{
    char program[PATH_MAX];
    test_write("some", "echo 'skipped: a::b PyTorch is not there: scripts/install-deps --test'\n"
                       "echo 'skipped: a::c only root can mount'\n" SUM("2"));
    snprintf(program, sizeof program, "%s", folder_path("some"));
    EXPECT(0, "2 passed, 0 failed, 2 skipped", program);
    setenv("TEST_PREPARED", "1", 1);
    EXPECT(1, "2 passed, 1 failed, 1 skipped", program);
    cr_assert_not_null(strstr(output, "PyTorch is not there"), "%s", output);
}
