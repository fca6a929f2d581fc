/* Jobs with workers.launcher = "ssh", and an ssh of the test's folder in place of OpenSSH's: it hands its command to a shell on this
 * machine, as sshd does. scripts/check-ssh has a real sshd. */
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Also notes its arguments, the host first, and of its environment what a real one would not give to the command. */
static const char ssh[] = "#!/bin/bash\n"
                          "while [[ $1 != -- ]]; do options+=(\"$1\"); shift; done\n"
                          "printf '%s %s %s\\n' \"$2\" \"$3\" \"${options[*]}\" >> seen\n"
                          "[[ $2 != away ]] || { echo 'ssh: away: no such host' >&2; exit 255; }\n"
                          "echo $$ >> pids\n"
                          "exec env -i TRAINERD_FAULTS=\"$TRAINERD_FAULTS\" sh -c \"$3\"\n";

#define SSH "PATH=$PWD:$PATH UCX_TRAINERD_TEST=\"it's\""
#define HERE "--set workers.listen=127.0.0.1:0 "

static void ssh_make(void)
{
    folder_make();
    folder_write("ssh", ssh);
    cr_assert_eq(chmod(folder_path("ssh"), 0700), 0);
    folder_write("hosts", "one slots=2\nann@two port=2222\nthree\n");
    folder_write("job.toml",
                 "[dataset]\ngenerator = \"sbm\"\nnodes = 600\ndegree = 8\nfeatures = 12\n[partition]\nparts = 4\n"
                 "cache = \"off\"\n[model]\nkind = \"sage\"\nhidden = 8\n[train]\nepochs = 12\ncheckpoint_every = 2\n"
                 "[workers]\nthreads = 1\nlauncher = \"ssh\"\nhosts = \"hosts\"\n");
}

TestSuite(ssh, .init = ssh_make, .fini = folder_remove, .timeout = 900);

static void train_here(void)
{
    job_run("--set workers.launcher=local --set workers.count=2 --set output.dir=here");
}

static void expect_none_left(void)
{
    int pid;
    char pids[256];
    folder_read("pids", pids, sizeof pids);
    for (char *at = pids; sscanf(at, "%d", &pid) == 1; at = strchr(at, '\n') + 1) {
        cr_expect(kill(pid, 0) == -1 && errno == ESRCH, "worker %d is left", pid);
    }
}

Test(ssh, a_worker_for_each_slot_trains_the_same_bits_as_workers_of_this_machine)
{
    char seen[1 << 15];
    train_here();
    job_run_expect(0, "worker 3 joined: pid ", SSH, HERE "--set output.dir=far");
    results_expect_same(folder_path("here"), folder_path("far"), false);
    expect_none_left();
    folder_read("seen", seen, sizeof seen);
    cr_expect_not_null(strstr(seen, "one exec env"), "%s", seen);
    cr_expect_not_null(strstr(seen, "ann@two exec env"), "%s", seen);
    cr_expect_not_null(strstr(seen, "-oBatchMode=yes -o ConnectTimeout=60 -p2222"), "%s", seen);
    cr_expect_not_null(strstr(seen, "'UCX_TRAINERD_TEST=it'\\''s'"), "%s", seen);
    cr_expect_not_null(strstr(seen, " --token-fd 0 --join-timeout 60 --rank 3"), "%s", seen);
}

Test(ssh, fewer_workers_than_slots_take_the_first_and_more_are_refused)
{
    char seen[1 << 15];
    job_run_expect(0, "worker 2 joined: pid ", SSH, HERE "--set workers.count=3 --set output.dir=far");
    folder_read("seen", seen, sizeof seen);
    cr_expect_null(strstr(seen, "three exec"), "%s", seen);
    job_run_expect(78, "workers.count = 5, and 'hosts' has 4 slots", SSH,
                   "--set workers.count=5 --set partition.parts=8");
    job_run_expect(78, "the slots of workers.hosts are more than partition.parts = 2", SSH,
                   "--set partition.parts=2");
    job_run_expect(78, "needs workers.hosts", SSH, "--set workers.hosts=");
    job_run_expect(66, "workers.hosts: ", SSH, "--set workers.hosts=none");
    folder_write("hosts", "one\ntwo slot=2\n");
    job_run_expect(78, "hosts:2: unknown word 'slot=2'", SSH, "");
}

Test(ssh, a_host_that_is_away_and_a_program_that_is_not_there_are_named)
{
    folder_write("hosts", "one\naway\n");
    job_run_expect(69, " on away) was not started, killed or lost by ssh (exit code 255", SSH, HERE);
    cr_expect_not_null(strstr(job_run_log, "ssh: away: no such host"), "%s", job_run_log);
    expect_none_left();
    folder_write("hosts", "one\n");
    job_run_expect(78, "expected the path of trainer-worker there as workers.program", SSH,
                   HERE "--set workers.program=/none/worker");
    job_run_expect(69, "expected ssh in PATH", "PATH=/nowhere", HERE);
}

Test(ssh, a_worker_that_cannot_reach_the_coordinator_says_so)
{
    folder_write("hosts", "one\n");
    folder_write("ssh",
                 "#!/bin/bash\nwhile [[ $1 != -- ]]; do shift; done\nexec sh -c \"${3/127.0.0.1/127.0.0.2}\"\n");
    job_run_expect(69, "trainer-worker: cannot reach the coordinator at 127.0.0.2:", SSH,
                   HERE "--set workers.join_timeout=1.5");
}
