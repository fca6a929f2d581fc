/* Control groups of jobs on a folder that is laid out as groups are; on this machine: system/daemon/test_cgroups. */
#include "trainerd/daemon/supervisor/job_cgroups.h"

#include "tests/support/process/expect.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STORE "0123456789abcdef0123456789abcdef"

TestSuite(job_cgroups, .init = folder_make, .fini = folder_remove, .timeout = 600);

static struct job_cgroups groups;
static char name[JOB_CGROUPS_NAME_BYTES];

static const char *machine(const char *path)
{
    static char all[2 * PATH_MAX];
    snprintf(all, sizeof all, "m/%s", path);
    return all;
}

static void make(const char *path)
{
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command, "mkdir -p '%s'", folder_path(machine(path)));
    cr_assert_eq(system(command), 0);
}

static void put(const char *path, const char *text)
{
    folder_write(machine(path), text);
}

static void expect_file(const char *path, const char *text)
{
    char found[256];
    folder_read(machine(path), found, sizeof found);
    cr_assert_str_eq(found, text, "%s", path);
}

#define OWN "sys/fs/cgroup/system.slice/trainerd.service"
#define JOB OWN "/trainerd-job-" STORE "-7-2"

/* A machine with version 2, whose service has been given its groups; the group of job 7 is there, as the kernel would
 * make it. */
static void lay_out(const char *controllers)
{
    static const char *const files[] = {"cgroup.procs", "cgroup.kill", "memory.max", "memory.swap.max", "cpu.weight"};
    char path[PATH_MAX];
    make("proc/self");
    put("proc/self/cgroup", "0::/system.slice/trainerd.service\n");
    make(JOB);
    put("sys/fs/cgroup/cgroup.procs", "");
    put(OWN "/cgroup.controllers", controllers);
    put(OWN "/cgroup.subtree_control", "");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, JOB "/%s", files[i]);
        put(path, "");
    }
    put(JOB "/cgroup.events", "populated 1\nfrozen 0\n");
    put(JOB "/memory.events", "low 0\nhigh 0\nmax 12\noom 2\noom_kill 1\noom_group_kill 0\n");
}

Test(job_cgroups, memory_cores_and_processes_are_written_where_the_kernel_looks)
{
    char number[32], text[PATH_MAX];
    lay_out("cpuset cpu io memory pids\n");
    expect_done(job_cgroups_open(folder_path("m"), "cgroup", true, STORE, &groups));
    cr_assert(groups.kind == JOB_CGROUPS_OWN && groups.has_memory && groups.has_cores);
    expect_file(OWN "/cgroup.subtree_control", "+memory +cpu");
    job_cgroups_text(&groups, text, sizeof text);
    cr_assert(strstr(text, "control groups below ") && strstr(text, "memory enforced, cores shared by slots"), "%s",
              text);
    job_cgroup_name(&groups, 7, 2, name);
    expect_done(job_cgroup_begin(&groups, name, 123456789, 3, 4711));
    snprintf(number, sizeof number, "%d", 4711);
    expect_file(JOB "/cgroup.procs", number);
    expect_file(JOB "/memory.max", "123456789");
    expect_file(JOB "/memory.swap.max", "0");
    expect_file(JOB "/cpu.weight", "300");
    cr_assert_eq(job_cgroup_limit(&groups, name), 123456789);
    cr_assert_eq(job_cgroup_oom_kills(&groups, name), 1);
    cr_assert(job_cgroup_kill(&groups, name));
    expect_file(JOB "/cgroup.kill", "1");
    put(JOB "/cgroup.events", "populated 0\nfrozen 0\n");
    cr_assert_not(job_cgroup_kill(&groups, name));
}

Test(job_cgroups, memory_is_enforced_only_where_it_is_wanted)
{
    lay_out("cpu memory\n");
    expect_done(job_cgroups_open(folder_path("m"), "auto", false, STORE, &groups));
    cr_assert(groups.kind == JOB_CGROUPS_OWN && !groups.has_memory && groups.has_cores);
    job_cgroup_name(&groups, 7, 2, name);
    expect_done(job_cgroup_begin(&groups, name, 123456789, 1, 4711));
    expect_file(JOB "/memory.max", "");
    expect_file(JOB "/cpu.weight", "100");
}

static void expect_refused(const char *isolation, const char *words)
{
    expect_fails(job_cgroups_open(folder_path("m"), isolation, true, STORE, &groups), STATUS_CONFIG, words);
}

Test(job_cgroups, what_is_asked_for_and_not_there_is_refused_and_auto_goes_without)
{
    lay_out("pids\n"); /* not delegated */
    expect_refused(
        "cgroup",
        "no group can be made below the daemon's own whose memory is limited; expected cgroup version 2, delegated");
    expect_refused("scope", geteuid() == 0 ? "there is no /run/systemd/system; expected"
                                           : "the daemon is not root's; expected");
    expect_refused("jail", "daemon.isolation is 'jail', expected \"auto\", \"scope\", \"cgroup\" or \"none\"");
    cr_assert_eq(job_cgroups_open(folder_path("m"), "auto", true, STORE, &groups), STATUS_OK);
    cr_assert_eq(groups.kind, JOB_CGROUPS_NONE);
    cr_assert_eq(job_cgroups_open(folder_path("m"), "none", true, STORE, &groups), STATUS_OK);
    cr_assert_eq(groups.kind, JOB_CGROUPS_NONE);
    job_cgroup_name(&groups, 7, 2, name);
    cr_assert(!job_cgroup_kill(&groups, name) && job_cgroup_remove(&groups, name));
}

Test(job_cgroups, a_machine_with_version_1_only_has_none_and_the_log_says_what_is_expected)
{
    char text[PATH_MAX];
    make("proc/self");
    put("proc/self/cgroup", "4:memory:/\n1:cpu:/\n");
    make("sys/fs/cgroup/memory");
    put("sys/fs/cgroup/memory/cgroup.procs", "");
    cr_assert_eq(job_cgroups_open(folder_path("m"), "auto", true, STORE, &groups), STATUS_OK);
    job_cgroups_text(&groups, text, sizeof text);
    cr_assert_str_eq(text, "no control groups of their own, memory not enforced, cores not shared: this machine has "
                           "control groups of version 1; expected version 2, delegated to the daemon with the "
                           "controllers memory and cpu, or systemd");
}

Test(job_cgroups, a_group_that_cannot_be_made_is_named_with_the_reason)
{
    lay_out("cpu memory\n");
    expect_done(job_cgroups_open(folder_path("m"), "cgroup", true, STORE, &groups));
    job_cgroup_name(&groups, 7, 2, name);
    cr_assert_eq(unlink(folder_path(machine(JOB "/memory.max"))), 0);
    expect_fails(job_cgroup_begin(&groups, name, 1 << 30, 1, 4711), STATUS_IO,
                 "cannot make the control group 'trainerd-job-" STORE "-7-2': No such file");
}
