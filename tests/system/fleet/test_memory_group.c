/* Jobs in a control group that has too little memory for all their processes: on the machine's own groups, where they can limit memory. */
#include "protocol/base/clock.h"
#include "tests/support/process/fleet_case.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if !defined(                                                                                                        \
    __SANITIZE_ADDRESS__) /* which takes more memory than the groups have: the release build has these tests */

static char group[PATH_MAX]; /* "": this machine lends none */

/* A group of our own, below the one that we are in if processes may be beside groups there. */
static void make_all(void)
{
    char limit[PATH_MAX + 16];
    folder_make();
    folder_write("job.toml",
                 "[dataset]\ngenerator = \"karate\"\n[partition]\nparts = 4\ncache = \"off\"\n[model]\nhidden = 8\n"
                 "[train]\nepochs = 5\n[workers]\nthreads = 1\ncount = 2\n[output]\ndir = \"o\"\n");
    snprintf(group, sizeof group, "/sys/fs/cgroup/trainerd-test-%d", (int)getpid());
    snprintf(limit, sizeof limit, "%s/memory.max", group);
    bool is_made = mkdir(group, 0755) == 0;
    if (!is_made || access(limit, W_OK) != 0) {
        if (is_made) {
            rmdir(group);
        }
        group[0] = '\0';
    }
}

static void remove_all(void)
{
    double since_s = clock_s();
    while (group[0] != '\0' && rmdir(group) != 0 && patience_left(since_s)) { /* the dead leave it a moment later */
    }
    folder_remove();
}

TestSuite(memory_group, .init = make_all, .fini = remove_all, .timeout = 900);

static void group_write(const char *name, long long number)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", group, name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file, "%s: %s", path, strerror(errno));
    fprintf(file, "%lld", number);
    cr_assert_eq(fclose(file), 0, "%s: %s", path, strerror(errno));
}

static void need_group(void)
{
    if (group[0] == '\0') {
        cr_skip_test("needs root and control groups of version 2 that limit memory");
    }
}

/* Start a coordinator in the group; its streams go to out. */
static pid_t start(const char *setting)
{
    char program[PATH_MAX];
    program_find("trainer-coordinator", program, sizeof program);
    folder_write("out", "");
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (group[0] != '\0') {
            group_write("cgroup.procs", getpid());
        }
        int out = open(folder_path("out"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(out, STDOUT_FILENO);
        dup2(out, STDERR_FILENO);
        if (chdir(folder) == 0) {
            execl(program, program, "--config", "job.toml", "--set", setting, (char *)NULL);
        }
        _exit(99);
    }
    return child;
}

static int finish(pid_t child)
{
    int how;
    cr_assert_eq(waitpid(child, &how, 0), child);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 1000 + WTERMSIG(how);
}

static const char *said(void)
{
    static char text[1 << 14];
    folder_read("out", text, sizeof text);
    return text;
}

Test(memory_group, two_workers_that_do_not_fit_with_all_processes_are_refused_with_the_sum)
{
    need_group();
    group_write("memory.max", 30 << 20);
    int code = finish(start("train.epochs=5"));
    cr_assert_eq(code, 71, "exit %d: %s", code, said());
    cr_assert_not_null(
        strstr(said(),
               "with workers.count = 2 on one machine, more than the control group's memory limit of 31457280"),
        "%s", said());
    cr_assert_not(folder_has("o"));
    code = finish(start("memory.limit=\"20MiB\""));
    cr_assert_eq(code, 71, "with a limit for each worker: exit %d: %s", code, said());
    group_write("memory.max", 48 << 20);
    code = finish(start("train.epochs=5"));
    cr_assert_eq(code, 0, "exit %d: %s", code, said());
}

/* The system chooses these first. */
static void offer_workers(pid_t coordinator)
{
    pid_t workers[2];
    char path[64];
    cr_assert_eq(fleet_workers(coordinator, workers, 2), 2);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/proc/%d/oom_score_adj", (int)workers[i]);
        FILE *file = fopen(path, "w");
        cr_assert(file != NULL && fputs("1000", file) >= 0 && fclose(file) == 0, "%s: %s", path, strerror(errno));
    }
}

Test(memory_group, a_worker_that_is_killed_for_memory_ends_the_job_with_71_and_says_so)
{
    need_group();
    int how;
    setenv("TRAINERD_FAULTS", "coordinator.launch=stop", 1); /* the plan has been held against the limit */
    pid_t job = start("train.epochs=5");
    cr_assert_eq(waitpid(job, &how, WUNTRACED), job);
    cr_assert(WIFSTOPPED(how), "%s", said());
    offer_workers(job);
    group_write("memory.max", 24 << 20); /* enough for the coordinator, not for workers besides */
    cr_assert_eq(kill(job, SIGCONT), 0);
    int code = finish(job);
    cr_assert_eq(code, 71, "exit %d: %s", code, said());
    cr_assert_not_null(strstr(said(), "was killed by signal 9 (SIGKILL)"), "%s", said());
    cr_assert_not_null(strstr(said(), "since memory ran out: the control group's memory limit is "), "%s", said());
}

Test(memory_group, a_worker_that_is_killed_by_a_user_is_not_said_to_have_lacked_memory)
{
    pid_t job = start("train.epochs=100000000");
    double since_s = clock_s();
    while (strstr(said(), "epoch 1/") == NULL) {
        cr_assert(patience_left(since_s), "no epoch: %s", said());
    }
    pid_t workers[2];
    cr_assert_eq(fleet_workers(job, workers, 2), 2);
    cr_assert_eq(kill(workers[1], SIGKILL), 0);
    int code = finish(job);
    cr_assert_eq(code, 69, "exit %d: %s", code, said());
    cr_assert_null(strstr(said(), "memory ran out"), "%s", said());
}

#endif
