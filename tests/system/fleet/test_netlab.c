/* scripts/netlab runs a job on several machines with slow links, and counts the bytes that the job counts. */
#include "tests/support/process/folder.h"
#include "tests/support/process/machines.h"

#include <criterion/criterion.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static char coordinator[PATH_MAX];

static void make_all(void)
{
    program_find("trainer-coordinator", coordinator, sizeof coordinator);
    folder_make();
    folder_write(
        "job.toml",
        "[dataset]\ngenerator = \"sbm\"\nnodes = 4000\ndegree = 8\nfeatures = 32\n[partition]\nparts = 3\n"
        "cache = \"off\"\n[model]\nkind = \"sage\"\nlayers = 3\nhidden = 64\n[train]\nepochs = 30\neval_every = 0\n"
        "[workers]\nthreads = 1\n");
}

TestSuite(netlab, .init = make_all, .fini = folder_remove, .timeout = 900);

/* Exit code; what it says is in `said`. */
static int lab(const char *arguments, char *said, size_t n_said)
{
    char command[3 * PATH_MAX], programs[PATH_MAX];
    strcpy(programs, coordinator);
    snprintf(command, sizeof command, "scripts/netlab --bin %s %s > %s/said 2>&1", dirname(programs), arguments,
             folder);
    int how = system(command);
    folder_read("said", said, n_said);
    cr_assert(WIFEXITED(how), "%s", said);
    return WEXITSTATUS(how);
}

static void skip_without_namespaces(void)
{
    struct machine machines[2] = {{.name = "north", .address = "10.77.0.1/24"},
                                  {.name = "south", .address = "10.77.0.2/24"}};
    if (!machines_open(machines)) {
        cr_skip_test("network namespaces need root and iproute2");
    }
    machines_close(machines);
}

Test(netlab, a_job_on_three_machines_sends_what_it_counts)
{
    static char said[1 << 16];
    char arguments[PATH_MAX];
    skip_without_namespaces();
    snprintf(arguments, sizeof arguments, "--machines 3 --rate 200mbit %s/job.toml", folder);
    cr_assert_eq(lab(arguments, said, sizeof said), 0, "%s", said);
    const char *counted = strstr(said, "by the interfaces, ");
    cr_assert_not_null(counted, "%s", said);
    double times = atof(counted + strlen("by the interfaces, "));
    cr_expect_leq(fabs(times - 1.0), 0.05, "interfaces count %.3f times as much: %s", times, said);
    cr_expect_not_null(strstr(said, "epoch      "));
}

/* At the moment when the last one's namespace has a name, the program's process in it, and nothing else. */
Test(netlab, nothing_is_left_of_one_that_is_terminated)
{
    char command[4 * PATH_MAX], programs[PATH_MAX], said[4096];
    skip_without_namespaces();
    strcpy(programs, coordinator);
    snprintf(command, sizeof command,
             "exec > %s/said 2>&1; scripts/netlab --machines 2 --bin %s %s/job.toml --set train.epochs=1000000 > "
             "/dev/null 2>&1 & until [ -e /run/netns/netlab$!-m1 ]; do kill -0 $! || exit; done; kill -TERM $!; wait "
             "$!; echo ended with $?; ip netns list | grep netlab$!-",
             folder, dirname(programs), folder);
    cr_assert_eq(WEXITSTATUS(system(command)), 1, "grep found some");
    folder_read("said", said, sizeof said);
    cr_expect_str_eq(said, "ended with 143\n");
}

Test(netlab, wrong_arguments_are_named)
{
    char said[4096];
    cr_expect_eq(lab("nowhere.toml", said, sizeof said), 66);
    cr_expect_str_eq(said, "netlab: no job file 'nowhere.toml'\n");
    cr_expect_eq(lab("--machines 1 nowhere.toml", said, sizeof said), 2);
    cr_expect_str_eq(said, "netlab: --machines is 1, expected 2 to 200\n");
}
