#include "protocol/base/clock.h"
#include "protocol/base/version.h"
#include "protocol/transport/transport.h"
#include "protocol/wire/control.h"
#include "protocol/wire/join_proof.h"
#include "tests/support/process/fleet_case.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "trainerd/coordinator/fleet/fleet.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Workers that are started by hand, and strangers that knock where workers do. */

TestSuite(join, .init = folder_make, .fini = folder_remove, .timeout = 900);

/* A job that listens on a port which is its own: the socket that found it stays bound to it, without listening, until the test
 * ends, so that the kernel gives it to no other; the job may bind to it all the same (SO_REUSEADDR on both). */
static struct job manual(int n_worker, int *port_out)
{
    struct job job = fleet_case(n_worker, n_worker);
    int keeper = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof where;
    cr_assert_eq(setsockopt(keeper, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    cr_assert_eq(bind(keeper, (struct sockaddr *)&where, n), 0);
    cr_assert_eq(getsockname(keeper, (struct sockaddr *)&where, &n), 0);
    *port_out = ntohs(where.sin_port);
    job.workers.launcher = JOB_LAUNCHER_MANUAL;
    snprintf(job.workers.listen, sizeof job.workers.listen, "127.0.0.1:%d", *port_out);
    strcpy(job.workers.token_file, folder_path("token"));
    return job;
}

/* Run a part of the test in a process of its own, which ends with the test. */
static pid_t beside(void (*run)(int port), int port)
{
    pid_t self = getpid(), pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        die_with(self);
        run(port);
        _exit(0);
    }
    return pid;
}

static void expect_exit(pid_t pid, int code)
{
    int state;
    cr_assert_eq(waitpid(pid, &state, 0), pid);
    cr_assert(WIFEXITED(state) && WEXITSTATUS(state) == code, "state %x, expected exit code %d", (unsigned)state,
              code);
}

/* The fleet's workers join, and it ends. */
static void expect_joined(const struct job *job)
{
    struct fleet *fleet;
    cr_assert_eq(fleet_open(job, NULL, &fleet), STATUS_OK, "%s", status_reason());
    fleet_close(fleet);
}

/* A fleet of one worker, by hand, beside this process, which ends well. */
static void expect_joined_beside(void (*run)(int port))
{
    int port;
    struct job job = manual(1, &port);
    pid_t pid = beside(run, port);
    expect_joined(&job);
    expect_exit(pid, 0);
}

/* A connection to the coordinator, once it listens. */
static int stranger(int port)
{
    struct sockaddr_in where = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    for (double since = clock_s(); patience_left(since);) {
        int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(file, (struct sockaddr *)&where, sizeof where) == 0) {
            return file;
        }
        close(file);
    }
    _exit(90);
}

static _Noreturn void worker_exec(int port, const char *token)
{
    char path[PATH_MAX], join[32];
    program_find("trainer-worker", path, sizeof path);
    snprintf(join, sizeof join, "127.0.0.1:%d", port);
    execl(path, path, "--join", join, "--token-file", folder_path(token), (char *)NULL);
    _exit(91);
}

/* Read to the end of the stream: true when it comes. */
static bool is_closed(int file)
{
    char bytes[512];
    ssize_t n = 1;
    while (n > 0) {
        n = recv(file, bytes, sizeof bytes, 0);
    }
    return n == 0 || errno == ECONNRESET;
}

static void send_all(int file, const void *bytes, size_t n)
{
    if (send(file, bytes, n, MSG_NOSIGNAL) != (ssize_t)n) {
        _exit(92);
    }
}

/* The first line of the token file, once it is whole: it is made just after the coordinator listens. */
static void token_await(char *secret, size_t capacity)
{
    for (double since = clock_s(); patience_left(since);) {
        if (folder_has("token")) {
            folder_read("token", secret, capacity);
            char *end = strchr(secret, '\n');
            if (end != NULL) {
                *end = '\0';
                return;
            }
        }
    }
    _exit(94);
}

/* The stream ends with an abort for this reason. */
static bool is_refused(int file, const char *reason)
{
    char bytes[512];
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n<sizeof bytes; n += got> 0 ? (size_t)got : 0) {
        got = recv(file, bytes + n, sizeof bytes - n, 0);
    }
    return memmem(bytes, n, reason, strlen(reason)) != NULL;
}

/* The challenge of a connection, and a nonce of our own. */
static struct join_nonces challenge_take(int file)
{
    struct join_nonces nonces;
    struct message_challenge challenge;
    uint8_t bytes[CONTROL_HEAD_BYTES + 8 + JOIN_NONCE_BYTES];
    if (recv(file, bytes, sizeof bytes, MSG_WAITALL) != sizeof bytes || control_id(bytes) != MESSAGE_ID_challenge ||
        message_decode_challenge(bytes + CONTROL_HEAD_BYTES, sizeof bytes - CONTROL_HEAD_BYTES, &challenge) !=
            STATUS_OK ||
        join_nonce_take(challenge.nonce, nonces.coordinator) != STATUS_OK) {
        _exit(96);
    }
    join_nonce(nonces.worker);
    return nonces;
}

/* A hello with its proof. owns  the caller frees it */
static void *hello_frame(int file, struct message_hello hello, const char *token, size_t *n_out)
{
    const struct join_nonces nonces = challenge_take(file);
    hello.nonce = (struct message_span){nonces.worker, JOIN_NONCE_BYTES};
    hello.host = message_text("nowhere");
    hello.ciphers = seal_ciphers();
    hello.proof = join_proof_blank();
    void *frame = control_frame_hello(&hello, n_out);
    join_prove(token, &nonces, frame, *n_out);
    return frame;
}

static void hello_send(int file, struct message_hello hello, const char *token)
{
    size_t n;
    void *frame = hello_frame(file, hello, token, &n);
    send_all(file, frame, n);
    free(frame);
}

#define GARBAGE ((struct message_span){"\xde\xad\xbe\xef", 4})

/* Everything a stranger may say; each connection must be closed at once. Then a good worker comes. */
static void nonsense_run(int port)
{
    freopen("/dev/null", "w", stderr);
    int garbage = stranger(port), huge = stranger(port), wrong = stranger(port), early = stranger(port),
        old = stranger(port), older = stranger(port);
    char secret[256];
    token_await(secret, sizeof secret);
    double begin = clock_s();
    send_all(garbage, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
    send_all(huge, "\xff\xff\xff\xff\x01\x00", 6);
    hello_send(wrong, (struct message_hello){.version = MESSAGE_VERSION, .address = GARBAGE},
               "0000000000000000000000000000000000000000000000000000000000000000");
    hello_send(old, (struct message_hello){.version = MESSAGE_VERSION + 1}, secret);
    send_all(older, "\x00\x00\x00\x00\x01\x00", 6);
    size_t n;
    struct message_heartbeat beat = {.epoch = 1};
    void *frame = control_frame_heartbeat(&beat, &n);
    send_all(early, frame, n);
    free(frame);
    if (!is_refused(wrong, "the token is not this job's") ||
        !is_refused(old, "install the coordinator's trainerd, " TRAINERD_VERSION ", on the worker's machine") ||
        !is_refused(older, "an older version of trainerd than its coordinator: install trainerd " TRAINERD_VERSION) ||
        !is_refused(early, "the first message is not a hello") || !is_closed(garbage) || !is_closed(huge) ||
        clock_s() - begin > 4) { /* who says nothing is closed after 5 */
        _exit(93);
    }
    worker_exec(port, "token");
}

Test(join, strangers_who_talk_nonsense_are_turned_away_at_once)
{
    expect_joined_beside(nonsense_run);
}

/* What a hello may carry that is not its sender's: nothing of it may reach the transport, and each costs its connection alone. */
static void stolen_run(int port)
{
    freopen("/dev/null", "w", stderr);
    char secret[256];
    token_await(secret, sizeof secret);
    const struct message_hello good = {.version = MESSAGE_VERSION, .rank = MESSAGE_NO_RANK, .address = GARBAGE};
    int seen = stranger(port), again = stranger(port), changed = stranger(port), plain = stranger(port),
        empty = stranger(port);
    int large = stranger(port);
    size_t n, n_changed;
    void *frame = hello_frame(seen, good, secret, &n); /* of this connection, sent over another */
    challenge_take(again);
    send_all(again, frame, n);
    free(frame);
    uint8_t *other = hello_frame(changed, good, secret, &n_changed);
    uint8_t *address = memmem(other, n_changed, GARBAGE.at, GARBAGE.n_bytes);
    address[0] ^= 1;
    send_all(changed, other, n_changed);
    free(other);
    challenge_take(plain); /* the token itself is no proof */
    struct message_hello told = good;
    told.nonce = (struct message_span){secret, JOIN_NONCE_BYTES};
    told.proof = (struct message_span){secret, JOIN_PROOF_BYTES};
    frame = control_frame_hello(&told, &n);
    send_all(plain, frame, n);
    free(frame);
    static uint8_t bytes[MESSAGE_ADDRESS_MOST_BYTES + 1];
    hello_send(empty, (struct message_hello){.version = MESSAGE_VERSION}, secret);
    hello_send(large, (struct message_hello){.version = MESSAGE_VERSION, .address = {bytes, sizeof bytes}}, secret);
    if (!is_refused(again, "the token is not this job's") || !is_refused(changed, "the token is not this job's") ||
        !is_refused(plain, "the token is not this job's") || !is_refused(empty, "its address has 0 bytes") ||
        !is_refused(large, "its address has 16385 bytes, expected 1 to 16384")) {
        _exit(93);
    }
    worker_exec(port, "token");
}

Test(join, a_hello_of_another_connection_or_with_another_address_costs_that_connection_alone)
{
    expect_joined_beside(stolen_run);
}

static void silence_run(int port)
{
    freopen("/dev/null", "w", stderr);
    double begin = clock_s();
    int silent
        [200]; /* more than may wait: the oldest go at once, not after their 5 s; the rest stays silent for ever */
    for (int i = 0; i < 200; i++) {
        silent[i] = stranger(port);
    }
    if (!is_closed(silent[0]) || clock_s() - begin > 4) {
        _exit(93);
    }
    worker_exec(port, "token");
}

Test(join, strangers_who_say_nothing_keep_no_worker_out)
{
    int port;
    struct job job = manual(1, &port);
    pid_t pid = beside(silence_run, port);
    struct fleet *fleet;
    cr_assert_eq(fleet_open(&job, NULL, &fleet), STATUS_OK, "%s", status_reason());
    struct stat about;
    cr_assert_eq(stat(folder_path("token"), &about), 0);
    cr_assert_eq(about.st_mode & 0777, 0600u);
    fleet_close(fleet);
    expect_exit(pid, 0);
}

/* A connection that says nothing; once all have joined, nobody listens, and the process ends. */
static int silent_connect(int port)
{
    struct sockaddr_in where = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(silent, (struct sockaddr *)&where, sizeof where) != 0) {
        _exit(errno == ECONNREFUSED ? 0 : 95);
    }
    return silent;
}

/* 40 of them, each made again when the coordinator closes it. */
static void flood_run(int port)
{
    enum { N = 40 };
    struct pollfd silent[N];
    close(stranger(port));
    for (int i = 0; i < N; i++) {
        silent[i] = (struct pollfd){.fd = silent_connect(port), .events = POLLIN};
    }
    for (;;) {
        poll(silent, N, -1);
        for (int i = 0; i < N; i++) {
            if (silent[i].revents != 0) {
                close(silent[i].fd);
                silent[i].fd = silent_connect(port);
            }
        }
    }
}

static void joiner_run(int port)
{
    char secret[256];
    freopen("/dev/null", "w", stderr);
    token_await(secret, sizeof secret);
    worker_exec(port, "token");
}

Test(join, connections_that_come_and_go_keep_no_worker_out)
{
    enum { N_WORKER = 8 };
    int port;
    struct job job = manual(N_WORKER, &port);
    pid_t flood = beside(flood_run, port), workers[N_WORKER];
    for (int i = 0; i < N_WORKER; i++) {
        workers[i] = beside(joiner_run, port);
    }
    expect_joined(&job);
    for (int i = 0; i < N_WORKER; i++) {
        expect_exit(workers[i], 0);
    }
    expect_exit(flood, 0);
}

/* A socket that listens, on a port of the kernel's choice. */
static int listener_open(int *port_out)
{
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof where;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(listener, (struct sockaddr *)&where, n), 0);
    cr_assert_eq(listen(listener, 8), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&where, &n), 0);
    *port_out = ntohs(where.sin_port);
    return listener;
}

static int relay; /* listens, before the coordinator */

/* Close the first connections, as a coordinator does that has too many; then pass on what both say. */
static void relay_run(int port)
{
    char bytes[4096];
    struct pollfd sides[2] = {{.events = POLLIN}, {.events = POLLIN}};
    for (int i = 0; i < 4; i++) {
        close(sides[0].fd > 0 ? sides[0].fd : -1);
        sides[0].fd = accept(relay, NULL, NULL);
    }
    sides[1].fd = stranger(port);
    close(relay);
    for (;;) {
        poll(sides, 2, -1);
        for (int i = 0; i < 2; i++) {
            ssize_t n = sides[i].revents != 0 ? recv(sides[i].fd, bytes, sizeof bytes, 0) : -1;
            if (n == 0) {
                _exit(0);
            }
            if (n > 0) {
                send_all(sides[1 - i].fd, bytes, (size_t)n);
            }
        }
    }
}

Test(join, a_worker_whose_connection_is_closed_before_it_is_welcomed_joins_again)
{
    int port, relay_port;
    struct job job = manual(1, &port);
    relay = listener_open(&relay_port);
    pid_t between = beside(relay_run, port), worker = beside(joiner_run, relay_port);
    close(relay);
    expect_joined(&job);
    expect_exit(worker, 0);
    expect_exit(between, 0);
}

/* A worker's hello with its job's token, from a process that says no more. */
static void mute_run(int port)
{
    const struct transport_events events = {0};
    struct transport *transport;
    char secret[256] = "";
    size_t n_address;
    int file = stranger(port);
    token_await(secret, sizeof secret);
    if (transport_open(0, 0, 0, 4, NULL, &events, &transport) != STATUS_OK) {
        _exit(95);
    }
    const void *address = transport_address(transport, &n_address);
    hello_send(file,
               (struct message_hello){.version = MESSAGE_VERSION,
                                      .pid = (uint32_t)getpid(),
                                      .address = {address, (uint32_t)n_address},
                                      .far_address = {address, (uint32_t)n_address}},
               secret);
    _exit(is_closed(file) ? 0 : 93);
}

Test(join, a_worker_that_joins_and_says_no_more_is_not_waited_for)
{
    int port;
    struct job job = manual(1, &port);
    job.workers.heartbeat_timeout = 1;
    pid_t pid = beside(mute_run, port);
    struct fleet *fleet;
    cr_assert_eq(fleet_open(&job, NULL, &fleet), STATUS_PEER);
    fleet_check_reason(
        (const char *const[]){"worker 0 (pid ", " on nowhere) was silent for ", "while it was connected", NULL});
    fleet_check_silence(1);
    expect_exit(pid, 0);
}

Test(join, too_few_workers_end_the_wait_with_their_number)
{
    int port;
    struct job job = manual(2, &port);
    job.workers.join_timeout = 1;
    struct fleet *fleet;
    cr_assert_eq(fleet_open(&job, NULL, &fleet), STATUS_PEER);
    fleet_check_reason((const char *const[]){"0 of 2 workers joined within 1 s", NULL});
}

Test(join, a_token_file_that_others_can_read_is_refused)
{
    int port;
    struct job job = manual(1, &port);
    folder_write("token", "0123456789abcdef0123456789abcdef\n");
    cr_assert_eq(chmod(folder_path("token"), 0644), 0);
    struct fleet *fleet;
    cr_assert_eq(fleet_open(&job, NULL, &fleet), STATUS_CREATE);
    fleet_check_reason((const char *const[]){folder_path("token"), "mode 0644", "expected 0600", NULL});
}

static const char *token_name = "token";

/* A worker whose words are in the folder. */
static void heard_run(int port)
{
    freopen(folder_path("said"), "w", stderr);
    worker_exec(port, token_name);
}

Test(join, a_worker_refuses_a_token_file_that_others_can_read)
{
    char said[512];
    folder_write("token", "0123456789abcdef0123456789abcdef\n");
    cr_assert_eq(chmod(folder_path("token"), 0640), 0);
    pid_t pid = beside(heard_run, 1);
    expect_exit(pid, status_exit_code(STATUS_NO_INPUT));
    folder_read("said", said, sizeof said);
    cr_assert(strstr(said, "mode 0640") != NULL && strstr(said, "expected 0600") != NULL, "%s", said);
}

static volatile sig_atomic_t child_ended;

static void child_note(int signal)
{
    child_ended = signal;
}

Test(join, a_worker_with_the_wrong_token_is_told_so)
{
    int port;
    struct job job = manual(1, &port);
    struct fleet *fleet;
    char said[512];
    folder_write("wrong", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n");
    cr_assert_eq(chmod(folder_path("wrong"), 0600), 0);
    signal(SIGCHLD, child_note); /* nobody joins: its end is what the coordinator waits for */
    token_name = "wrong";
    pid_t pid = beside(heard_run, port);
    cr_assert_eq(fleet_open(&job, &(struct fleet_setup){.stop = &child_ended}, &fleet), STATUS_INTERRUPTED, "%s",
                 status_reason());
    expect_exit(pid, status_exit_code(STATUS_PEER));
    folder_read("said", said, sizeof said);
    cr_assert_not_null(strstr(said, "the token is not this job's"), "%s", said);
}

/* Strangers with another token, more than are logged in a minute; then a good worker comes. */
static void many_run(int port)
{
    char secret[256];
    freopen("/dev/null", "w", stderr);
    token_await(secret, sizeof secret);
    for (int i = 0; i < 15; i++) {
        int file = stranger(port);
        hello_send(file, (struct message_hello){.version = MESSAGE_VERSION, .address = GARBAGE},
                   "0000000000000000000000000000000000000000000000000000000000000000");
        if (!is_refused(file, "the token is not this job's")) {
            _exit(93);
        }
        close(file);
    }
    worker_exec(port, "token");
}

Test(join, refused_joins_are_logged_with_their_address_ten_a_minute)
{
    int port, n = 0;
    struct job job = manual(1, &port);
    struct fleet *fleet;
    static char said[1 << 16];
    pid_t pid = beside(many_run, port);
    cr_assert_not_null(freopen(folder_path("log"), "w", stderr));
    cr_assert_eq(fleet_open(&job, NULL, &fleet), STATUS_OK, "%s", status_reason());
    fflush(stderr);
    fleet_close(fleet);
    expect_exit(pid, 0);
    folder_read("log", said, sizeof said);
    for (const char *at = said; (at = strstr(at, "refused 127.0.0.1:")) != NULL; at++) {
        int from;
        char end;
        cr_assert_eq(sscanf(at, "refused 127.0.0.1:%d: the token is not this job'%c", &from, &end), 2, "%s", at);
        n++;
    }
    cr_assert_eq(n, 10, "%d lines: %s", n, said);
}

static void lonely_run(int port)
{
    char path[PATH_MAX], join[32];
    freopen(folder_path("said"), "w", stderr);
    program_find("trainer-worker", path, sizeof path);
    snprintf(join, sizeof join, "127.0.0.1:%d", port);
    execl(path, path, "--join", join, "--token-file", folder_path("token"), "--join-timeout", "0.3", (char *)NULL);
    _exit(91);
}

Test(join, a_worker_that_finds_no_coordinator_says_that_it_tries_once_and_then_that_it_has_given_up)
{
    char said[512], words[512];
    int port;
    manual(1, &port); /* which is not opened: nothing listens there */
    folder_write("token", "0123456789abcdef0123456789abcdef\n");
    cr_assert_eq(chmod(folder_path("token"), 0600), 0);
    expect_exit(beside(lonely_run, port), status_exit_code(STATUS_PEER));
    folder_read("said", said, sizeof said);
    snprintf(words, sizeof words,
             "trainer-worker: no coordinator answers at 127.0.0.1:%d yet (Connection refused): trying for 0.3 s\n"
             "trainer-worker: cannot reach the coordinator at 127.0.0.1:%d within 0.3 s: Connection refused\n",
             port, port);
    cr_assert_str_eq(said, words);
}

/* A coordinator of the test's: its listener, and a worker that comes to it with a token. */
static int led_open(int *listener_out, pid_t *worker_out)
{
    int port;
    *listener_out = listener_open(&port);
    folder_write("token", "0123456789abcdef0123456789abcdef\n");
    cr_assert_eq(chmod(folder_path("token"), 0600), 0);
    *worker_out = beside(heard_run, port);
    return accept(*listener_out, NULL, NULL);
}

static void challenge_send(int file, uint32_t version, const struct join_nonces *nonces)
{
    size_t n;
    const struct message_challenge challenge = {.version = version, .nonce = {nonces->coordinator, JOIN_NONCE_BYTES}};
    void *frame = control_frame_challenge(&challenge, &n);
    send_all(file, frame, n);
    free(frame);
}

Test(join, a_worker_joins_no_coordinator_of_another_version_and_says_what_to_install)
{
    for (int step = -1; step <= 1; step += 2) { /* an older one, and a newer one */
        int listener;
        pid_t pid;
        char said[512], words[128];
        const struct join_nonces nonces = {.coordinator = {0}, .worker = {0}};
        int file = led_open(&listener, &pid);
        challenge_send(file, MESSAGE_VERSION + (uint32_t)step, &nonces);
        expect_exit(pid, status_exit_code(STATUS_PEER));
        folder_read("said", said, sizeof said);
        snprintf(words, sizeof words,
                 "the coordinator has version %u of the protocol, this worker, of trainerd %s, version %u",
                 MESSAGE_VERSION + (uint32_t)step, TRAINERD_VERSION, MESSAGE_VERSION);
        cr_assert(strstr(said, words) && strstr(said, "install the coordinator's trainerd on this machine"), "%s",
                  said);
        close(file);
        close(listener);
    }
}

Test(join, a_worker_takes_no_job_from_a_coordinator_without_its_token)
{
    int listener;
    pid_t pid;
    int file = led_open(&listener, &pid);
    const struct join_nonces nonces = {.coordinator = {0}, .worker = {0}};
    size_t n;
    challenge_send(file, MESSAGE_VERSION, &nonces);
    const struct message_welcome welcome = {.n_rank = 1,
                                            .job = message_text("[dataset]\ngenerator = \"karate\"\n"),
                                            .address = GARBAGE,
                                            .proof = join_proof_blank()};
    void *frame = control_frame_welcome(&welcome, &n);
    join_prove("another token, of thirty-two or more", &nonces, frame, n);
    send_all(file, frame, n);
    free(frame);
    expect_exit(pid, status_exit_code(STATUS_PEER));
    char said[512];
    folder_read("said", said, sizeof said);
    cr_assert_not_null(
        strstr(said, "the coordinator's message 'welcome' does not prove that it has this job's token"), "%s", said);
    close(file);
    close(listener);
}
