#include "protocol/base/cgroup.h"

#include "protocol/base/memory.h"
#include "tests/support/process/folder.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

TestSuite(cgroup, .init = folder_make, .fini = folder_remove);

#define NONE INT64_MAX
#define MIB ((int64_t)1 << 20)
#define SECOND "sys/fs/cgroup/"

/* A file of the fake root, with the folders above it. */
static void file_make(const char *name, const char *text)
{
    for (const char *slash = name; (slash = strchr(slash, '/')) != NULL; slash++) {
        char above[256];
        snprintf(above, sizeof above, "%.*s", (int)(slash - name), name);
        mkdir(folder_path(above), 0700);
    }
    folder_write(name, text);
}

static void group_is(const char *lines)
{
    file_make("proc/self/cgroup", lines);
}

Test(cgroup, the_least_limit_of_a_group_and_of_those_above_it_counts)
{
    group_is("0::/system.slice/job.scope\n");
    file_make(SECOND "system.slice/job.scope/memory.max", "max\n");
    cr_expect_eq(cgroup_memory_limit(folder), NONE);
    file_make(SECOND "system.slice/memory.max", "8388608\n");
    cr_expect_eq(cgroup_memory_limit(folder), 8 * MIB, "the one above");
    file_make(SECOND "system.slice/job.scope/memory.max", "2097152\n");
    cr_expect_eq(cgroup_memory_limit(folder), 2 * MIB, "its own");
    file_make(SECOND "memory.max", "1048576\n");
    cr_expect_eq(cgroup_memory_limit(folder), MIB, "the one that a container has as its root");
    file_make(SECOND "system.slice/other/memory.max", "1\n");
    cr_expect_eq(cgroup_memory_limit(folder), MIB, "no concern of ours");
}

Test(cgroup, kills_for_memory_are_those_of_the_first_group_that_counts_them_else_of_the_machine)
{
    cr_expect_eq(cgroup_oom_kills(folder), -1, "neither counts them");
    file_make("proc/vmstat", "nr_free_pages 7\noom_kill 9\nlast 1\n");
    group_is("4:memory:/slurm/job\n0::/a/b\n");
    file_make("sys/fs/cgroup/memory/slurm/job/memory.oom_control", "oom_kill 3\n"); /* version 1: not read */
    cr_expect_eq(cgroup_oom_kills(folder), 9);
    file_make(SECOND "a/memory.events", "low 0\nhigh 3\nmax 5\noom 4\noom_kill 2\noom_group_kill 1\n");
    cr_expect_eq(cgroup_oom_kills(folder), 2, "the group above has the controller");
    file_make(SECOND "a/b/memory.events", "oom_kill 1\n");
    cr_expect_eq(cgroup_oom_kills(folder), 1);
}

Test(cgroup, both_places_count_where_version_2_is_mounted_and_version_1_does_not)
{
    group_is("4:memory:/slurm/uid_0/job_7\n1:name=systemd:/\n0::/x\n");
    file_make("sys/fs/cgroup/memory/slurm/uid_0/job_7/memory.limit_in_bytes", "4096\n");
    cr_expect_eq(cgroup_memory_limit(folder), NONE);
    file_make(SECOND "unified/x/memory.max", "3145728\n");
    cr_expect_eq(cgroup_memory_limit(folder), 3 * MIB);
}

/* A container without a namespace of its own for groups reads the host's path. */
Test(cgroup, levels_that_are_not_there_are_passed_over)
{
    group_is("0::/docker/0123456789abcdef\n");
    file_make(SECOND "memory.max", "5242880\n");
    cr_expect_eq(cgroup_memory_limit(folder), 5 * MIB);
    group_is("0::/../../elsewhere\n");
    file_make("sys/fs/elsewhere/memory.max", "1\n");
    file_make(SECOND "memory.max", "6291456\n");
    cr_expect_eq(cgroup_memory_limit(folder), 6 * MIB, "a group outside of what a container sees");
}

Test(cgroup, what_cannot_be_read_as_a_limit_is_none)
{
    static const char *const limits[] = {"",
                                         "\n",
                                         "max",
                                         "-1\n",
                                         "-4096\n",
                                         " 4096\n",
                                         "4096 \n",
                                         "4096\n\n",
                                         "4096x",
                                         "0\n",
                                         "0x10\n",
                                         "1e6\n",
                                         "+4096\n",
                                         "99999999999999999999\n",
                                         "4096\n4096\n",
                                         "00000000000000000000000000000000000000000000000000004096\n"};
    group_is("0::/a\n");
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        file_make(SECOND "a/memory.max", limits[i]);
        cr_expect_eq(cgroup_memory_limit(folder), NONE, "'%s'", limits[i]);
    }
    file_make(SECOND "a/memory.max", "4096");
    cr_expect_eq(cgroup_memory_limit(folder), 4096, "the end of the line may be missing");
}

Test(cgroup, lines_that_name_no_group_are_passed_over)
{
    static char lines[3 * PATH_MAX];
    static const char *const bad[] = {
        "", "\n", ":", "::", "0:/a\n", "0::a\n", "1::/a\n", "0:memory:/a\n", "::/a\n", "0\n:\n:/a\n"};
    cr_expect_eq(cgroup_memory_limit(folder), NONE, "no /proc at all");
    file_make(SECOND "a/memory.max", "4096\n");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        group_is(bad[i]);
        cr_expect_eq(cgroup_memory_limit(folder), NONE, "'%s'", bad[i]);
    }
    memset(lines, 'a', sizeof lines - 1);
    memcpy(lines, "0::/", 4);
    memcpy(lines + PATH_MAX - 1, "0::/a\n0::/a\n", 12); /* the first is still of the line that has no room */
    lines[PATH_MAX + 5] = '\0';
    group_is(lines);
    cr_expect_eq(cgroup_memory_limit(folder), NONE);
    memcpy(lines + PATH_MAX + 5, "0::/a\n", 7);
    group_is(lines);
    cr_expect_eq(cgroup_memory_limit(folder), 4096);
}

Test(cgroup, the_machine_has_no_more_than_its_limit)
{
    int64_t limit = cgroup_memory_limit(""), physical = memory_physical();
    cr_expect_eq(memory_machine(), limit < physical ? limit : physical);
    cr_expect_str_eq(memory_machine_name(),
                     limit < physical ? "the control group's memory limit" : "this machine's memory");
}
