#include "protocol/base/fault.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Passes of a point that a process survives, of five; the signal that ends it after them in *end_out. */
static int passes(const char *faults, const char *who, uint32_t attempt, int *end_out)
{
    int ends[2], status;
    cr_assert_eq(pipe(ends), 0);
    setenv("TRAINERD_FAULTS", faults, 1);
    pid_t pid = fork();
    if (pid == 0) {
        if (fault_arm(who, attempt) != STATUS_OK) {
            _exit(1);
        }
        for (int i = 0; i < 5; i++) {
            FAULT(STEP);
            if (write(ends[1], "x", 1) != 1) {
                _exit(2);
            }
        }
        _exit(0);
    }
    close(ends[1]);
    char all[8];
    int n = 0;
    while (read(ends[0], all, 1) == 1) {
        n++;
    }
    close(ends[0]);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    *end_out = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    return n;
}

static void expect(const char *faults, int n_pass, int end)
{
    int got, n = passes(faults, "worker1", 2, &got);
    cr_assert(n == n_pass && got == end, "%s: %d passes, end %d", faults, n, got);
}

Test(fault, a_point_strikes_who_is_named_the_time_and_the_attempt_that_are_named)
{
    expect("worker1.step=kill", 0, SIGKILL);
    expect("worker1.step=kill@4", 3, SIGKILL);
    expect("worker1.step=kill@2/2", 1, SIGKILL);
    expect("worker1.step=kill/1", 5, 0);
    expect("worker0.step=kill", 5, 0);
    expect("worker1.forward=kill", 5, 0);
    expect("worker0.step=kill@1,worker1.step=kill@3", 2, SIGKILL);
    expect("worker1.step=kill@6", 5, 0);
    expect("", 5, 0);
}

Test(fault, a_variable_that_cannot_be_read_is_refused_with_what_was_expected)
{
    static const char *const bad[][2] = {{"worker1.stop", "expected WHO.POINT=ACTION"},
                                         {"step=kill", "expected WHO.POINT=ACTION"},
                                         {"worker1.step=kill@0", "expected WHO.POINT=ACTION"},
                                         {"worker1.step=kill@x", "expected WHO.POINT=ACTION"},
                                         {"worker1.step=kill@2/", "expected WHO.POINT=ACTION"},
                                         {"worker1.leap=kill", "unknown point 'leap'"},
                                         {"worker1.step=hurt", "unknown action 'hurt'"},
                                         {"worker1.step=kill,worker2.leap=kill", "unknown point 'leap'"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("TRAINERD_FAULTS", bad[i][0], 1);
        cr_assert_eq(fault_arm("other", 1), STATUS_USAGE, "%s", bad[i][0]);
        cr_assert_not_null(strstr(status_reason(), bad[i][1]), "%s", status_reason());
    }
}
