/* Jobs in control groups: each is held to its memory, and no process outlives its job. On a machine whose groups
 * cannot limit memory, the tests of limits are skipped and those of processes run. */
#include "protocol/base/clock.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "tests/system/daemon/daemon_case.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if !defined(__SANITIZE_ADDRESS__) /* which takes more memory than plans have: the release build has these tests */

static char place[PATH_MAX]; /* where the daemon makes groups */

TestSuite(cgroups, .init = folder_make, .fini = daemon_case_end, .timeout = 900);

static void need_groups(bool with_memory)
{
    struct job_cgroups groups;
    daemon_isolation = "cgroup";
    daemon_memory = with_memory;
    if (job_cgroups_open("", "cgroup", with_memory, "", &groups) != STATUS_OK) {
        cr_skip_test("needs root and control groups of version 2%s", with_memory ? " that limit memory" : "");
    }
    snprintf(place, sizeof place, "%s", groups.path);
}

/* A group of this test's store, in which a planning or an attempt runs ("3-plan", "3-1"; "": any); NULL: there is
 * none now. The folder of jobs names the store. */
static const char *group_find(const char *end)
{
    static char group[PATH_MAX];
    char command[2 * PATH_MAX], store[64] = "";
    if (folder_has("state/jobs/.store")) {
        folder_read("state/jobs/.store", store, sizeof store);
    }
    store[strspn(store, "0123456789abcdef")] = '\0';
    snprintf(command, sizeof command, "find %s -maxdepth 1 -name 'trainerd-job-%s-%s' 2>/dev/null", place, store,
             end[0] != '\0' ? end : "*");
    FILE *found = popen(command, "r");
    bool has_one = found != NULL && fgets(group, sizeof group, found) != NULL;
    cr_assert(found != NULL && pclose(found) >= 0);
    group[strcspn(group, "\n")] = '\0';
    return has_one ? group : NULL;
}

/* The group of a job's first attempt. */
static const char *group_of(int64_t id)
{
    char end[64];
    snprintf(end, sizeof end, "%lld-1", (long long)id);
    const char *group = group_find(end);
    cr_assert_not_null(group, "job %s has no group in %s", end, place);
    return group;
}

static FILE *group_file(const char *group, const char *file, const char *mode)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", group, file);
    FILE *open_file = fopen(path, mode);
    cr_assert_not_null(open_file, "%s: %s", path, strerror(errno));
    return open_file;
}

static long long group_number(const char *group, const char *file)
{
    long long number = -1;
    FILE *open_file = group_file(group, file, "r");
    cr_assert_eq(fscanf(open_file, "%lld", &number), 1);
    fclose(open_file);
    return number;
}

static void group_write(const char *group, const char *file, long long number)
{
    FILE *open_file = group_file(group, file, "w");
    cr_assert(fprintf(open_file, "%lld", number) > 0 && fclose(open_file) == 0, "%s: %s", file, strerror(errno));
}

/* The processes in a group, the last one in *pid_out. */
static int group_count(const char *group, int *pid_out)
{
    int n = 0;
    FILE *file = group_file(group, "cgroup.procs", "r");
    while (fscanf(file, "%d", pid_out) == 1) {
        n++;
    }
    fclose(file);
    return n;
}

#define LONG "[train]\nepochs = 100000000\neval_every = 0\n[workers]\ncount = 2\nthreads = 1\n"
#define SHORT "[train]\nepochs = 3\n[workers]\ncount = 2\nthreads = 1\n"
#define TOO_LITTLE (8 << 20)

Test(cgroups, a_job_and_its_workers_have_a_group_that_is_gone_with_them)
{
    int pid;
    need_groups(false);
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = LONG});
    daemon_await_epoch(id, 1, 1);
    int n = group_count(group_of(id), &pid);
    cr_assert_eq(n, 3, "coordinator and two workers, not %d", n);
    cr_assert_eq(daemon_command('c', id, 0), STATUS_OK);
    cr_assert_eq(daemon_await_end(id), JOB_STATE_CANCELLED);
    cr_assert_null(group_find(""));
}

Test(cgroups, a_job_that_outgrows_its_group_ends_alone_with_71_and_says_which_limit)
{
    need_groups(true);
    setenv("TRAINERD_FAULTS", "coordinator.launch=stop", 1); /* the plan has been held against the limit */
    daemon_start();
    int64_t first = daemon_submit(&(struct daemon_job){.lines = SHORT});
    int64_t second = daemon_submit(&(struct daemon_job){.lines = SHORT});
    daemon_await_stopped(first, 1);
    daemon_await_stopped(second, 1);
    pid_t other = daemon_job(second)->run.pid;
    const struct job_record *job = daemon_job(first);
    long long limit = group_number(group_of(first), "memory.max");
    cr_assert(limit > job->memory && limit < 2 * job->memory + (64 << 20), "plan %lld, limit %lld",
              (long long)job->memory, limit);
    cr_assert_eq(group_number(group_of(first), "cpu.weight"), 100 * job->n_slot);
    group_write(group_of(first), "memory.max", TOO_LITTLE);
    daemon_continue(first);
    cr_assert_eq(daemon_await_end(first), JOB_STATE_FAILED);
    job = daemon_job(first);
    cr_assert_eq(job->exit_code, 71, "%d: %s", job->exit_code, job->reason_text);
    char plan[64];
    snprintf(plan, sizeof plan, "may have %d bytes, as its plan is %lld", TOO_LITTLE, (long long)job->memory);
    cr_assert(strstr(job->reason_text, "memory ran out") &&
                  strstr(job->reason_text, "its control group trainerd-job-") && strstr(job->reason_text, plan),
              "%s", job->reason_text);
    cr_assert_eq(kill(other, 0), 0);
    daemon_continue(second);
    cr_assert_eq(daemon_await_end(second), JOB_STATE_SUCCEEDED, "%s", daemon_job(second)->reason_text);
}

Test(cgroups, planning_that_outgrows_its_group_ends_its_job_with_71)
{
    need_groups(true);
    setenv("TRAINERD_FAULTS", "coordinator.load=stop", 1); /* the graph is in memory, and METIS not begun */
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.graph = "generator = \"sbm\"\nnodes = 20000\ndegree = 20\n",
                                                    .lines = "[train]\nepochs = 3\n"});
    double since_s = clock_s();
    const char *group;
    int pid = 0;
    char end[64], state = '?';
    snprintf(end, sizeof end, "%lld-plan", (long long)id);
    while ((group = group_find(end)) == NULL) {
        cr_assert(patience_left(since_s), "planning has no group: %s", daemon_job(id)->reason_text);
        daemon_listen(20);
    }
    while (state != 'T') {
        char stat[64];
        group_count(group, &pid);
        snprintf(stat, sizeof stat, "/proc/%d/stat", pid);
        FILE *file = pid > 0 ? fopen(stat, "r") : NULL;
        cr_assert(file == NULL || (fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && fclose(file) == 0));
        cr_assert(patience_left(since_s));
    }
    group_write(group, "memory.max", TOO_LITTLE);
    (void)kill(pid, SIGCONT); /* the kernel may have ended it */
    cr_assert_eq(daemon_await_end(id), JOB_STATE_FAILED);
    const struct job_record *job = daemon_job(id);
    cr_assert_eq(job->exit_code, 71, "%d: %s", job->exit_code, job->reason_text);
    expect_words(job->reason_text, "memory ran out");
}

/* A process of the job that has left its session, and its coordinator. */
static pid_t leave_session(int64_t id)
{
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        for (;;) {
            pause();
        }
    }
    group_write(group_of(id), "cgroup.procs", pid);
    return pid;
}

Test(cgroups, a_process_that_left_the_jobs_session_is_ended_with_the_job)
{
    need_groups(false);
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = LONG});
    daemon_await_epoch(id, 1, 1);
    pid_t left = leave_session(id);
    daemon_kill();
    daemon_start(); /* also by the next daemon */
    daemon_await_epoch(id, 1, 1);
    cr_assert_eq(waitpid(left, NULL, WNOHANG), 0, "it runs while the job does");
    cr_assert_eq(daemon_command('c', id, 0), STATUS_OK);
    int how = 0;
    cr_assert_eq(waitpid(left, &how, 0), left);
    cr_assert(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL, "%d", how);
    cr_assert_eq(daemon_await_end(id), JOB_STATE_CANCELLED);
}

Test(cgroups, a_daemon_that_dies_at_the_gate_leaves_no_group_and_its_job_runs_in_the_next_attempts)
{
    need_groups(false);
    setenv("TRAINERD_FAULTS", "daemon.gate=kill", 1);
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = "[train]\nepochs = 3\n"});
    double since_s = clock_s();
    while (!daemon_has_died()) {
        cr_assert(patience_left(since_s));
        daemon_listen(20);
    }
    unsetenv("TRAINERD_FAULTS");
    cr_assert_not_null(group_find(""), "its group is there");
    daemon_start();
    cr_assert_eq(daemon_await_end(id), JOB_STATE_SUCCEEDED);
    cr_assert_eq(daemon_job(id)->run.n_restart, 0);
    cr_assert_null(group_find(""));
}

#endif
