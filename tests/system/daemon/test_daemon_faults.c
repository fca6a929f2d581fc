/* Deaths of the daemon, a coordinator or a worker in every phase of a job that the daemon supervises: the job ends
 * with the bits of an undisturbed one, and nobody is left. tests/system/fleet/test_faults.c does the same without a
 * daemon.
 */
#include "protocol/base/clock.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "tests/support/process/results.h"
#include "tests/system/daemon/daemon_case.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fault_case {
    const char *where; /* WHO.POINT=ACTION of TRAINERD_FAULTS, in attempt 1 */
    int at[3];         /* the time that strikes: `make check` tries the first, `make check-all` all */
    int32_t n_attempt;
    bool is_short; /* `make check` tries it */
};

/* kill-parent of a coordinator kills the daemon. */
static const struct fault_case cases[] = {
    {"coordinator.load=kill-parent", {1, 1, 1}, 1, true},
    {"coordinator.partition=kill-parent", {1, 1, 1}, 1, true},
    {"coordinator.launch=kill-parent", {1, 1, 1}, 1, true},
    {"coordinator.wire-up=kill-parent", {1, 1, 1}, 1, true},
    {"coordinator.ship=kill-parent", {2, 1, 4}, 1, true},
    {"coordinator.epoch=kill-parent", {7, 1, 12}, 1, true},
    {"coordinator.checkpoint=kill-parent", {2, 1, 3}, 1, true},
    {"coordinator.write=kill-parent", {2, 1, 3}, 1, true},
    {"coordinator.fsync=kill-parent", {2, 1, 3}, 1, true},
    {"coordinator.rename=kill-parent", {2, 1, 5}, 1, true},
    {"coordinator.renamed=kill-parent", {2, 1, 3}, 1, true},
    {"coordinator.results=kill-parent", {1, 1, 1}, 1, true},
    {"coordinator.finish=kill-parent", {1, 1, 1}, 1, true},
    {"coordinator.load=kill", {1, 1, 1}, 2, true},
    {"coordinator.partition=kill", {1, 1, 1}, 2, false},
    {"coordinator.launch=kill", {1, 1, 1}, 2, false},
    {"coordinator.wire-up=kill", {1, 1, 1}, 2, false},
    {"coordinator.ship=kill", {2, 1, 4}, 2, false},
    {"coordinator.epoch=kill", {7, 1, 12}, 2, true},
    {"coordinator.checkpoint=kill", {2, 1, 3}, 2, false},
    {"coordinator.write=kill", {2, 1, 3}, 2, false},
    {"coordinator.fsync=kill", {2, 1, 3}, 2, false},
    {"coordinator.rename=kill", {2, 1, 3}, 2, true},
    {"coordinator.renamed=kill", {2, 1, 3}, 2, false},
    {"coordinator.results=kill", {1, 1, 1}, 2, false},
    {"coordinator.rename=kill", {5, 4, 7}, 2, false},
    {"coordinator.finish=kill", {1, 1, 1}, 2, true},
    {"worker1.wire-up=kill", {1, 1, 1}, 2, true},
    {"worker1.ship=kill", {1, 2, 1}, 2, false},
    {"worker1.open=kill", {1, 1, 1}, 2, false},
    {"worker1.forward=kill", {40, 1, 3}, 2, true},
    {"worker1.exchange=kill", {12, 1, 5}, 2, false},
    {"worker1.backward=kill", {40, 1, 3}, 2, false},
    {"worker1.reduce=kill", {13, 1, 2}, 2, false},
    {"worker1.step=kill", {7, 1, 12}, 2, false},
    {"worker1.evaluate=kill", {40, 1, 3}, 2, false},
    {"worker0.checkpoint=kill", {6, 1, 2}, 2, false},
    {"worker1.exchange=stop", {12, 1, 5}, 2, true},
};
enum { N_CASE = sizeof cases / sizeof *cases };

static const char lines[] =
    "parts = 4\n[model]\nhidden = 8\ndropout = 0.5\n[train]\nepochs = 12\ncheckpoint_every = 4\n"
    "[workers]\ncount = 2\nthreads = 1\nheartbeat_timeout = 1.0\n[output]\ndir = \"two\"\n";

TestSuite(daemon_faults, .init = folder_make, .fini = daemon_case_end, .timeout = 900);

ParameterizedTestParameters(daemon_faults, every_death_is_survived_with_the_bits_of_an_undisturbed_job)
{
    static int index[3 * N_CASE];
    bool is_thorough = getenv("TEST_THOROUGH") != NULL;
    size_t n = 0;
    for (int i = 0; i < (is_thorough ? 3 : 1) * N_CASE; i++) {
        if (is_thorough || cases[i].is_short) {
            index[n++] = i;
        }
    }
    return cr_make_param_array(int, index, n);
}

/* Wait for the job's end, starting the daemon again whenever it dies. Gives how often it did. */
static int await_end(int64_t id, const char *fault)
{
    double since = clock_s();
    int n_death = 0;
    while (!job_state_ended(daemon_job(id)->state)) {
        daemon_listen(20);
        if (daemon_has_died()) {
            n_death++;
            daemon_start();
        }
        const struct job_record *job = daemon_job(id);
        cr_assert_lt(clock_s() - since, PATIENCE_S, "%s: it is %s, attempt %d, %s", fault, job_state_name(job->state),
                     (int)job->attempt, job->reason_text);
    }
    return n_death;
}

ParameterizedTest(int *index, daemon_faults, every_death_is_survived_with_the_bits_of_an_undisturbed_job)
{
    const struct fault_case *fault = &cases[*index % N_CASE];
    char text[128];
    unsetenv("TRAINERD_FAULTS");
    daemon_run_plain(lines);
    snprintf(text, sizeof text, "%s@%d/1", fault->where, fault->at[*index / N_CASE]);
    setenv("TRAINERD_FAULTS", text, 1);
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = lines, .max_restarts = 3});
    int n_death = await_end(id, text);
    const struct job_record *job = daemon_job(id);
    cr_assert_eq(job->state, JOB_STATE_SUCCEEDED, "%s: %s: %s", text, job_state_name(job->state), job->reason_text);
    cr_assert_eq(job->attempt, fault->n_attempt, "%s: %d attempts", text, (int)job->attempt);
    cr_assert_eq(n_death, strstr(text, "coordinator.") != NULL && strstr(text, "kill-parent") != NULL ? 1 : 0,
                 "%s: %d", text, n_death);
    results_expect_same(folder_path("plain"), folder_path("two"), true);
}
