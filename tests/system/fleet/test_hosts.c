/* A job on two machines, its workers started by hand: they share a cable, and no file but the programs. */
#include "protocol/base/clock.h"
#include "tests/support/graphs/array_save.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/machines.h"
#include "tests/support/process/patience.h"
#include "tests/support/process/results.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define JOIN "10.77.0.1:7700"
#define ENDLESS "--set", "train.epochs=1000000", "--set", "workers.heartbeat_timeout=2"
#define LOST_S 15 /* five times a timeout of 2 s and the second that the others have to end */

static struct machine machines[2] = {{.name = "north", .address = "10.77.0.1/24"},
                                     {.name = "south", .address = "10.77.0.2/24"}};
static struct machine *const north = &machines[0], *const south = &machines[1];
static struct process coordinator, workers[3];
static char coordinator_path[PATH_MAX], worker_path[PATH_MAX], token[256];

/* A graph of 300 nodes as files: a circle with chords. */
static void data_make(void)
{
    enum { N = 300, F = 24 };
    static int64_t edges[2][4 * N], labels[N], split[3][N / 3];
    static float features[N][F];
    for (int64_t i = 0; i < N; i++) {
        const int64_t to[2] = {(i + 1) % N, (7 * i + 3) % N};
        for (int64_t k = 0; k < 2; k++) {
            edges[0][4 * i + 2 * k] = edges[1][4 * i + 2 * k + 1] = i;
            edges[1][4 * i + 2 * k] = edges[0][4 * i + 2 * k + 1] = to[k];
        }
        for (int64_t k = 0; k < F; k++) {
            features[i][k] = (float)((i * 37 + k * k * 11) % 101) / 101;
        }
        labels[i] = i * 4 / N;
        split[i % 3][i / 3] = i;
    }
    cr_assert_eq(mkdir(folder_path("data"), 0700), 0);
    array_save("data/edges.npy", NPY_TYPE_I64, 2, (int64_t[]){2, 4 * N}, edges);
    array_save("data/features.npy", NPY_TYPE_F32, 2, (int64_t[]){N, F}, features);
    array_save("data/labels.npy", NPY_TYPE_I64, 1, (int64_t[]){N}, labels);
    array_save("data/train_idx.npy", NPY_TYPE_I64, 1, (int64_t[]){N / 3}, split[0]);
    array_save("data/valid_idx.npy", NPY_TYPE_I64, 1, (int64_t[]){N / 3}, split[1]);
    array_save("data/test_idx.npy", NPY_TYPE_I64, 1, (int64_t[]){N / 3}, split[2]);
    folder_write(
        "job.toml",
        "[dataset]\npath = \"data\"\n[partition]\nparts = 3\ncache = \"off\"\n[model]\nkind = \"sage\"\nhidden = 16\n"
        "dropout = 0.5\n[train]\nepochs = 20\n[workers]\nthreads = 1\n");
}

static void make_all(void)
{
    if (!machines_open(machines)) {
        cr_skip_test("network namespaces need root and iproute2");
    }
    program_find("trainer-coordinator", coordinator_path, sizeof coordinator_path);
    program_find("trainer-worker", worker_path, sizeof worker_path);
    folder_make();
    data_make();
}

static void remove_all(void)
{
    machines_close(machines);
    folder_remove();
}

TestSuite(hosts, .init = make_all, .fini = remove_all, .timeout = 900);

/* --- a job under way --- */

#define COORDINATE(...) coordinate((const char *const[]){__VA_ARGS__, NULL})

/* Start the coordinator in the north, and take its token as a user would. */
static void coordinate(const char *const further[])
{
    const char *arguments[32] = {coordinator_path,
                                 "--config",
                                 "job.toml",
                                 "--set",
                                 "workers.launcher=manual",
                                 "--set",
                                 "workers.token_file=secret",
                                 "--set",
                                 "workers.listen=" JOIN};
    for (int i = 0; further[i] != NULL; i++) {
        arguments[9 + i] = further[i];
    }
    process_start(&coordinator, north, folder, NULL, arguments);
    process_await(&coordinator, "waiting for ");
    struct stat about;
    cr_assert_eq(stat(folder_path("secret"), &about), 0);
    cr_assert_eq(about.st_mode & 07777, 0600u, "only their owner reads tokens");
    folder_read("secret", token, sizeof token);
}

/* Start worker i on a machine, with that token and no other file. */
static void join(int i, const struct machine *machine, const char *secret)
{
    const char *const arguments[] = {worker_path, "--join", JOIN, "--token-file", "token", NULL};
    process_start(&workers[i], machine, folder, secret, arguments);
}

static void expect_end(struct process *process, int code, const char *part)
{
    int got = process_finish(process);
    cr_assert_eq(got, code, "exit %d: %s", got, process->words);
    cr_assert_not_null(strstr(process->words, part), "'%s' is not in: %s", part, process->words);
}

/* Worker i was lost at `since`: the coordinator says so in time. */
static void expect_lost(int i, const char *how, double since)
{
    char who[64];
    expect_end(&coordinator, 69, how);
    cr_assert_lt(clock_s() - since, LOST_S);
    snprintf(who, sizeof who, "trainerd: worker %d (pid %d on south) ", i, workers[i].pid);
    cr_assert_not_null(strstr(coordinator.words, who), "'%s' is not in: %s", who, coordinator.words);
}

/* A job with worker 0 in the north and worker 1 in the south, training. */
static void train(void)
{
    COORDINATE(ENDLESS, "--set", "workers.count=2");
    join(0, north, token);
    process_await(&coordinator, "worker 0 joined: ");
    join(1, south, token);
    process_await(&coordinator, "epoch 1/");
}

Test(hosts, workers_on_two_machines_leave_the_same_files_as_one_worker_here)
{
    process_start(&coordinator, NULL, folder, NULL,
                  (const char *const[]){coordinator_path, "--config", "job.toml", "--set", "output.dir=alone", NULL});
    expect_end(&coordinator, 0, "results in alone");
    COORDINATE("--set", "output.dir=apart", "--set", "workers.count=3");
    join(0, north, token);
    join(1, south, token);
    join(2, south, token);
    expect_end(&coordinator, 0, "results in apart");
    for (int i = 0; i < 3; i++) {
        expect_end(&workers[i], 0,
                   "trainer-worker: connected to " JOIN ", waiting until the job's other workers are, too\n");
        cr_assert_not_null(strstr(workers[i].words, " of 3 of job 'job', with 1 thread\n"), "%s", workers[i].words);
        cr_assert_not_null(strstr(workers[i].words,
                                  "trainer-worker: has 1 of 3 parts, and trains\ntrainer-worker: the job is done\n"),
                           "%s", workers[i].words);
    }
    results_expect_same(folder_path("alone"), folder_path("apart"), false);
}

/* UCX takes both machines for one, and would share memory where it cannot wake a process. */
Test(hosts, workers_that_share_memory_and_no_network_exchange_rows_over_the_network)
{
    setenv("UCX_TLS", "all", 1);
    COORDINATE("--set", "train.epochs=2", "--set", "workers.count=2", "--set", "output.dir=o");
    join(0, north, token);
    process_await(&coordinator, "worker 0 joined: ");
    join(1, south, token);
    expect_end(&coordinator, 0, "worker 0 and worker 1 are on one machine in different namespaces");
    expect_end(&workers[0], 0, "");
    expect_end(&workers[1], 0, "");
    unsetenv("UCX_TLS");
}

/* On each machine an interface with the address that all machines have there, and one of a network that leads elsewhere. */
static void networks_make(void)
{
    char command[512];
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command,
                 "ip link add docker0 type veth peer name inner && ip addr add 172.17.0.1/16 dev docker0 && "
                 "ip link add storage type veth peer name disk && ip addr add 192.168.%d.9/24 dev storage && "
                 "for i in docker0 inner storage disk; do ip link set $i up; done && "
                 "until [ $(ip -br link show up | grep -c LOWER_UP) -ge 6 ]; do sleep 0.01; done",
                 i);
        cr_assert_eq(machine_run(&machines[i], command), 0);
    }
}

Test(hosts, rows_take_the_network_by_which_a_worker_joined)
{
    networks_make();
    COORDINATE("--set", "output.dir=o", "--set", "workers.count=2");
    join(0, north, token);
    join(1, south, token);
    expect_end(&coordinator, 0, "results in o");
    expect_end(&workers[0], 0, "");
    expect_end(&workers[1], 0, "");
}

Test(hosts, a_network_that_leads_nowhere_is_named_with_both_addresses_and_the_setting)
{
    networks_make();
    COORDINATE("--set", "output.dir=o", "--set", "workers.count=1");
    setenv("UCX_NET_DEVICES", "storage", 1);
    join(0, south, token);
    expect_end(
        &coordinator, 69,
        ": worker 0 on south is at 10.77.0.2 (wire), this process at 10.77.0.1 (wire). UCX_NET_DEVICES=INTERFACE");
    expect_end(&workers[0], 69, "the coordinator ended the job: ");
}

Test(hosts, a_worker_with_the_wrong_token_is_told_so_and_the_job_goes_on)
{
    COORDINATE("--set", "output.dir=o", "--set", "workers.count=1");
    join(0, south, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n");
    expect_end(&workers[0], 69, "the token is not this job's");
    join(1, south, token);
    expect_end(&coordinator, 0, "results in o");
    expect_end(&workers[1], 0, "");
}

Test(hosts, any_address_is_told_to_workers_by_the_machines_name)
{
    COORDINATE("--set", "workers.listen=0.0.0.0:7700", "--set", "workers.join_timeout=1");
    expect_end(&coordinator, 69, "0 of 1 workers joined");
    cr_assert_not_null(strstr(coordinator.words, "--join north:7700 "), "%s", coordinator.words);
}

/* --- workers that are lost --- */

Test(hosts, a_stopped_worker_elsewhere_ends_the_job_by_its_name)
{
    train();
    double since = clock_s();
    cr_assert_eq(kill(workers[1].pid, SIGSTOP), 0);
    expect_lost(1, "was silent for ", since);
    expect_end(&workers[0], 69, "the coordinator ended the job: worker 1 ");
    cr_assert_eq(kill(workers[1].pid, SIGCONT), 0);
    expect_end(&workers[1], 69, "the coordinator ended the job: worker 1 ");
}

Test(hosts, a_killed_worker_elsewhere_ends_the_job_by_its_name)
{
    train();
    double since = clock_s();
    cr_assert_eq(kill(workers[1].pid, SIGKILL), 0);
    expect_lost(1, "closed its control connection", since);
    expect_end(&workers[0], 69, "the coordinator ended the job: worker 1 ");
    expect_end(&workers[1], 1000 + SIGKILL, "");
}

static void cable_cut(void)
{
    double since = clock_s();
    cr_assert_eq(machine_run(south, "ip link set wire down"), 0);
    expect_lost(1, " in epoch ", since);
    expect_end(&workers[0], 69, "the coordinator ended the job: worker 1 ");
    expect_end(&workers[1], 69, "lost the coordinator: ");
    cr_assert_lt(clock_s() - since, LOST_S);
}

Test(hosts, a_cut_cable_ends_the_job_and_the_worker_beyond_it)
{
    train();
    cable_cut();
}

Test(hosts, a_cable_that_is_cut_before_all_have_joined_is_noticed_on_both_ends)
{
    COORDINATE(ENDLESS, "--set", "workers.count=2");
    join(0, south, token);
    process_await(&coordinator, "worker 0 joined: ");
    double since = clock_s();
    cr_assert_eq(machine_run(south, "ip link set wire down"), 0);
    expect_lost(0, "before all had joined", since);
    expect_end(&workers[0], 69, "lost the coordinator: ");
    cr_assert_lt(clock_s() - since, 40, "five times the 8 s after which the kernel gives up");
}

Test(hosts, a_coordinator_that_answers_nothing_is_given_up_in_time)
{
    cr_assert_eq(machine_run(south, "ip neigh add 10.77.0.9 lladdr 02:00:00:00:00:09 dev wire"), 0);
    const char *const arguments[] = {
        worker_path, "--join", "10.77.0.9:7700", "--token-file", "token", "--join-timeout", "1", NULL};
    double since = clock_s();
    process_start(&workers[0], south, folder, "0123456789abcdef0123456789abcdef", arguments);
    expect_end(&workers[0], 69, "cannot reach the coordinator at 10.77.0.9:7700 within 1 s: ");
    cr_assert_lt(clock_s() - since, 10);
}

/* --- attempts --- */

/* Attempt 1 trains and has written a checkpoint. */
static void train_saving(void)
{
    cr_assert_eq(mkdir(folder_path("job"), 0700), 0);
    COORDINATE(ENDLESS, "--set", "workers.count=2", "--set", "train.checkpoint_every=10", "--set", "output.dir=two",
               "--job-folder", "job", "--attempt", "1");
    join(0, north, token);
    process_await(&coordinator, "worker 0 joined: ");
    join(1, south, token);
    for (double since = clock_s(); results_checkpoint(folder_path("two")) == 0 && patience_left(since);) {
    }
    cr_assert_gt(results_checkpoint(folder_path("two")), 0);
}

/* Attempt 2 goes on for so many epochs more, and is under way. */
static char more[64];

static void go_on(int n_more)
{
    snprintf(more, sizeof more, "train.epochs=%lld", results_checkpoint(folder_path("two")) + n_more);
    coordinator = (struct process){0};
    COORDINATE("--set", more, "--set", "workers.count=2", "--set", "output.dir=two", "--job-folder", "job",
               "--attempt", "2", "--resume");
    join(0, north, token);
    process_await(&coordinator, "worker 0 joined: ");
    join(2, south, token);
    process_await(&coordinator, "epoch ");
}

/* It ends as a job that was never disturbed. */
static void expect_undisturbed(void)
{
    expect_end(&coordinator, 0, "results in two");
    coordinator = (struct process){0};
    process_start(&coordinator, NULL, folder, NULL,
                  (const char *const[]){coordinator_path, "--config", "job.toml", "--set", "output.dir=one", "--set",
                                        more, NULL});
    expect_end(&coordinator, 0, "results in one");
    results_expect_same(folder_path("one"), folder_path("two"), false);
}

Test(hosts, a_worker_of_an_older_attempt_ends_without_touching_the_next_one)
{
    train_saving();
    double since = clock_s();
    cr_assert_eq(kill(workers[1].pid, SIGSTOP), 0);
    expect_lost(1, "was silent for ", since);
    expect_end(&workers[0], 69, "the coordinator ended the job: worker 1 ");
    workers[0] = (struct process){0};
    go_on(400);
    cr_assert_eq(kill(workers[1].pid, SIGCONT), 0); /* it wakes in the middle of the next attempt */
    expect_end(&workers[1], 69, "the coordinator ended the job: worker 1 ");
    expect_undisturbed();
}

Test(hosts, after_a_cut_cable_the_next_attempt_ends_with_the_same_bits)
{
    train_saving();
    cable_cut();
    cr_assert_eq(machine_run(south, "ip link set wire up; until ip link show wire | grep -q LOWER_UP; do :; done"),
                 0);
    workers[0] = (struct process){0};
    go_on(50);
    expect_undisturbed();
}

/* --- names that are the machine's own --- */

/* In namespaces of the test's own: as Debian writes /etc/hosts. */
Test(hosts, a_name_that_is_a_loopback_address_here_is_warned_of_with_the_line_that_says_so)
{
    folder_write("hosts", "127.0.0.1\tlocalhost\n# 10.77.0.1 node1\n127.0.1.1\tnode1.example node1\n");
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount(folder_path("hosts"), "/etc/hosts", NULL, MS_BIND, NULL) != 0) {
        cr_skip_test("/etc/hosts cannot be replaced");
    }
    static const char *const listens[] = {"workers.listen=NODE1:0", "workers.listen=localhost:0",
                                          "workers.listen=127.0.1.1:0"};
    for (int i = 0; i < 3; i++) {
        process_start(&coordinator, NULL, folder, NULL,
                      (const char *const[]){coordinator_path, "--config", "job.toml", "--set",
                                            "workers.launcher=manual", "--set", "workers.token_file=secret", "--set",
                                            listens[i], NULL});
        process_await(&coordinator, "waiting for ");
        cr_assert_eq(kill(coordinator.pid, SIGTERM), 0);
        expect_end(&coordinator, 75, "");
        bool warned = strstr(coordinator.words,
                             "workers.listen: 'NODE1' is 127.0.1.1 here, by line 3 of /etc/hosts: ") != NULL;
        cr_expect_eq(warned, i == 0, "%s: %s", listens[i], coordinator.words);
    }
}
