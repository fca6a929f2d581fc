/* A daemon of a benchmark's own, in a folder of its own, and connections to it. What fails ends the benchmark. */
#ifndef TESTS_BENCH_BENCH_PEER_H
#define TESTS_BENCH_BENCH_PEER_H

#include "protocol/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_BYTES 2048

/* Running, but without using a core: the coordinator waits for a worker to be started by hand. */
static const char runs[] =
    "[dataset]\\ngenerator = \\\"karate\\\"\\n[workers]\\ncount = 1\\nlauncher = \\\"manual\\\"\\n"
    "listen = \\\"127.0.0.1:0\\\"\\ntoken_file = \\\"token\\\"\\njoin_timeout = 86400\\n"
    "[output]\\ndir = \\\"runs\\\"\\n";

struct peer {
    int socket;
    char *got;
    size_t n_got, n_buffer;
};

static char folder[] = "/tmp/bench-daemon-XXXXXX";
static pid_t daemon_pid;

static inline void fail(const char *what)
{
    fprintf(stderr, "benchmark: %s: %s; see %s/log\n", what, strerror(errno), folder);
    if (daemon_pid > 0) {
        kill(daemon_pid, SIGTERM);
    }
    exit(1);
}

/* Start the daemon beside this program, in a folder that other users can enter. */
static inline void daemon_start(void)
{
    char self[TEXT_BYTES] = "", program[2 * TEXT_BYTES], address[64], state[64], log[64];
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0 || mkdtemp(folder) == NULL ||
        chmod(folder, 0755) != 0) {
        fail("cannot make a folder");
    }
    snprintf(program, sizeof program, "%s/trainerd", dirname(self));
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

/* Connect; as root, as that user. */
static inline void peer_open(struct peer *peer, uid_t uid)
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

static inline void peer_send(struct peer *peer, const char *text)
{
    if (send(peer->socket, text, strlen(text), MSG_NOSIGNAL) != (ssize_t)strlen(text)) {
        fail("cannot send");
    }
}

/* Receive bytes, then remove and count the complete lines. last: a buffer for the newest of them, or NULL */
static inline int peer_read(struct peer *peer, char *last, size_t n_last)
{
    if (peer->n_buffer - peer->n_got < 65536) {
        peer->n_buffer += 1 << 20;
        peer->got = realloc(peer->got, peer->n_buffer);
    }
    ssize_t n = recv(peer->socket, peer->got + peer->n_got, peer->n_buffer - peer->n_got, 0);
    if (n <= 0) {
        fail("the daemon has closed a connection");
    }
    peer->n_got += (size_t)n;
    int n_line = 0;
    char *at = peer->got, *end;
    while ((end = memchr(at, '\n', peer->n_got - (size_t)(at - peer->got))) != NULL) {
        if (last != NULL) {
            snprintf(last, n_last, "%.*s", (int)(end - at), at);
        }
        at = end + 1;
        n_line++;
    }
    peer->n_got -= (size_t)(at - peer->got);
    memmove(peer->got, at, peer->n_got);
    return n_line;
}

/* The answer to a request, which says that it went well. Valid until the next call. */
static inline const char *peer_ask(struct peer *peer, const char *request)
{
    static char answer[TEXT_BYTES];
    peer_send(peer, request);
    while (peer_read(peer, answer, sizeof answer) == 0) {
    }
    if (strstr(answer, "\"ok\":true") == NULL) {
        fail(answer);
    }
    return answer;
}

/* Wait until a job has the state, which is written with its quotes. */
static inline void await_state(struct peer *peer, const char *job, const char *state)
{
    char request[TEXT_BYTES];
    snprintf(request, sizeof request, "{\"v\":1,\"cmd\":\"status\",\"job\":\"%s\"}\n", job);
    for (double since = clock_s(); strstr(peer_ask(peer, request), state) == NULL; usleep(20000)) {
        if (clock_s() - since > 60) {
            fail("a job does not reach its state");
        }
    }
}

static inline int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* End the daemon first, so that it starts no further process; then the coordinator that it has started for this job. */
static inline void daemon_stop(struct peer *peer, const char *job)
{
    char text[TEXT_BYTES];
    snprintf(text, sizeof text, "{\"v\":1,\"cmd\":\"status\",\"job\":\"%s\"}\n", job);
    const char *at = strstr(peer_ask(peer, text), "\"pid\":");
    pid_t coordinator = at != NULL ? atoi(at + strlen("\"pid\":")) : 0;
    kill(daemon_pid, SIGTERM);
    waitpid(daemon_pid, NULL, 0);
    if (coordinator > 0) {
        kill(coordinator, SIGTERM);
        while (kill(coordinator, 0) == 0) {
            usleep(10000);
        }
    }
    snprintf(text, sizeof text, "rm -rf %s", folder);
    if (system(text) != 0) {
        fprintf(stderr, "benchmark: cannot remove %s\n", folder);
    }
}

#endif
