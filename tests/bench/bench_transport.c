/* Bytes between two processes of this host, against ucx_perftest in the same run; and how long an answer takes.
 *
 * One line per figure: figure|value|reference|ratio. Runs of both sides alternate, the best of each counts.
 */
#include "protocol/transport.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)4 << 20)
#define N_UNDER_WAY 4
#define N_PIECE 256
#define N_ANSWER 4000
#define N_RUN 3
#define PORT "13777"

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct side {
    struct transport *transport;
    char *room; /* one piece, as ucx_perftest has it: both sides find it in the same caches */
    long n_arrived;
    uint16_t last_kind;
};

static void *side_place(void *arg, const struct transport_head *head, size_t n_bytes)
{
    struct side *side = arg;
    (void)head;
    (void)n_bytes;
    return side->room;
}

static void side_arrived(void *arg, const struct transport_head *head, void *body, size_t n_bytes)
{
    struct side *side = arg;
    (void)body;
    (void)n_bytes;
    side->n_arrived++;
    side->last_kind = head->kind;
}

static void check(enum status status)
{
    if (status != STATUS_OK) {
        fprintf(stderr, "bench_transport: %s\n", status_reason());
        exit(status_exit_code(status));
    }
}

static void side_open(struct side *side, uint32_t self, int socket)
{
    const struct transport_events events = {side, side_place, side_arrived};
    char address[4096];
    size_t n;
    *side = (struct side){0};
    side->room = mmap(NULL, PIECE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(side->room, 1, PIECE_BYTES);
    check(transport_open(self, 3, 1, 64, &events, &side->transport));
    const void *own = transport_address(side->transport, &n);
    if (send(socket, own, n, 0) != (ssize_t)n) {
        exit(1);
    }
    ssize_t n_other = recv(socket, address, sizeof address, 0);
    check(transport_connect(side->transport, 1 - self, address, n_other > 0 ? (size_t)n_other : 0));
}

/* The other process: takes everything in, answers each REPORT kind, ends at the first COMMAND. */
static void sink_run(int socket)
{
    struct side side;
    int n_pending = 0;
    side_open(&side, 1, socket);
    for (long seen = 0;;) {
        check(transport_wait(side.transport, 1000));
        if (side.n_arrived > seen && side.last_kind == TRANSPORT_KIND_COMMAND) {
            transport_close(side.transport);
            _exit(0);
        }
        if (side.n_arrived > seen && side.last_kind == TRANSPORT_KIND_REPORT) {
            struct transport_head head = {.kind = TRANSPORT_KIND_REPORT};
            check(transport_send(side.transport, 0, &head, side.room, 64, &n_pending));
        }
        seen = side.n_arrived;
    }
}

/* Bytes per second of N_PIECE pieces, N_UNDER_WAY at once. */
static double bandwidth(struct side *side)
{
    int n_pending = 0;
    double start = now_s();
    for (uint64_t i = 0; i < N_PIECE; i++) {
        while (n_pending >= N_UNDER_WAY) {
            check(transport_wait(side->transport, 1000));
        }
        struct transport_head head = {.kind = TRANSPORT_KIND_DATA, .offset = i};
        check(transport_send(side->transport, 1, &head, side->room, PIECE_BYTES, &n_pending));
    }
    while (n_pending > 0) {
        check(transport_wait(side->transport, 1000));
    }
    return N_PIECE * (double)PIECE_BYTES / (now_s() - start);
}

/* Seconds of a question of 64 bytes and its answer, both sides waiting as the programs do. */
static double answer_time(struct side *side)
{
    int n_pending = 0;
    double start = now_s();
    for (int i = 0; i < N_ANSWER; i++) {
        long seen = side->n_arrived;
        struct transport_head head = {.kind = TRANSPORT_KIND_REPORT};
        check(transport_send(side->transport, 1, &head, side->room, 64, &n_pending));
        while (side->n_arrived == seen) {
            check(transport_wait(side->transport, 1000));
        }
    }
    return (now_s() - start) / N_ANSWER;
}

/* Column (from 0) of ucx_perftest's final numbers; 0 where it is not installed. */
static double perftest(const char *test, const char *size, const char *n, int column)
{
    pid_t server = fork();
    if (server == 0) {
        if (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL) {
            _exit(1);
        }
        execlp("ucx_perftest", "ucx_perftest", "-p", PORT, (char *)NULL);
        _exit(127);
    }
    char command[256], line[512] = "";
    snprintf(command, sizeof command,
             "for i in 1 2 3 4 5 6 7 8 9; do ucx_perftest -p " PORT " 127.0.0.1 -t %s -s %s -n %s -w 20 -f -v 2>/dev/null | "
             "grep '^ *[0-9]' && break; sleep 0.2; done", test, size, n);
    FILE *client = popen(command, "r");
    double value = 0;
    if (client != NULL && fgets(line, sizeof line, client) != NULL) {
        char *field = line;
        for (int i = 0; i < column && field != NULL; i++) {
            field = strchr(field, ',');
            field = field == NULL ? NULL : field + 1;
        }
        value = field == NULL ? 0 : atof(field);
    }
    if (client != NULL) {
        pclose(client);
    }
    kill(server, SIGTERM);
    waitpid(server, NULL, 0);
    return value;
}

static void print(const char *figure, double value, double reference)
{
    if (reference > 0) {
        printf("%s|%.2f|%.2f|%.2f\n", figure, value, reference, value / reference);
    } else {
        printf("%s|%.2f|-|-\n", figure, value);
    }
}

int main(void)
{
    setenv("UCX_TLS", "sm,self", 0); /* as the fleet sets it for workers of one host */
    setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 0);
    double best_bandwidth = 0, best_answer = 1e9, best_bandwidth_ucx = 0, best_answer_ucx = 1e9;
    for (int run = 0; run < N_RUN; run++) {
        int sockets[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) != 0) {
            return 1;
        }
        pid_t pid = fork();
        if (pid == 0) {
            sink_run(sockets[1]);
        }
        struct side side;
        side_open(&side, 0, sockets[0]);
        double measured = bandwidth(&side);
        best_bandwidth = measured > best_bandwidth ? measured : best_bandwidth;
        measured = answer_time(&side);
        best_answer = measured < best_answer ? measured : best_answer;
        struct transport_head stop = {.kind = TRANSPORT_KIND_COMMAND};
        check(transport_send(side.transport, 1, &stop, NULL, 0, NULL));
        transport_close(side.transport);
        waitpid(pid, NULL, 0);
        close(sockets[0]);
        close(sockets[1]);

        measured = perftest("ucp_am_bw", "4194304", "256", 5) * (1 << 20);
        best_bandwidth_ucx = measured > best_bandwidth_ucx ? measured : best_bandwidth_ucx;
        measured = 2e-6 * perftest("ucp_am_lat", "64", "4000", 3);
        best_answer_ucx = measured > 0 && measured < best_answer_ucx ? measured : best_answer_ucx;
    }
    print("transport, 4 MiB bodies, GB/s", best_bandwidth / 1e9, best_bandwidth_ucx / 1e9);
    print("transport, 64 bytes there and back, us", best_answer * 1e6, best_answer_ucx < 1 ? best_answer_ucx * 1e6 : 0);
    return 0;
}
