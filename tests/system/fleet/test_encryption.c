/* Jobs whose messages are sealed: the same bits, nothing of a row on the wire, and strangers' bytes at most end an attempt. */
#include "protocol/base/clock.h"
#include "tests/support/graphs/array_save.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/job_run.h"
#include "tests/support/process/machines.h"
#include "tests/support/process/patience.h"
#include "tests/support/process/results.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <limits.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MARKER 1234.5678F /* every feature of every node: what may not be seen */
enum { N_NODE = 80, N_FEATURE = 64 };

static char coordinator_path[PATH_MAX], worker_path[PATH_MAX];
static struct machine machines[2] = {{.name = "north", .address = "10.77.0.1/24"},
                                     {.name = "south", .address = "10.77.0.2/24"}};

static void make_all(void)
{
    program_find("trainer-coordinator", coordinator_path, sizeof coordinator_path);
    program_find("trainer-worker", worker_path, sizeof worker_path);
    folder_make();
    folder_write(
        "job.toml",
        "[dataset]\ngenerator = \"sbm\"\nnodes = 3000\ndegree = 10\nfeatures = 24\n[partition]\nparts = 6\n"
        "cache = \"off\"\n[model]\nkind = \"sage\"\nlayers = 3\nhidden = 32\ndropout = 0.5\n[train]\nepochs = 6\n"
        "[workers]\nthreads = 1\n");
}

TestSuite(encryption, .init = make_all, .fini = folder_remove, .timeout = 180);

static void expect_cipher(const char *output, bool sealed)
{
    json_t *result = results_of(output);
    const char *cipher = json_string_value(json_object_get(json_object_get(result, "machines"), "cipher"));
    cr_expect_eq(strcmp(cipher, "none") != 0, sealed, "%s: %s", output, cipher);
    json_decref(result);
}

Test(encryption, sealed_jobs_have_the_bits_of_plain_ones_on_any_number_of_workers)
{
    char output[32];
    job_run("--set workers.count=2 --set output.dir=plain");
    expect_cipher("plain", false);
    for (int n = 1; n <= 4; n++) {
        snprintf(output, sizeof output, "sealed%d", n);
        job_run("--set workers.count=%d --set workers.encryption=on --set output.dir=%s", n, output);
        results_expect_same(folder_path("plain"), folder_path(output), false);
        expect_cipher(output, true);
    }
}

Test(encryption, an_epoch_of_a_sealed_job_allocates_nothing_and_its_plan_is_what_is_measured)
{
    job_run("--set workers.count=3 --set workers.encryption=on --set output.dir=o");
    json_t *result = results_of("o");
    results_expect_memory(result, "all", "sealed");
    cr_expect_eq(results_number(result, "allocations_in_epochs"), 0.0);
    json_decref(result);
}

/* A ring of nodes, cut in two parts. */
static void ring_write(void)
{
    static float features[N_NODE][N_FEATURE];
    int64_t edges[2][2 * N_NODE], labels[N_NODE], some[3][4];
    for (int i = 0; i < N_NODE; i++) {
        edges[0][i] = edges[1][N_NODE + i] = i;
        edges[1][i] = edges[0][N_NODE + i] = (i + 1) % N_NODE;
        labels[i] = i % 2;
        for (int c = 0; c < N_FEATURE; c++) {
            features[i][c] = MARKER;
        }
    }
    for (int i = 0; i < 12; i++) {
        some[i / 4][i % 4] = 5 * i;
    }
    array_save("edges.npy", NPY_TYPE_I64, 2, (int64_t[]){2, 2 * N_NODE}, edges);
    array_save("features.npy", NPY_TYPE_F32, 2, (int64_t[]){N_NODE, N_FEATURE}, features);
    array_save("labels.npy", NPY_TYPE_I64, 1, (int64_t[]){N_NODE}, labels);
    array_save("train_idx.npy", NPY_TYPE_I64, 1, (int64_t[]){4}, some[0]);
    array_save("valid_idx.npy", NPY_TYPE_I64, 1, (int64_t[]){4}, some[1]);
    array_save("test_idx.npy", NPY_TYPE_I64, 1, (int64_t[]){4}, some[2]);
    folder_write(
        "ring.toml",
        "[dataset]\npath = \".\"\n[partition]\nparts = 2\ncache = \"off\"\n[model]\nkind = \"sage\"\nlayers = 2\n"
        "hidden = 8\n[train]\nepochs = 3\neval_every = 0\n[workers]\ncount = 2\nthreads = 1\nlauncher = \"manual\"\n"
        "listen = \"10.77.0.1:7799\"\ntoken_file = \"token\"\n");
}

/* Read what passes the first machine's end of the cable until `stop` is closed; exit code 1: four features in a row were seen, 0: not. */
static pid_t listener_start(int *stop_out)
{
    int stop[2], ready[2];
    char byte;
    cr_assert_eq(pipe(stop), 0);
    cr_assert_eq(pipe(ready), 0);
    pid_t self = getpid(), pid = fork();
    if (pid == 0) {
        die_with(self);
        close(stop[1]);
        static uint8_t packet[1 << 17];
        const float marker[4] = {MARKER, MARKER, MARKER, MARKER};
        int here = setns(machines[0].net, CLONE_NEWNET), bytes = 64 << 20,
            all = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
        const struct sockaddr_ll wire = {
            .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex("wire")};
        if (here != 0 || bind(all, (const struct sockaddr *)&wire, sizeof wire) != 0 ||
            setsockopt(all, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0 || write(ready[1], "", 1) != 1) {
            _exit(99);
        }
        bool seen = false;
        struct pollfd events[] = {{.fd = all, .events = POLLIN}, {.fd = stop[0], .events = POLLIN}};
        while (poll(events, 2, -1) > 0 && (events[0].revents != 0 || events[1].revents == 0)) {
            ssize_t n = recv(all, packet, sizeof packet, 0);
            for (size_t shift = 0; n > 0 && shift < sizeof(float) && !seen; shift++) {
                seen = memmem(packet, (size_t)n, marker, sizeof marker) != NULL;
            }
        }
        _exit(seen);
    }
    close(stop[0]);
    close(ready[1]);
    cr_assert_eq(read(ready[0], &byte, 1), 1, "cannot listen");
    close(ready[0]);
    *stop_out = stop[1];
    return pid;
}

static void expect_end(struct process *process)
{
    int got = process_finish(process);
    cr_assert_eq(got, 0, "exit %d: %s", got, process->words);
}

/* A job with a worker on each machine; whether features were seen on the cable. */
static bool ring_run(const char *encryption, const char *output)
{
    static struct process coordinator, workers[2];
    char token[256] = "", set[64];
    int stop, state;
    pid_t listener = listener_start(&stop);
    snprintf(set, sizeof set, "workers.encryption=%s", encryption);
    process_start(
        &coordinator, &machines[0], folder, NULL,
        (const char *const[]){coordinator_path, "--config", "ring.toml", "--set", output, "--set", set, NULL});
    process_await(&coordinator, "waiting for ");
    folder_read("token", token, sizeof token);
    for (int i = 0; i < 2; i++) {
        process_start(&workers[i], &machines[i], folder, token,
                      (const char *const[]){worker_path, "--join", "10.77.0.1:7799", "--token-file", "token",
                                            "--rank", i == 0 ? "0" : "1", NULL});
    }
    expect_end(&coordinator);
    expect_end(&workers[0]);
    expect_end(&workers[1]);
    close(stop);
    cr_assert_eq(waitpid(listener, &state, 0), listener);
    cr_assert(WIFEXITED(state) && WEXITSTATUS(state) <= 1, "the listener failed");
    return WEXITSTATUS(state) == 1;
}

Test(encryption, nothing_of_a_row_is_seen_between_two_machines_by_default)
{
    if (!machines_open(machines)) {
        cr_skip_test("network namespaces need root and iproute2");
    }
    ring_write();
    cr_expect(ring_run("off", "output.dir=plain"), "the listener sees rows that are plain");
    cr_expect_not(ring_run("auto", "output.dir=sealed"), "rows are seen");
    expect_cipher("plain", false);
    expect_cipher("sealed", true);
    results_expect_same_file(folder_path("plain"), folder_path("sealed"), "model.safetensors");
    machines_close(machines);
}

#define UCX_MAGIC 0xCAFEBABE12345678u /* UCT_TCP_MAGIC_NUMBER */

/* Send bytes to every port of the first machine that something listens at: the control socket's, and UCX's. Returns how many there were. */
static int ports_attack(void)
{
    char line[512];
    int n_port = 0;
    FILE *all = fopen("/proc/thread-self/net/tcp", "r");
    while (all != NULL && fgets(line, sizeof line, all) != NULL) {
        struct sockaddr_in at = {.sin_family = AF_INET};
        unsigned port, state;
        if (sscanf(line, " %*d: %8x:%4x %*8x:%*4x %2x", &at.sin_addr.s_addr, &port, &state) != 3 || state != 0x0a) {
            continue;
        }
        uint8_t bytes[4096];
        uint32_t x = port;
        for (size_t i = 0; i < sizeof bytes; i++) {
            x = x * 1664525u + 1013904223u;
            bytes[i] = (uint8_t)(x >> 24);
        }
        memcpy(bytes, &(uint64_t){UCX_MAGIC}, sizeof(uint64_t)); /* without it UCX closes the connection */
        memcpy(bytes + sizeof(uint64_t), (uint8_t[]){1, 0xff, 0xff, 0xff, 0x7f},
               5); /* a message that is longer than its buffer */
        if (at.sin_addr.s_addr == INADDR_ANY) {
            at.sin_addr.s_addr = inet_addr("10.77.0.1");
        }
        at.sin_port = htons((uint16_t)port);
        int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        n_port += connect(file, (struct sockaddr *)&at, sizeof at) == 0 &&
                  send(file, bytes, sizeof bytes, MSG_NOSIGNAL) == (ssize_t)sizeof bytes;
        close(file);
    }
    if (all != NULL) {
        fclose(all);
    }
    return n_port;
}

/* Attack once the job has a checkpoint. */
static pid_t attacker_start(const char *output)
{
    pid_t self = getpid(), pid = fork();
    if (pid == 0) {
        die_with(self);
        double since = clock_s();
        while (results_checkpoint(output) == 0 && patience_left(since)) {
        }
        _exit(setns(machines[0].net, CLONE_NEWNET) != 0 || ports_attack() < 3);
    }
    return pid;
}

/* They end processes of the attempt, the coordinator too, which is started again; none of them gets into the training. */
Test(encryption, bytes_at_the_ports_of_ucx_change_no_bit_of_the_result)
{
    static struct process process;
    char trainerd[PATH_MAX];
    if (!machines_open(machines)) {
        cr_skip_test("network namespaces need root and iproute2");
    }
    program_find("trainerd", trainerd, sizeof trainerd);
    setenv("UCX_TLS", "tcp", 1);
    setenv("UCX_NET_DEVICES", "wire", 1);
    static const char *const settings[] = {"workers.count=2", "workers.encryption=on",    "workers.max_restarts=5",
                                           "train.epochs=60", "train.checkpoint_every=1", "output.dir=attacked"};
    enum { N_SETTING = sizeof settings / sizeof *settings };
    const char *arguments[3 + 2 * N_SETTING + 1] = {trainerd, "--config", "job.toml"};
    for (int i = 0; i < N_SETTING; i++) {
        arguments[3 + 2 * i] = "--set";
        arguments[4 + 2 * i] = settings[i];
    }
    int attacked;
    pid_t attacker = attacker_start(folder_path("attacked"));
    process_start(&process, &machines[0], folder, NULL, arguments);
    expect_end(&process);
    cr_assert_not_null(strstr(process.words, "lost: trainer-coordinator was "), "%s", process.words);
    cr_assert_eq(waitpid(attacker, &attacked, 0), attacker);
    cr_assert(WIFEXITED(attacked) && WEXITSTATUS(attacked) == 0, "there were no ports");
    unsetenv("UCX_TLS");
    unsetenv("UCX_NET_DEVICES");
    job_run("--set workers.count=1 --set train.epochs=60 --set output.dir=alone");
    results_expect_same_model(folder_path("alone"), folder_path("attacked"));
    machines_close(machines);
}
