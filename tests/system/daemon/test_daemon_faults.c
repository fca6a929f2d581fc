/* Deaths of the daemon in every phase of a job that it supervises, and some of a coordinator or a worker: the job ends with the bits of an
 * undisturbed one, and no process is left. tests/system/fleet/test_faults.c has those of coordinators and workers in every phase.
 */
#include "protocol/base/clock.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "tests/support/process/results.h"
#include "tests/system/daemon/daemon_case.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fault_case {
    const char *where; /* WHO.POINT=ACTION of TRAINERD_FAULTS, in attempt 1 */
    int at[3];         /* the time that strikes: `make check` tries the first, `make check-all` all */
    int32_t n_attempt;
};

/* kill-parent of a coordinator kills the daemon. */
static const struct fault_case cases[] = {
    {"coordinator.load=kill-parent", {1, 1, 1}, 1},
    {"coordinator.partition=kill-parent", {1, 1, 1}, 1},
    {"coordinator.launch=kill-parent", {1, 1, 1}, 1},
    {"coordinator.wire-up=kill-parent", {1, 1, 1}, 1},
    {"coordinator.ship=kill-parent", {2, 1, 4}, 1},
    {"coordinator.epoch=kill-parent", {7, 1, 12}, 1},
    {"coordinator.checkpoint=kill-parent", {2, 1, 3}, 1},
    {"coordinator.write=kill-parent", {2, 1, 3}, 1},
    {"coordinator.fsync=kill-parent", {2, 1, 3}, 1},
    {"coordinator.rename=kill-parent", {2, 1, 5}, 1},
    {"coordinator.renamed=kill-parent", {2, 1, 3}, 1},
    {"coordinator.results=kill-parent", {1, 1, 1}, 1},
    {"coordinator.finish=kill-parent", {1, 1, 1}, 1},
    {"coordinator.load=kill", {1, 1, 1}, 2},
    {"coordinator.epoch=kill", {7, 1, 12}, 2},
    {"coordinator.rename=kill", {2, 1, 3}, 2},
    {"coordinator.finish=kill", {1, 1, 1}, 2},
    {"worker1.wire-up=kill", {1, 1, 1}, 2},
    {"worker1.forward=kill", {40, 1, 3}, 2},
    {"worker1.exchange=stop", {12, 1, 5}, 2},
};
enum { N_CASE = sizeof cases / sizeof *cases };

static const char lines[] =
    "parts = 4\n[model]\nhidden = 8\ndropout = 0.5\n[train]\nepochs = 12\ncheckpoint_every = 4\n"
    "[workers]\ncount = 2\nthreads = 1\nheartbeat_timeout = 5.0\n[output]\ndir = \"two\"\n";

TestSuite(daemon_faults, .init = folder_make, .fini = daemon_case_end, .timeout = 900);

ParameterizedTestParameters(daemon_faults, every_death_is_survived_with_the_bits_of_an_undisturbed_job)
{
    static int index[2 * N_CASE];
    size_t n = (getenv("TEST_THOROUGH") != NULL ? 2 : 1) * N_CASE;
    for (size_t i = 0; i < n; i++) {
        index[i] = (int)i;
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
