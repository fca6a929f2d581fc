/* An idle daemon: seconds from submit to a job's first epoch. Then one under load, with a running job, thousands of queued ones, clients
 * that send requests at a fixed rate and others that follow the job's log: the latency of answers, counted from when the request was due,
 * and the daemon's memory. Runs the programs beside it.
 *
 *   usage: bench_daemon [JOBS [REQUESTS]]      10000 and 100000 when not given
 */
#include "tests/bench/bench.h"
#include "tests/bench/bench_peer.h"

#include <poll.h>

#define N_ASKER 10
#define N_FOLLOWER 50
#define RATE 200
#define PACED_S 20
#define N_PACED (RATE * PACED_S)
#define N_FIRST 5   /* jobs that are timed from submit to their first epoch */
#define RUNNING "6" /* the job after them, which runs for the rest of the benchmark */

static const char trains[] =
    "[dataset]\\ngenerator = \\\"karate\\\"\\n[workers]\\ncount = 2\\n[train]\\nepochs = 1\\n";
static const char waits[] =
    "[dataset]\\ngenerator = \\\"karate\\\"\\n[workers]\\ncount = 1\\n[output]\\ndir = \\\"waits\\\"\\n";

static struct peer peers[N_ASKER + N_FOLLOWER];
static struct asker {
    double due[N_PACED]; /* times of the requests, in order */
    int n_sent, n_answered;
} askers[N_ASKER];
static double latency[N_PACED];
static int n_latency;

static double resident_mib(void)
{
    char path[64], line[256];
    long long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)daemon_pid);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        sscanf(line, "VmRSS: %lld", &kib);
    }
    if (file != NULL) {
        fclose(file);
    }
    return (double)kib / 1024.0;
}

static void submit(const char *config)
{
    char request[TEXT_BYTES];
    snprintf(request, sizeof request, "{\"v\":1,\"cmd\":\"submit\",\"folder\":\"%s\",\"config\":\"%s\"}\n", folder,
             config);
    peer_ask(&peers[0], request);
}

/* Seconds from submit to the first line of metrics, received by a client that follows them. The stream consists of such lines and
 * its end. */
static double first_epoch(int job)
{
    char name[16], request[TEXT_BYTES], line[TEXT_BYTES] = "";
    struct peer follower;
    peer_open(&follower, 0);
    snprintf(name, sizeof name, "%d", job);
    snprintf(request, sizeof request, "{\"v\":1,\"cmd\":\"metrics\",\"job\":\"%s\",\"follow\":true}\n", name);
    double begin = clock_s();
    submit(trains);
    peer_send(&follower, request);
    int n_line;
    while ((n_line = peer_read(&follower, line, sizeof line)) == 0) {
    }
    double end = clock_s();
    if (n_line == 1 && strstr(line, "\"event\":\"epoch\"") == NULL) {
        fail(line);
    }
    close(follower.socket);
    free(follower.got);
    await_state(&peers[0], name, "\"SUCCEEDED\"");
    return end - begin;
}

static void submit_all(int n_job)
{
    submit(runs);
    await_state(&peers[0], RUNNING, "\"STARTING\"");
    for (int i = 1; i < n_job; i++) {
        submit(waits);
    }
}

/* Append a line to the job's log, as its coordinator would, for the followers. */
static void log_more(void)
{
    char path[64];
    snprintf(path, sizeof path, "%s/state/jobs/" RUNNING "/log", folder);
    FILE *file = fopen(path, "a");
    if (file != NULL) {
        fputs("a line such as a coordinator writes when an evaluation is done: epoch 100 of 1000, loss 0.123456\n",
              file);
        fclose(file);
    }
}

static void take_answers(int wait_ms)
{
    struct pollfd files[N_ASKER + N_FOLLOWER];
    for (int i = 0; i < N_ASKER + N_FOLLOWER; i++) {
        files[i] = (struct pollfd){.fd = peers[i].socket, .events = POLLIN};
    }
    poll(files, N_ASKER + N_FOLLOWER, wait_ms);
    double now = clock_s();
    for (int i = 0; i < N_ASKER + N_FOLLOWER; i++) {
        int n = files[i].revents != 0 ? peer_read(&peers[i], NULL, 0) : 0;
        if (i >= N_ASKER) {
            continue;
        }
        for (; n > 0; n--) {
            latency[n_latency++] = now - askers[i].due[askers[i].n_answered++];
        }
    }
}

/* RATE requests a second, however long the answers take. */
static void ask_steadily(void)
{
    double begin = clock_s();
    for (int sent = 0; n_latency < N_PACED;) {
        double now = clock_s(), due = begin + (double)sent / RATE;
        if (sent < N_PACED && now >= due) {
            struct asker *asker = &askers[sent % N_ASKER];
            asker->due[asker->n_sent++] = due;
            peer_send(&peers[sent % N_ASKER], "{\"v\":1,\"cmd\":\"status\"}\n");
            if (sent++ % (RATE / 10) == 0) {
                log_more();
            }
            continue;
        }
        take_answers(sent < N_PACED ? (int)(1e3 * (due - now)) : 100);
    }
}

static void ask_as_fast_as_it_goes(int n_request)
{
    for (int done = 0; done < n_request; done += N_ASKER) {
        for (int i = 0; i < N_ASKER; i++) {
            peer_send(&peers[i], "{\"v\":1,\"cmd\":\"status\",\"limit\":10}\n");
        }
        for (int i = 0; i < N_ASKER; i++) {
            while (peer_read(&peers[i], NULL, 0) == 0) {
            }
        }
        struct pollfd more[N_FOLLOWER];
        for (int i = 0; i < N_FOLLOWER; i++) {
            more[i] = (struct pollfd){.fd = peers[N_ASKER + i].socket, .events = POLLIN};
        }
        poll(more, N_FOLLOWER, 0);
        for (int i = 0; i < N_FOLLOWER; i++) {
            if (more[i].revents != 0) {
                peer_read(&peers[N_ASKER + i], NULL, 0);
            }
        }
    }
}

int main(int argc, char **argv)
{
    int n_job = argc > 1 ? atoi(argv[1]) : 10000, n_request = argc > 2 ? atoi(argv[2]) : 100000;
    char figure[128];
    daemon_start();
    for (int i = 0; i < N_ASKER; i++) {
        peer_open(&peers[i], 0);
        peer_ask(&peers[i], "{\"v\":1,\"cmd\":\"hello\"}\n");
    }
    double first_s[N_FIRST];
    for (int i = 0; i < N_FIRST; i++) {
        first_s[i] = first_epoch(i + 1);
    }
    qsort(first_s, N_FIRST, sizeof *first_s, compare);
    double begin = clock_s();
    submit_all(n_job);
    double submit_s = clock_s() - begin, loaded_mib = resident_mib();
    for (int i = N_ASKER; i < N_ASKER + N_FOLLOWER; i++) {
        peer_open(&peers[i], 0);
        peer_send(&peers[i], "{\"v\":1,\"cmd\":\"logs\",\"job\":\"" RUNNING "\",\"follow\":true}\n");
    }
    ask_steadily();
    qsort(latency, N_PACED, sizeof *latency, compare);
    double before_mib = resident_mib();
    begin = clock_s();
    ask_as_fast_as_it_goes(n_request);
    double fast_s = clock_s() - begin, after_mib = resident_mib();

    bench_header();
    double typical = first_s[N_FIRST / 2], longest = first_s[N_FIRST - 1];
    bench_line("submit to first epoch, karate, 2 workers: median of 5", typical, "s", 1, 1 / typical, 1);
    bench_line("the same: longest", longest, "s", 1, 1 / longest, 0);
    snprintf(figure, sizeof figure, "submits a second, up to %d jobs", n_job);
    bench_line(figure, n_job / submit_s, "/s", 0, 0, 0);
    double median = latency[N_PACED / 2], p99 = latency[N_PACED * 99 / 100];
    bench_line("status at 200/s, 50 followers of a log: median", 1e3 * median, "ms", 20, 0.020 / median, 0);
    bench_line("the same: 99th percentile", 1e3 * p99, "ms", 20, 0.020 / p99, 1);
    bench_line("the same: longest", 1e3 * latency[N_PACED - 1], "ms", 20, 0.020 / latency[N_PACED - 1], 0);
    snprintf(figure, sizeof figure, "the daemon's memory with %d jobs", n_job);
    bench_line(figure, loaded_mib, "MiB", 64, 64 / loaded_mib, 1);
    snprintf(figure, sizeof figure, "the same after %d requests more", n_request);
    bench_line(figure, after_mib, "MiB", 64, 64 / after_mib, 1);
    bench_line("memory before these requests, against after", before_mib, "MiB", after_mib, before_mib / after_mib,
               0.97);
    bench_line("status of 10 jobs as fast as it goes", n_request / fast_s, "/s", 0, 0, 0);
    daemon_stop(&peers[0], RUNNING);
    return 0;
}
