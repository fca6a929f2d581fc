/* Bandwidth and latency between two processes of this host, against ucx_perftest in the same run.
 *
 * ucx_perftest sends one buffer into one other many times, both of which stay in caches: the first figure does the same. Parts and rows
 * are sent from many buffers into as many others, which caches cannot contain: the second figure does that, against the kernel's own copy
 * between the same buffers of the same processes (process_vm_readv, which UCX uses here). Runs of both sides alternate; the best of each
 * counts. Also what sealing leaves of the first, and what it takes of a job's epoch.
 */
#include "protocol/base/clock.h"
#include "protocol/transport/transport.h"
#include "tests/bench/bench.h"
#include "tests/bench/bench_job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)4 << 20)
#define N_PENDING 4
#define N_PIECE 256
#define N_BUFFER 64 /* 256 MiB on each side: larger than the caches */
#define N_ANSWER 4000
#define N_RUN 3
#define PORT "13777"

struct side {
    struct transport *transport;
    char *buffers; /* N_BUFFER pieces, at the offsets in heads */
    long n_arrived;
    uint16_t last_kind;
};

static void *side_place(void *arg, const struct transport_head *head, size_t n_bytes)
{
    struct side *side = arg;
    (void)n_bytes;
    return side->buffers + head->offset;
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

/* The buffers were mapped before the fork, privately: both processes have them at the same addresses, in memory of their own. */
static void side_open(struct side *side, uint32_t self, char *buffers, int socket, enum seal_cipher cipher)
{
    const struct seal_secret secret = {.cipher = cipher, .token = "token", .attempt = 1};
    const uint8_t near[3] = {0};
    const struct transport_events events = {side, side_place, side_arrived};
    char address[4096];
    size_t n;
    *side = (struct side){.buffers = buffers};
    memset(side->buffers, 1, N_BUFFER * PIECE_BYTES);
    check(transport_open(self, 3, 1, 64, NULL, &events, &side->transport));
    if (cipher != SEAL_NONE) {
        check(transport_seal(side->transport, &secret, near));
    }
    const void *own = transport_address(side->transport, &n);
    if (send(socket, own, n, 0) != (ssize_t)n) {
        exit(1);
    }
    ssize_t n_other = recv(socket, address, sizeof address, 0);
    check(transport_connect(side->transport, 1 - self, address, n_other > 0 ? (size_t)n_other : 0));
}

/* The other process: receives everything, answers each message of kind REPORT, ends at the first COMMAND. */
static void sink_run(char *buffers, int socket, enum seal_cipher cipher)
{
    struct side side;
    int n_pending = 0;
    side_open(&side, 1, buffers, socket, cipher);
    for (long seen = 0;;) {
        check(transport_wait(side.transport, 1000));
        if (side.n_arrived > seen && side.last_kind == TRANSPORT_KIND_COMMAND) {
            transport_close(side.transport);
            _exit(0);
        }
        if (side.n_arrived > seen && side.last_kind == TRANSPORT_KIND_REPORT) {
            struct transport_head head = {.kind = TRANSPORT_KIND_REPORT};
            check(transport_send(side.transport, 0, &head, side.buffers, 64, &n_pending));
        }
        seen = side.n_arrived;
    }
}

/* Bytes per second of N_PIECE pieces from and into n_buffer buffers in turn, N_PENDING at once. */
static double bandwidth(struct side *side, uint64_t n_buffer)
{
    int n_pending = 0;
    double start = clock_s();
    for (uint64_t i = 0; i < N_PIECE; i++) {
        while (n_pending >= N_PENDING) {
            check(transport_wait(side->transport, 1000));
        }
        struct transport_head head = {.kind = TRANSPORT_KIND_DATA, .offset = i % n_buffer * PIECE_BYTES};
        check(transport_send(side->transport, 1, &head, side->buffers + head.offset, PIECE_BYTES, &n_pending));
    }
    while (n_pending > 0) {
        check(transport_wait(side->transport, 1000));
    }
    return N_PIECE * (double)PIECE_BYTES / (clock_s() - start);
}

/* Bytes per second of the kernel, copying the other process's buffers into ours; 0 where that is not permitted. */
static double kernel_bandwidth(const struct side *side, pid_t other)
{
    double start = clock_s();
    for (size_t i = 0; i < N_PIECE; i++) {
        struct iovec piece = {side->buffers + i % N_BUFFER * PIECE_BYTES, PIECE_BYTES};
        if (process_vm_readv(other, &piece, 1, &piece, 1, 0) != (ssize_t)PIECE_BYTES) {
            return 0;
        }
    }
    return N_PIECE * (double)PIECE_BYTES / (clock_s() - start);
}

/* Seconds of a round trip of 64 bytes, with both sides waiting as the programs do. */
static double answer_time(struct side *side)
{
    int n_pending = 0;
    double start = clock_s();
    for (int i = 0; i < N_ANSWER; i++) {
        long seen = side->n_arrived;
        struct transport_head head = {.kind = TRANSPORT_KIND_REPORT};
        check(transport_send(side->transport, 1, &head, side->buffers, 64, &n_pending));
        while (side->n_arrived == seen) {
            check(transport_wait(side->transport, 1000));
        }
    }
    return (clock_s() - start) / N_ANSWER;
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
             "for i in 1 2 3 4 5 6 7 8 9; do ucx_perftest -p " PORT
             " 127.0.0.1 -t %s -s %s -n %s -w 20 -f -v 2>/dev/null | "
             "grep '^ *[0-9]' && break; sleep 0.2; done",
             test, size, n);
    FILE *client = popen(command, "r");
    double value = 0;
    if (client != NULL && fgets(line, sizeof line, client) != NULL) {
        char *field = line;
        for (int i = 0; field != NULL && i < column; i++) {
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

/* The best figures of all runs: bytes per second, seconds. */
struct figures {
    double one, many, answer, one_ucx, many_kernel, answer_ucx;
};

static void most(double *best, double measured)
{
    *best = measured > *best ? measured : *best;
}

static void least(double *best, double measured)
{
    *best = measured > 0 && (*best == 0 || measured < *best) ? measured : *best;
}

static void run(struct figures *best, enum seal_cipher cipher)
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) != 0) {
        exit(1);
    }
    char *buffers = mmap(NULL, N_BUFFER * PIECE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffers == MAP_FAILED) {
        exit(1);
    }
    pid_t pid = fork();
    if (pid == 0) {
        sink_run(buffers, sockets[1], cipher);
    }
    struct side side;
    side_open(&side, 0, buffers, sockets[0], cipher);
    most(&best->one, bandwidth(&side, 1));
    most(&best->many, bandwidth(&side, N_BUFFER));
    most(&best->many_kernel, kernel_bandwidth(&side, pid));
    least(&best->answer, answer_time(&side));
    struct transport_head stop = {.kind = TRANSPORT_KIND_COMMAND};
    check(transport_send(side.transport, 1, &stop, NULL, 0, NULL));
    transport_close(side.transport);
    munmap(buffers, N_BUFFER * PIECE_BYTES);
    waitpid(pid, NULL, 0);
    close(sockets[0]);
    close(sockets[1]);
    if (cipher != SEAL_NONE) {
        return;
    }
    most(&best->one_ucx, perftest("ucp_am_bw", "4194304", "256", 5) * (1 << 20));
    least(&best->answer_ucx, 2e-6 * perftest("ucp_am_lat", "64", "4000", 3));
}

/* Without a reference (ucx_perftest is not installed) there is no bar. */
static void bandwidth_line(const char *figure, double ours, double reference)
{
    bool has = reference > 0;
    bench_line(figure, ours / 1e9, "GB/s", reference / 1e9, has ? ours / reference : 0, has ? 0.8 : 0);
}

/* The shortest epoch of a job with this setting, in seconds. */
static double epoch_s(const char *setting)
{
    char line[4096];
    double shortest = 0.0;
    json_decref(bench_job_run(setting));
    FILE *file = fopen(bench_path("o/metrics.jsonl"), "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        json_t *epoch = json_loads(line, 0, NULL);
        least(&shortest, json_number_value(json_object_get(epoch, "epoch_s")));
        json_decref(epoch);
    }
    if (file != NULL) {
        fclose(file);
    }
    return shortest;
}

/* What sealing takes of an epoch where two workers share a machine, so that their rows travel as fast as memory does. */
static void epochs_print(void)
{
    bench_job_open("[dataset]\ngenerator = \"sbm\"\nnodes = 40000\ndegree = 30\nfeatures = 128\nclasses = "
                   "8\n[partition]\nparts = 2\n"
                   "[model]\nkind = \"sage\"\nlayers = 3\nhidden = 256\n[train]\nepochs = 6\neval_every = "
                   "0\n[workers]\ncount = 2\n"
                   "threads = 1\n");
    double sealed = 0.0, plain = 0.0;
    for (int i = 0; i < N_RUN; i++) {
        least(&plain, epoch_s("--set workers.encryption=off"));
        least(&sealed, epoch_s("--set workers.encryption=on"));
    }
    bench_line("an epoch, 2 workers, SAGE 3 x 256: sealed, of plain", sealed, "s", plain, sealed / plain, 0);
    bench_line("the same: share of an epoch that sealing takes", sealed - plain, "s", sealed,
               (sealed - plain) / sealed, 0);
    (void)bench_job_close();
}

int main(void)
{
    setenv("UCX_TLS", "sm,self", 0); /* as the fleet sets it for workers of one host */
    setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 0);
    struct figures best = {0};
    for (int i = 0; i < N_RUN; i++) {
        run(&best, SEAL_NONE);
    }
    bench_header();
    bandwidth_line("transport, 4 MiB bodies, 1 buffer, of ucx_perftest", best.one, best.one_ucx);
    bandwidth_line("transport, 4 MiB bodies, 64 buffers, of the kernel", best.many, best.many_kernel);
    bench_line("transport, 64 bytes round trip, of ucx_perftest", best.answer * 1e6, "us", best.answer_ucx * 1e6,
               best.answer_ucx / best.answer, 0);
    for (int cipher = SEAL_NONE + 1; cipher < SEAL_N; cipher++) {
        struct figures sealed = {0};
        char figure[96];
        for (int i = 0; i < N_RUN && (seal_ciphers() >> cipher & 1) != 0; i++) {
            run(&sealed, (enum seal_cipher)cipher);
        }
        snprintf(figure, sizeof figure, "transport, 4 MiB bodies, %s, of plain ones",
                 seal_cipher_name((enum seal_cipher)cipher));
        bench_line(figure, sealed.one / 1e9, "GB/s", best.one / 1e9, sealed.one / best.one, 0);
    }
    epochs_print();
    return 0;
}
