/* Jobs in control groups of their own, of version 1 on this machine: each has its memory, and none outlives its job. */
#include "protocol/base/clock.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "tests/system/daemon/daemon_case.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if !defined(__SANITIZE_ADDRESS__) /* which takes more memory than plans have: the release build has these tests */

static void make_all(void)
{
    folder_make();
    daemon_isolation = "cgroup";
}

static void remove_all(void)
{
    daemon_end();
    folder_remove();
}

TestSuite(cgroups, .init = make_all, .fini = remove_all, .timeout = 900);

static void need_groups(void)
{
    if (access("/sys/fs/cgroup/memory", W_OK) != 0 || access("/sys/fs/cgroup/freezer", W_OK) != 0) {
        cr_skip_test("needs root and control groups of version 1");
    }
}

/* The group of a job's attempt, in the hierarchy of this controller: what its coordinator's /proc says. */
static const char *group_of(pid_t pid, const char *controller, int64_t id, int32_t attempt)
{
    static char group[PATH_MAX];
    char path[64], line[PATH_MAX], wanted[32], end[64];
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    snprintf(wanted, sizeof wanted, ":%s:", controller);
    snprintf(end, sizeof end, "-%lld-%d", (long long)id, (int)attempt);
    group[0] = '\0';
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *at = strstr(line, wanted);
        line[strcspn(line, "\n")] = '\0';
        if (at != NULL) {
            snprintf(group, sizeof group, "/sys/fs/cgroup/%s%s", controller, at + strlen(wanted));
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    const char *own = strstr(group, "/trainerd-job-");
    cr_assert(own != NULL && strlen(own) > strlen(end) && strcmp(own + strlen(own) - strlen(end), end) == 0, "'%s'",
              group);
    return group;
}

static long long group_number(const char *group, const char *file)
{
    char path[PATH_MAX + 64];
    long long number = -1;
    snprintf(path, sizeof path, "%s/%s", group, file);
    FILE *open_file = fopen(path, "r");
    cr_assert_not_null(open_file, "%s: %s", path, strerror(errno));
    cr_assert_eq(fscanf(open_file, "%lld", &number), 1);
    fclose(open_file);
    return number;
}

static void group_write(const char *group, const char *file, long long number)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", group, file);
    FILE *open_file = fopen(path, "w");
    cr_assert(open_file != NULL && fprintf(open_file, "%lld", number) > 0 && fclose(open_file) == 0, "%s: %s", path,
              strerror(errno));
}

/* Let a group have no more than it has now, so that its processes cannot go on. The kernel refuses less than it cannot take away. */
static long long limit_lower(const char *group)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/memory.limit_in_bytes", group);
    for (long long limit = 12 << 20;; limit += 1 << 20) {
        FILE *file = fopen(path, "w");
        cr_assert(file != NULL && fprintf(file, "%lld", limit) > 0);
        if (fclose(file) == 0) {
            return limit;
        }
        cr_assert(errno == EBUSY && limit < 64 << 20, "%s", strerror(errno));
    }
}

#define LONG "[train]\nepochs = 100000000\neval_every = 0\n[workers]\ncount = 2\nthreads = 1\n"

Test(cgroups, a_job_and_its_workers_have_a_group_that_is_gone_with_them)
{
    need_groups();
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = LONG});
    daemon_await_epoch(id, 1, 1);
    const struct job_record *job = daemon_job(id);
    char memory[PATH_MAX], cpu[PATH_MAX];
    snprintf(memory, sizeof memory, "%s", group_of(job->pid, "memory", id, 1));
    snprintf(cpu, sizeof cpu, "%s", group_of(job->pid, "cpu", id, 1));
    long long limit = group_number(memory, "memory.limit_in_bytes");
    cr_assert(limit > job->memory && limit < 2 * job->memory + (64 << 20), "plan %lld, limit %lld",
              (long long)job->memory, limit);
    cr_assert_eq(group_number(cpu, "cpu.shares"), 1024 * job->n_slot);
    char path[PATH_MAX + 64];
    int n = 0, pid;
    snprintf(path, sizeof path, "%s/cgroup.procs", memory);
    FILE *file = fopen(path, "r");
    while (file != NULL && fscanf(file, "%d", &pid) == 1) {
        n++;
    }
    cr_assert(file != NULL && fclose(file) == 0);
    cr_assert_eq(n, 3, "coordinator and two workers, not %d", n);
    cr_assert_eq(daemon_command('c', id, 0), STATUS_OK);
    cr_assert_eq(daemon_await_end(id), JOB_STATE_CANCELLED);
    cr_assert(access(memory, F_OK) != 0 && access(cpu, F_OK) != 0);
}

Test(cgroups, a_job_that_outgrows_its_group_ends_alone_with_71_and_says_which_limit)
{
    need_groups();
    setenv("TRAINERD_FAULTS", "coordinator.launch=stop", 1); /* the plan has been held against the limit */
    daemon_start();
    int64_t first = daemon_submit(
        &(struct daemon_job){.lines = "[train]\nepochs = 3\n[workers]\ncount = 2\nthreads = 1\n"});
    int64_t second = daemon_submit(
        &(struct daemon_job){.lines = "[train]\nepochs = 3\n[workers]\ncount = 2\nthreads = 1\n"});
    daemon_await_stopped(first, 1);
    daemon_await_stopped(second, 1);
    pid_t other = daemon_job(second)->pid;
    long long limit = limit_lower(group_of(daemon_job(first)->pid, "memory", first, 1));
    daemon_continue(first);
    cr_assert_eq(daemon_await_end(first), JOB_STATE_FAILED);
    const struct job_record *job = daemon_job(first);
    cr_assert_eq(job->exit_code, 71, "%d: %s", job->exit_code, job->reason_text);
    char plan[64];
    snprintf(plan, sizeof plan, "may have %lld bytes, as its plan is %lld", limit, (long long)job->memory);
    cr_assert(strstr(job->reason_text, "memory ran out") &&
                  strstr(job->reason_text, "its control group trainerd-job-") && strstr(job->reason_text, plan),
              "%s", job->reason_text);
    cr_assert_eq(kill(other, 0), 0);
    daemon_continue(second);
    cr_assert_eq(daemon_await_end(second), JOB_STATE_SUCCEEDED, "%s", daemon_job(second)->reason_text);
}

/* This test's store, which the folder of jobs names; "": there is none yet. */
static const char *store_name(void)
{
    static char store[64];
    store[0] = '\0';
    if (folder_has("state/jobs/.store")) {
        folder_read("state/jobs/.store", store, sizeof store);
    }
    store[strspn(store, "0123456789abcdef")] = '\0';
    return store;
}

/* The group of a job's planning; NULL: there is none now. */
static const char *group_of_planning(const char *controller, int64_t id)
{
    static char group[PATH_MAX];
    char command[256];
    snprintf(command, sizeof command, "find /sys/fs/cgroup/%s -name 'trainerd-job-%s-%lld-plan' 2>/dev/null",
             controller, store_name(), (long long)id);
    FILE *found = popen(command, "r");
    bool has_one = found != NULL && fgets(group, sizeof group, found) != NULL;
    cr_assert(found != NULL && pclose(found) >= 0); /* groups of others go meanwhile */
    group[strcspn(group, "\n")] = '\0';
    return has_one ? group : NULL;
}

Test(cgroups, planning_that_outgrows_its_group_ends_its_job_with_71)
{
    need_groups();
    setenv("TRAINERD_FAULTS", "coordinator.load=stop", 1); /* the graph is in memory, and METIS not begun */
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.graph = "generator = \"sbm\"\nnodes = 20000\ndegree = 20\n",
                                                    .lines = "[train]\nepochs = 3\n"});
    double since_s = clock_s();
    const char *group;
    int pid = 0;
    char path[PATH_MAX + 64], state = '?';
    while ((group = group_of_planning("memory", id)) == NULL) {
        cr_assert(patience_left(since_s), "planning has no group: %s", daemon_job(id)->reason_text);
        daemon_listen(20);
    }
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    while (state != 'T') {
        char stat[64];
        FILE *file = fopen(path, "r");
        cr_assert(file != NULL);
        pid = fscanf(file, "%d", &pid) == 1 ? pid : 0;
        fclose(file);
        snprintf(stat, sizeof stat, "/proc/%d/stat", pid);
        file = pid > 0 ? fopen(stat, "r") : NULL;
        cr_assert(file == NULL || (fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && fclose(file) == 0));
        cr_assert(patience_left(since_s));
    }
    limit_lower(group);
    cr_assert_eq(kill(pid, SIGCONT), 0);
    cr_assert_eq(daemon_await_end(id), JOB_STATE_FAILED);
    const struct job_record *job = daemon_job(id);
    cr_assert_eq(job->exit_code, 71, "%d: %s", job->exit_code, job->reason_text);
    cr_assert_not_null(strstr(job->reason_text, "memory ran out"), "%s",
                       job->reason_text); /* METIS's, which says so, or the coordinator's */
}

/* A process of the job's that has left its session, and its coordinator. */
static pid_t leave_session(const char *memory)
{
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        for (;;) {
            pause();
        }
    }
    char freezer[PATH_MAX];
    snprintf(freezer, sizeof freezer, "/sys/fs/cgroup/freezer/%s", strstr(memory, "trainerd-job-"));
    group_write(memory, "cgroup.procs", pid);
    group_write(freezer, "cgroup.procs", pid);
    return pid;
}

Test(cgroups, a_process_that_left_the_jobs_session_is_ended_with_the_job)
{
    need_groups();
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = LONG});
    daemon_await_epoch(id, 1, 1);
    pid_t left = leave_session(group_of(daemon_job(id)->pid, "memory", id, 1));
    daemon_kill();
    daemon_start(); /* by the next daemon, too */
    daemon_await_epoch(id, 1, 1);
    cr_assert_eq(waitpid(left, NULL, WNOHANG), 0, "it runs while the job does");
    cr_assert_eq(daemon_command('c', id, 0), STATUS_OK);
    int how = 0;
    cr_assert_eq(waitpid(left, &how, 0), left);
    cr_assert(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL, "%d", how);
    cr_assert_eq(daemon_await_end(id), JOB_STATE_CANCELLED);
}

/* Groups of this test's store, whose name a job's folder has. */
static int n_left(void)
{
    int n = 0;
    const char *store = store_name();
    cr_assert_eq(strlen(store), 32, "'%s'", store);
    DIR *all = opendir("/sys/fs/cgroup/freezer");
    for (struct dirent *one = all != NULL ? readdir(all) : NULL; one != NULL; one = readdir(all)) {
        n += strncmp(one->d_name, "trainerd-job-", 13) == 0 && strstr(one->d_name, store) != NULL;
    }
    cr_assert(all != NULL && closedir(all) == 0);
    return n;
}

Test(cgroups, a_daemon_that_dies_at_the_gate_leaves_no_group_and_its_job_runs_in_the_next_attempts)
{
    need_groups();
    setenv("TRAINERD_FAULTS", "daemon.gate=kill", 1);
    daemon_start();
    int64_t id = daemon_submit(&(struct daemon_job){.lines = "[train]\nepochs = 3\n"});
    double since_s = clock_s();
    while (!daemon_has_died()) {
        cr_assert(patience_left(since_s));
        daemon_listen(20);
    }
    unsetenv("TRAINERD_FAULTS");
    cr_assert_gt(n_left(), 0, "its group is there");
    daemon_start();
    cr_assert_eq(daemon_await_end(id), JOB_STATE_SUCCEEDED);
    cr_assert_eq(daemon_job(id)->n_restart, 0);
    cr_assert_eq(n_left(), 0);
}

#endif
