/* A clone in root's home, which other users cannot enter: tests that start programs as other users pass. */
#include "tests/support/process/command.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

TestSuite(reachable, .init = folder_make, .fini = folder_remove, .timeout = 300);

Test(reachable, tests_with_other_users_pass_in_a_folder_that_only_root_may_enter)
{
    need_root();
    char program[PATH_MAX], command[2 * PATH_MAX];
    program_find("", program, sizeof program);
    snprintf(command, sizeof command, "mkdir -p %s/bin && cd '%s' && cp train* test-system-jobs %s/bin", folder,
             program, folder);
    cr_assert_eq(system(command), 0);
    cr_assert_eq(chmod(folder, 0700), 0);
    unsetenv("BXFI_MAP"); /* by it a test program of Criterion runs one test for its parent */
    const char *const arguments[] = {"--filter", "links/two_users*", NULL};
    int code = command_finish(command_start(folder_path("bin/test-system-jobs"), arguments));
    cr_assert_eq(code, 0, "%s", output);
    expect_words(output, "tests: 1 passed, 0 failed, 0 skipped");
}
