/* Deaths in every phase of a job: what dies takes the rest of its attempt along, nothing is left behind, and the next attempt ends
 * with the bits of a job that was never disturbed. */
#include "protocol/base/clock.h"
#include "tests/support/process/fleet_case.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/machines.h"
#include "tests/support/process/patience.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEFT_S 10 /* five times the 2 s within which all is to be gone */
#define KILLED (1000 + SIGKILL)
#define LOST 69

/* Where it strikes, at which of three passes, and how attempt 1 ends. */
struct fault_case {
    const char *where; /* WHO.POINT=ACTION */
    int at[3];
    int code;
};

static const struct fault_case cases[] = {
    {"coordinator.load=kill", {1, 1, 1}, KILLED},
    {"coordinator.partition=kill", {1, 1, 1}, KILLED},
    {"coordinator.launch=kill", {1, 1, 1}, KILLED},
    {"coordinator.wire-up=kill", {1, 1, 1}, KILLED},
    {"coordinator.ship=kill", {2, 1, 4}, KILLED},
    {"coordinator.epoch=kill", {7, 1, 12}, KILLED},
    {"coordinator.checkpoint=kill", {2, 1, 3}, KILLED},
    {"coordinator.write=kill", {2, 1, 3}, KILLED},
    {"coordinator.fsync=kill", {2, 1, 3}, KILLED},
    {"coordinator.rename=kill", {2, 1, 3}, KILLED},
    {"coordinator.renamed=kill", {2, 1, 3}, KILLED},
    {"coordinator.results=kill", {1, 1, 1}, KILLED},
    {"coordinator.rename=kill", {5, 4, 7}, KILLED}, /* of a result file */
    {"coordinator.move=kill", {3, 1, 8}, KILLED},   /* of a file to the results' place */
    {"coordinator.finish=kill", {1, 1, 1}, KILLED},
    {"worker1.wire-up=kill", {1, 1, 1}, LOST},
    {"worker1.ship=kill", {1, 2, 1}, LOST},
    {"worker1.open=kill", {1, 1, 1}, LOST},
    {"worker1.forward=kill", {40, 1, 3}, LOST},
    {"worker1.exchange=kill", {12, 1, 5}, LOST},
    {"worker1.backward=kill", {40, 1, 3}, LOST},
    {"worker1.reduce=kill", {13, 1, 2}, LOST},
    {"worker1.step=kill", {7, 1, 12}, LOST},
    {"worker1.evaluate=kill", {40, 1, 3}, LOST},
    {"worker0.checkpoint=kill", {6, 1, 2}, LOST},
    {"worker1.finish=kill", {1, 1, 1}, 0}, /* all is done */
    {"worker0.wire-up=kill-parent", {1, 1, 1}, KILLED},
    {"worker0.ship=kill-parent", {1, 2, 1}, KILLED},
    {"worker0.open=kill-parent", {1, 1, 1}, KILLED},
    {"worker0.forward=kill-parent", {40, 1, 3}, KILLED},
    {"worker0.exchange=kill-parent", {12, 1, 5}, KILLED},
    {"worker0.backward=kill-parent", {40, 1, 3}, KILLED},
    {"worker0.reduce=kill-parent", {13, 1, 2}, KILLED},
    {"worker0.step=kill-parent", {7, 1, 12}, KILLED},
    {"worker0.evaluate=kill-parent", {40, 1, 3}, KILLED},
    {"worker0.checkpoint=kill-parent", {6, 1, 2}, KILLED},
    {"worker0.finish=kill-parent", {1, 1, 1}, KILLED},
    {"worker1.wire-up=stop", {1, 1, 1}, LOST},
    {"worker1.open=stop", {1, 1, 1}, LOST},
    {"worker1.exchange=stop", {12, 1, 5}, LOST},
    {"worker1.backward=stop", {40, 1, 3}, LOST},
    {"worker0.reduce=stop", {13, 1, 2}, LOST},
    {"worker0.checkpoint=stop", {6, 1, 2}, LOST},
};

static char program[PATH_MAX];
static bool is_private; /* shared memory is this test's own */

static void make_all(void)
{
    program_find("trainer-coordinator", program, sizeof program);
    folder_make();
    folder_write("job.toml",
                 "[dataset]\ngenerator = \"karate\"\n[partition]\nparts = 4\ncache = \"off\"\n[model]\nhidden = 8\n"
                 "dropout = 0.5\n[train]\nepochs = 12\ncheckpoint_every = 4\n"
                 "[workers]\ncount = 2\nthreads = 1\nheartbeat_timeout = 60.0\n");
    cr_assert_eq(mkdir(folder_path("job"), 0700), 0);
    /* Orphans become ours: waiting for them is how they are seen to be gone. */
    cr_assert_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    is_private = unshare(CLONE_NEWNS | CLONE_NEWIPC) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                 mount("none", "/dev/shm", "tmpfs", 0, NULL) == 0;
}

TestSuite(faults, .init = make_all, .fini = folder_remove, .timeout = 900);

/* All but the first two entries of a folder, sorted, in one line. */
static const char *names_in(const char *path, char *out, size_t capacity)
{
    struct dirent **name;
    int n = scandir(path, &name, NULL, alphasort);
    out[0] = '\0';
    for (int i = 0; i < n; i++) {
        size_t at = strlen(out);
        if (name[i]->d_name[0] != '.') {
            snprintf(out + at, capacity - at, "%s ", name[i]->d_name);
        }
        free(name[i]);
    }
    if (n >= 0) {
        free(name);
    }
    return out;
}

static void expect_names(const char *path, const char *expected)
{
    char names[2048];
    cr_assert_str_eq(names_in(path, names, sizeof names), expected);
}

/* System V segments of this IPC namespace. */
static int n_segment(void)
{
    char line[512];
    int n = -1; /* the heading */
    FILE *file = fopen("/proc/sysvipc/shm", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        n++;
    }
    if (file != NULL) {
        fclose(file);
    }
    return n;
}

static void expect_no_process(void)
{
    double since = clock_s();
    while (waitpid(-1, NULL, WNOHANG) != -1 && patience_left(since)) {
    }
    cr_assert_eq(errno, ECHILD, "a process is left");
    cr_assert_lt(clock_s() - since, LEFT_S);
}

/* Nor shared memory. */
static void expect_nothing_left(void)
{
    expect_no_process();
    if (is_private) {
        expect_names("/dev/shm", "");
        cr_assert_eq(n_segment(), 0, "a System V segment is left");
    }
}

static struct process process; /* the last attempt */

static int run_with(const char *output, const char *attempt, bool resume, const char *workers)
{
    char setting[64];
    process = (struct process){0};
    snprintf(setting, sizeof setting, "output.dir=%s", output);
    const char *arguments[] = {program, "--config", "job.toml", "--job-folder", "job",   "--attempt",
                               attempt, "--set",    setting,    "--set",        workers, resume ? "--resume" : NULL,
                               NULL};
    process_start(&process, NULL, folder, NULL, arguments);
    return process_finish(&process);
}

static int run(const char *output, const char *attempt, bool resume)
{
    return run_with(output, attempt, resume, "workers.count=2");
}

/* The job's undisturbed run left `one`; these two attempts leave the same in `two`. */
static void expect_recovered(const struct fault_case *fault, int at)
{
    char text[128], expected[2048];
    snprintf(text, sizeof text, "%s@%d/1", fault->where, at);
    setenv("TRAINERD_FAULTS", text, 1);
    /* Silence tells of a process that is stopped alone: on a busy machine others are silent, too. */
    int code = run_with("two", "1", false, strstr(text, "=stop") ? "workers.heartbeat_timeout=1" : "workers.count=2");
    cr_assert_eq(code, fault->code, "%s: exit %d: %s", text, code, process.words);
    /* What a coordinator's own death leaves, if it comes at a bad moment, the next attempt sweeps up. */
    (code == KILLED ? expect_no_process : expect_nothing_left)();
    if (code != 0) {
        bool resume = results_checkpoint(folder_path("two")) > 0;
        code = run("two", "2", resume);
        cr_assert_eq(code, 0, "after %s: exit %d: %s", text, code, process.words);
        expect_nothing_left();
    }
    results_expect_same(folder_path("one"), folder_path("two"), true);
    expect_names(folder_path("two"), names_in(folder_path("one"), expected, sizeof expected));
    expect_names(folder_path("two/checkpoint"), names_in(folder_path("one/checkpoint"), expected, sizeof expected));
    expect_names(folder_path("job"), "events.jsonl log metrics.jsonl rank-0.log rank-1.log result.json runs ");
}

/* `make check-all` tries each twice, `make check` once. */
static size_t n_time(void)
{
    return getenv("TEST_THOROUGH") != NULL ? 2 : 1;
}

ParameterizedTestParameters(faults, every_death_is_survived_with_the_bits_of_an_undisturbed_job)
{
    static int index[2 * sizeof cases / sizeof *cases];
    size_t n = n_time() * (sizeof cases / sizeof *cases);
    for (size_t i = 0; i < n; i++) {
        index[i] = (int)i;
    }
    return cr_make_param_array(int, index, n);
}

ParameterizedTest(int *index, faults, every_death_is_survived_with_the_bits_of_an_undisturbed_job)
{
    int n_case = (int)(sizeof cases / sizeof *cases);
    unsetenv("TRAINERD_FAULTS");
    int code = run("one", "1", false);
    cr_assert_eq(code, 0, "exit %d: %s", code, process.words);
    expect_recovered(&cases[*index % n_case], cases[*index % n_case].at[*index / n_case]);
}

/* Its address then leads nowhere, which says less than its end. */
Test(faults, a_worker_that_is_killed_before_it_is_connected_is_named)
{
    setenv("TRAINERD_FAULTS", "coordinator.joined=stop", 1);
    process_start(&process, NULL, folder, NULL, (const char *const[]){program, "--config", "job.toml", NULL});
    int how;
    pid_t workers[2];
    cr_assert_eq(waitpid(process.pid, &how, WUNTRACED), process.pid);
    cr_assert(WIFSTOPPED(how), "it ended with status %d", how);
    cr_assert_eq(fleet_workers(process.pid, workers, 2), 2);
    int pidfd = pidfd_open(workers[0], 0);
    cr_assert_eq(kill(workers[0], SIGKILL), 0);
    cr_assert(process_ends(pidfd));
    close(pidfd);
    cr_assert_eq(kill(process.pid, SIGCONT), 0);
    int code = process_finish(&process);
    cr_assert_eq(code, LOST, "exit %d: %s", code, process.words);
    char reason[96];
    snprintf(reason, sizeof reason, "worker 0 (pid %d) was killed by signal 9 (SIGKILL)", (int)workers[0]);
    cr_assert_not_null(strstr(process.words, reason), "%s", process.words);
    expect_nothing_left();
}

/* A rate at which it diverges until it is halved about nine times. */
Test(faults, a_job_that_diverges_goes_back_to_the_same_bits_on_any_workers_and_over_a_death)
{
    folder_write(
        "job.toml",
        "[dataset]\ngenerator = \"karate\"\n[partition]\nparts = 4\ncache = \"off\"\n[model]\nkind = \"sage\"\n"
        "layers = 4\nhidden = 8\n[train]\nepochs = 12\ncheckpoint_every = 5\noptimizer = \"sgd\"\nlr = 1e6\n"
        "on_nan = \"rollback\"\nmax_rollbacks = 40\n[workers]\nthreads = 1\n");
    cr_assert_eq(run_with("one", "1", false, "workers.count=1"), 0, "%s", process.words);
    cr_assert_not_null(strstr(process.words, "the loss is not a number in epoch "), "%s", process.words);
    cr_assert_not_null(strstr(process.words, " epochs with the learning rate times 0.5 (1 of 40)"), "%s",
                       process.words);
    setenv("TRAINERD_FAULTS", "worker2.step=kill@9/1", 1);
    cr_assert_eq(run_with("two", "1", false, "workers.count=3"), LOST, "%s", process.words);
    cr_assert_eq(run_with("two", "2", true, "workers.count=2"), 0, "%s", process.words);
    results_expect_same(folder_path("one"), folder_path("two"), false);
}

Test(faults, divergence_leaves_with_1_unless_it_may_go_back)
{
    folder_write(
        "job.toml",
        "[dataset]\ngenerator = \"karate\"\n[partition]\nparts = 2\ncache = \"off\"\n[model]\nkind = \"sage\"\n"
        "layers = 4\nhidden = 8\n[train]\nepochs = 12\noptimizer = \"sgd\"\nlr = 1e6\n");
    cr_assert_eq(run("one", "1", false), 1, "%s", process.words);
    cr_assert_not_null(strstr(process.words, "trainerd: the loss is not a number in epoch "), "%s", process.words);
    expect_nothing_left();
}

Test(faults, a_job_run_by_hand_begins_again_as_often_as_it_may)
{
    setenv("TRAINERD_FAULTS", "worker1.step=kill@6", 1); /* in every attempt: from 0 to 4, from 4 to 8, from 8 on */
    for (int may = 2; may > 0; may--) {
        char restarts[64];
        snprintf(restarts, sizeof restarts, "workers.max_restarts=%d", may);
        process = (struct process){0};
        const char *output = may == 2 ? "output.dir=two" : "output.dir=three";
        process_start(&process, NULL, folder, NULL,
                      (const char *const[]){program, "--config", "job.toml", "--set", "workers.count=2", "--set",
                                            restarts, "--set", output, NULL});
        int code = process_finish(&process);
        cr_assert_eq(code, may == 2 ? 0 : LOST, "exit %d: %s", code, process.words);
        cr_assert_not_null(strstr(process.words, "restart 1 of "), "%s", process.words);
        cr_assert_not_null(strstr(process.words, ", from the last checkpoint"), "%s", process.words);
        expect_nothing_left();
    }
    unsetenv("TRAINERD_FAULTS");
    cr_assert_eq(run("one", "1", false), 0, "%s", process.words);
    results_expect_same(folder_path("one"), folder_path("two"), true);
}

/* By hand, to folder two, with one more setting. */
static int run_by_hand(const char *setting)
{
    process = (struct process){0};
    process_start(
        &process, NULL, folder, NULL,
        (const char *const[]){program, "--config", "job.toml", "--set", "output.dir=two", "--set", setting, NULL});
    return process_finish(&process);
}

Test(faults, results_that_a_killed_job_was_moving_are_completed_by_the_next_start)
{
    unsetenv("TRAINERD_FAULTS");
    cr_assert_eq(run("one", "1", false), 0, "%s", process.words);
    int n_step = n_time() > 1 ? 1 : 4, code = KILLED;
    for (int at = 1; code == KILLED; at += n_step) {
        char text[64];
        unsetenv("TRAINERD_FAULTS");
        cr_assert_eq(run_by_hand("train.epochs=3"), 0, "%s", process.words);
        snprintf(text, sizeof text, "coordinator.move=kill@%d", at);
        setenv("TRAINERD_FAULTS", text, 1);
        code = run_by_hand("workers.count=2");
        cr_assert(code == KILLED || code == 0, "%s: exit %d: %s", text, code, process.words);
        cr_assert(code == 0 || at > 1 || folder_has("two/result.json"),
                  "the older results are gone before the first step");
        unsetenv("TRAINERD_FAULTS");
        cr_assert_eq(run_by_hand("partition.parts=35"), 78, "a start that fails: %s", process.words);
        results_expect_same(folder_path("one"), folder_path("two"), true);
        char expected[2048];
        expect_names(folder_path("two"), names_in(folder_path("one"), expected, sizeof expected));
    }
}

Test(faults, a_wrong_variable_is_refused_by_coordinator_and_worker)
{
    setenv("TRAINERD_FAULTS", "worker1.leap=kill", 1);
    cr_assert_eq(run("two", "1", false), 2);
    cr_assert_not_null(strstr(process.words, "unknown point 'leap'"), "%s", process.words);
}
