/* What a program gets from whoever starts it: closed descriptors, blocked and ignored signals. None of it is its
 * business. */
#include "protocol/base/clock.h"
#include "tests/support/process/command.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "tests/support/process/results.h"
#include "tests/support/process/served.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOB                                                                                                          \
    "[dataset]\ngenerator = \"karate\"\n[partition]\ncache = \"off\"\n[workers]\ncount = 1\nthreads = 1\n"           \
    "[train]\nepochs = 2\n[output]\ndir = \"run\"\n"

static void make_all(void)
{
    folder_make();
    folder_write("job.toml", JOB);
}

TestSuite(inherited, .init = make_all, .fini = folder_remove, .timeout = 900);

/* End a program and the wait for it when it takes too long. */
static int finish(pid_t child)
{
    int pidfd = (int)syscall(SYS_pidfd_open, child, 0u);
    bool ends = process_ends(pidfd);
    close(pidfd);
    if (!ends) {
        kill(child, SIGKILL);
    }
    return command_finish(child);
}

#define EXPECT_CLOSED(name, closed, ...)                                                                             \
    do {                                                                                                             \
        int got = finish(command_start_closed(name, closed, (const char *const[]){__VA_ARGS__, NULL}));              \
        cr_assert_eq(got, 0, "%s without %u: exit %d: %s", name, closed, got, output);                               \
    } while (0)

Test(inherited, every_program_runs_with_any_of_its_three_descriptors_closed)
{
    for (unsigned closed = 1; closed < 8; closed++) {
        EXPECT_CLOSED("trainerd", closed, "--config", "job.toml");
        EXPECT_CLOSED("trainerd", closed, "--check", "job.toml");
        EXPECT_CLOSED("trainctl", closed, "--version");
        EXPECT_CLOSED("trainer-worker", closed, "--version");
        EXPECT_CLOSED("trainer-partition", closed, "--config", "job.toml", "--out", "parts");
    }
    EXPECT_CLOSED("trainer-coordinator", 7, "--config", "job.toml");
    cr_assert(folder_has("run/result.json") && folder_has("parts/part.0"));
}

Test(inherited, a_daemon_runs_jobs_with_its_three_descriptors_closed)
{
    served_address_set();
    pid_t daemon = command_start_closed("trainerd", 7,
                                        (const char *const[]){"--listen", served_address, "--state", "state", NULL});
    for (double since = clock_s(); !folder_has("socket") && waitpid(daemon, NULL, WNOHANG) == 0;) {
        cr_assert(patience_left(since), "the daemon never listens");
    }
    cr_assert(folder_has("socket"), "the daemon has ended");
    EXPECT_CLOSED("trainctl", 0, "submit", "job.toml", "--wait");
    EXPECT_CLOSED("trainctl", 7, "status");
    cr_assert_eq(kill(daemon, SIGTERM), 0);
    cr_assert_eq(finish(daemon), 0);
}

Test(inherited, a_limit_of_file_sizes_is_an_error_and_no_signal)
{
    struct rlimit before;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit little = {1024, before.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &little), 0);
    int got = finish(command_start_closed("trainer-partition", 0,
                                          (const char *const[]){"--config", "job.toml", "--out", "parts", NULL}));
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    cr_assert_eq(got, 74, "exit %d: %s", got, output);
    expect_words(output, "File too large");
}

Test(inherited, a_worker_whose_standard_error_nobody_reads_ends_as_it_would)
{
    int ends[2], status = 0;
    char program[PATH_MAX];
    program_find("trainer-worker", program, sizeof program);
    cr_assert_eq(pipe(ends), 0);
    close(ends[0]);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGPIPE, SIG_DFL);
        execl(program, "trainer-worker", "--none", NULL);
        _exit(99);
    }
    close(ends[1]);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 2, "%x", (unsigned)status);
}

/* Run the job while all signals are blocked and the ends of children ignored. */
static int run_deaf(const char *name)
{
    sigset_t all, mask;
    sigfillset(&all);
    signal(SIGCHLD, SIG_IGN);
    sigprocmask(SIG_SETMASK, &all, &mask);
    pid_t child = command_start_closed(name, 0, (const char *const[]){"--config", "job.toml", NULL});
    sigprocmask(SIG_SETMASK, &mask, NULL);
    signal(SIGCHLD, SIG_DFL);
    return finish(child);
}

Test(inherited, blocked_signals_and_ignored_ends_of_children_do_not_keep_a_job_from_its_end)
{
    int got = run_deaf("trainerd");
    cr_assert_eq(got, 0, "exit %d: %s", got, output);
    got = run_deaf("trainer-coordinator");
    cr_assert_eq(got, 0, "exit %d: %s", got, output);
}

/* Start a job that does not end, its standard error in a pipe, with HUP ignored or not, and wait for its first epoch.
 */
static pid_t start_endless(bool ignores_hup, FILE **words_out)
{
    char program[PATH_MAX], line[4096] = "";
    program_find("trainerd", program, sizeof program);
    cr_assert_eq(mkfifo(folder_path("err"), 0600), 0);
    signal(SIGHUP, ignores_hup ? SIG_IGN : SIG_DFL);
    pid_t child = command_start(
        program, (const char *const[]){"--config", "job.toml", "--set", "train.epochs=100000000", NULL});
    signal(SIGHUP, SIG_DFL);
    *words_out = fopen(folder_path("err"), "r");
    cr_assert_not_null(*words_out);
    while (fgets(line, sizeof line, *words_out) != NULL && strncmp(line, "epoch ", 6) != 0) {
    }
    cr_assert_eq(strncmp(line, "epoch ", 6), 0, "%s", line);
    return child;
}

/* TERM ends it, with a checkpoint: nothing before has. */
static void expect_interrupted(pid_t child, FILE *words)
{
    char line[4096];
    int status = 0;
    cr_assert_eq(kill(child, SIGTERM), 0);
    while (fgets(line, sizeof line, words) != NULL) {
    }
    fclose(words);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 75, "%x: %s", (unsigned)status, line);
    expect_words(line, "checkpoint saved in");
}

/* Two checkpoints that are asked for, one after another: the job goes on. */
static void expect_going_on(pid_t child)
{
    long long n_epoch = results_checkpoint(folder_path("run"));
    for (int i = 0; i < 2; i++) {
        long long before = n_epoch;
        cr_assert_eq(kill(child, SIGUSR1), 0);
        for (double since = clock_s(); n_epoch == before; n_epoch = results_checkpoint(folder_path("run"))) {
            cr_assert(waitpid(child, NULL, WNOHANG) == 0, "the job has ended");
            cr_assert(patience_left(since), "there is no checkpoint");
        }
    }
}

Test(inherited, usr1_writes_a_checkpoint_and_neither_it_nor_usr2_ends_a_job)
{
    FILE *words;
    pid_t child = start_endless(false, &words);
    cr_assert_eq(kill(child, SIGUSR2), 0);
    expect_going_on(child);
    expect_interrupted(child, words);
}

Test(inherited, a_job_under_nohup_goes_on_when_its_terminal_goes)
{
    FILE *words;
    pid_t child = start_endless(true, &words);
    cr_assert_eq(kill(child, SIGHUP), 0);
    expect_going_on(child);
    expect_interrupted(child, words);
}
