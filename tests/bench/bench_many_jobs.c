/* A daemon with very many jobs of one user: how long another user waits for an answer while the group of all of them is cancelled and resumed, and
 * while that user asks as fast as it goes on 250 connections. Runs the programs beside it; as root the two are different users.
 *
 *   usage: bench_many_jobs [JOBS]      50000 when not given
 */
#include "tests/bench/bench.h"
#include "tests/bench/bench_peer.h"

#include <poll.h>

#define OTHER 65534 /* the user with the jobs */
#define N_AT_ONCE 1000
#define N_BUSY 250
#define BUSY_S 10
#define N_LATENCY 100000

static const char waits[] = "[dataset]\\ngenerator = \\\"karate\\\"\\n[workers]\\ncount = 1\\n";

static double latency[N_LATENCY];
static int n_latency;

/* Jobs of one submission. */
static void submit(struct peer *peer, const char *config, int n)
{
    char *request = malloc((size_t)n * 3 + TEXT_BYTES);
    int at = sprintf(request,
                     "{\"v\":1,\"cmd\":\"submit\",\"folder\":\"%s\",\"group\":\"g\",\"config\":\"%s\",\"jobs\":[[]",
                     folder, config);
    for (int i = 1; i < n; i++) {
        at += sprintf(request + at, ",[]");
    }
    sprintf(request + at, "]}\n");
    peer_ask(peer, request);
    free(request);
}

static void ask_once(struct peer *asker)
{
    double begin = clock_s();
    peer_ask(asker, "{\"v\":1,\"cmd\":\"status\"}\n");
    if (n_latency < N_LATENCY) {
        latency[n_latency++] = clock_s() - begin;
    }
    usleep(2000);
}

/* The longest and the 99th percentile; limit_s: of the longest */
static void report(const char *what, double limit_s)
{
    char figure[128];
    qsort(latency, (size_t)n_latency, sizeof *latency, compare);
    double longest = latency[n_latency - 1], p99 = latency[n_latency * 99 / 100];
    snprintf(figure, sizeof figure, "status of another user, %s: longest of %d", what, n_latency);
    bench_line(figure, 1e3 * longest, "ms", 1e3 * limit_s, limit_s / longest, 1);
    bench_line("the same: 99th percentile", 1e3 * p99, "ms", 1e3 * limit_s, limit_s / p99, 0);
    n_latency = 0;
}

/* Send a request that takes long, and ask until it is answered. Gives its seconds. */
static double ask_beside(struct peer *busy, const char *request, struct peer *asker)
{
    double begin = clock_s();
    peer_send(busy, request);
    char answer[TEXT_BYTES] = "";
    while (answer[0] == '\0') {
        struct pollfd file = {.fd = busy->socket, .events = POLLIN};
        ask_once(asker);
        if (poll(&file, 1, 0) == 1) {
            peer_read(busy, answer, sizeof answer);
        }
    }
    if (strstr(answer, "\"ok\":true") == NULL) {
        fail(answer);
    }
    return clock_s() - begin;
}

/* A process of its own keeps the connections busy. */
static void ask_beside_many(struct peer *asker)
{
    pid_t child = fork();
    if (child == 0) {
        static struct peer peers[N_BUSY];
        struct pollfd files[N_BUSY];
        for (int i = 0; i < N_BUSY; i++) {
            peer_open(&peers[i], OTHER);
            for (int k = 0; k < 20; k++) {
                peer_send(&peers[i], "{\"v\":1,\"cmd\":\"status\",\"group\":\"g\"}\n");
            }
            files[i] = (struct pollfd){.fd = peers[i].socket, .events = POLLIN};
        }
        for (;;) {
            poll(files, N_BUSY, -1);
            for (int i = 0; i < N_BUSY; i++) {
                if (files[i].revents != 0 && peer_read(&peers[i], NULL, 0) > 0) {
                    peer_send(&peers[i], "{\"v\":1,\"cmd\":\"status\",\"group\":\"g\"}\n");
                }
            }
        }
    }
    usleep(500000);
    for (double begin = clock_s(); clock_s() - begin < BUSY_S;) {
        ask_once(asker);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    int n_job = argc > 1 ? atoi(argv[1]) : 50000;
    daemon_start();
    struct peer asker, busy;
    peer_open(&asker, 0);
    peer_open(&busy, OTHER);
    submit(&asker, runs, 1);
    await_state(&asker, "1", "\"STARTING\"");
    bench_header();
    double begin = clock_s();
    for (int i = 0; i < n_job; i += N_AT_ONCE) {
        submit(&busy, waits, i + N_AT_ONCE <= n_job ? N_AT_ONCE : n_job - i);
    }
    bench_line("jobs submitted a second, 1000 at once", n_job / (clock_s() - begin), "/s", 0, 0, 0);
    for (int i = 0; i < 500; i++) {
        ask_once(&asker);
    }
    report("they wait", 0.05);
    double cancel_s = ask_beside(&busy, "{\"v\":1,\"cmd\":\"cancel\",\"group\":\"g\"}\n", &asker);
    bench_line("their group is cancelled in", cancel_s, "s", 0, 0, 0);
    report("meanwhile", 0.05);
    double resume_s = ask_beside(&busy, "{\"v\":1,\"cmd\":\"resume\",\"group\":\"g\"}\n", &asker);
    bench_line("it is resumed in", resume_s, "s", 0, 0, 0);
    report("meanwhile", 0.05);
    ask_beside_many(&asker);
    report("250 busy connections", 0.1);
    daemon_stop(&asker, "1");
    return 0;
}
