/* A daemon with very many jobs of one user: how long another user waits for an answer while the group of all of them is cancelled and resumed, and
 * while that user asks as fast as it goes on 250 connections. Runs the programs beside it; as root the two are different users.
 *
 *   usage: bench_many_jobs [JOBS]      50000 when not given
 */
#include "protocol/base/clock.h"
#include "tests/bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_BYTES 2048
#define OTHER 65534 /* the user with the jobs */
#define N_AT_ONCE 1000
#define N_BUSY 250
#define BUSY_S 10
#define N_LATENCY 100000

/* Running, but without using a core: the coordinator waits for a worker to be started by hand. */
static const char runs[] =
    "[dataset]\\ngenerator = \\\"karate\\\"\\n[workers]\\ncount = 1\\nlauncher = \\\"manual\\\"\\n"
    "listen = \\\"127.0.0.1:0\\\"\\ntoken_file = \\\"token\\\"\\njoin_timeout = 86400\\n"
    "[output]\\ndir = \\\"runs\\\"\\n";
static const char waits[] = "[dataset]\\ngenerator = \\\"karate\\\"\\n[workers]\\ncount = 1\\n";

struct peer {
    int socket;
    char *got;
    size_t n_got, n_buffer;
};

static char folder[] = "/tmp/bench-many-jobs-XXXXXX";
static pid_t daemon_pid;
static double latency[N_LATENCY];
static int n_latency;

static void fail(const char *what)
{
    fprintf(stderr, "bench_many_jobs: %s: %s; see %s/log\n", what, strerror(errno), folder);
    if (daemon_pid > 0) {
        kill(daemon_pid, SIGTERM);
    }
    exit(1);
}

static void start(const char *bin)
{
    char program[TEXT_BYTES], address[64], state[64], log[64];
    snprintf(program, sizeof program, "%s/trainerd", bin);
    snprintf(address, sizeof address, "unix:%s/s", folder);
    snprintf(state, sizeof state, "%s/state", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    daemon_pid = fork();
    if (daemon_pid == 0) {
        dup2(open(log, O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
        execl(program, program, "--listen", address, "--state", state, "--set", "slots=1", (char *)NULL);
        _exit(127);
    }
}

static void peer_open(struct peer *peer, uid_t uid)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s/s", folder);
    *peer = (struct peer){.socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    bool is_other = geteuid() == 0 && seteuid(uid) == 0;
    for (double since = clock_s(); connect(peer->socket, (struct sockaddr *)&name, sizeof name) != 0; usleep(10000)) {
        if (clock_s() - since > 20) {
            fail("the daemon does not answer");
        }
    }
    if (is_other && seteuid(0) != 0) {
        fail("cannot be root again");
    }
}

static void peer_send(struct peer *peer, const char *text)
{
    if (send(peer->socket, text, strlen(text), MSG_NOSIGNAL) != (ssize_t)strlen(text)) {
        fail("cannot send");
    }
}

/* Receive bytes; the first whole line, or NULL. */
static char *peer_read(struct peer *peer)
{
    if (peer->n_buffer - peer->n_got < 65536) {
        peer->n_buffer += 1 << 20;
        peer->got = realloc(peer->got, peer->n_buffer);
    }
    ssize_t n = recv(peer->socket, peer->got + peer->n_got, peer->n_buffer - peer->n_got - 1, 0);
    if (n <= 0) {
        fail("the daemon has closed a connection");
    }
    peer->n_got += (size_t)n;
    char *end = memchr(peer->got, '\n', peer->n_got);
    if (end != NULL) {
        *end = '\0';
        peer->n_got = 0;
    }
    return end != NULL ? peer->got : NULL;
}

static const char *peer_ask(struct peer *peer, const char *request)
{
    char *answer;
    peer_send(peer, request);
    while ((answer = peer_read(peer)) == NULL) {
    }
    if (strstr(answer, "\"ok\":true") == NULL) {
        fail(answer);
    }
    return answer;
}

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

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
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
    for (const char *answer = NULL; answer == NULL;) {
        struct pollfd file = {.fd = busy->socket, .events = POLLIN};
        ask_once(asker);
        answer = poll(&file, 1, 0) == 1 ? peer_read(busy) : NULL;
        if (answer != NULL && strstr(answer, "\"ok\":true") == NULL) {
            fail(answer);
        }
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
                if (files[i].revents != 0 && peer_read(&peers[i]) != NULL) {
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

static void end_all(struct peer *asker)
{
    const char *answer = peer_ask(asker, "{\"v\":1,\"cmd\":\"status\",\"job\":1}\n");
    const char *at = strstr(answer, "\"pid\":");
    pid_t coordinator = at != NULL ? atoi(at + strlen("\"pid\":")) : 0;
    kill(daemon_pid, SIGTERM);
    waitpid(daemon_pid, NULL, 0);
    if (coordinator > 0) {
        kill(coordinator, SIGTERM);
        while (kill(coordinator, 0) == 0) {
            usleep(10000);
        }
    }
    char command[TEXT_BYTES];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0) {
        fprintf(stderr, "bench_many_jobs: cannot remove %s\n", folder);
    }
}

int main(int argc, char **argv)
{
    int n_job = argc > 1 ? atoi(argv[1]) : 50000;
    char self[TEXT_BYTES];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0 || mkdtemp(folder) == NULL || chmod(folder, 0755) != 0) {
        return 1;
    }
    self[n] = '\0';
    start(dirname(self));
    struct peer asker, busy;
    peer_open(&asker, 0);
    peer_open(&busy, OTHER);
    submit(&asker, runs, 1);
    for (double since = clock_s();
         strstr(peer_ask(&asker, "{\"v\":1,\"cmd\":\"status\",\"job\":1}\n"), "\"STARTING\"") == NULL;) {
        if (clock_s() - since > 60) {
            fail("the job that runs does not start");
        }
        usleep(20000);
    }
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
    end_all(&asker);
    return 0;
}
