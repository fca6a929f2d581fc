#include "protocol/base/clock.h"
#include "protocol/transport/transport.h"
#include "tests/support/process/expect.h"
#include "tests/support/process/patience.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Two processes: the test is peer 0, a forked echo is peer 1 and sends every body back with the head it came with.
 * A body's place is its head's offset. */
#define ATTEMPT 7
#define N_PEER 3
#define N_SEND 16
#define ROOM_BYTES ((size_t)80 << 20)
#define ID_STOP 1
#define ID_REFUSED 666

/* Of all sides, before they are opened. */
static enum { PLAIN, SEALED, NEAR } sealing;

struct side {
    struct transport *transport;
    uint8_t *room;
    struct transport_head heads[256];
    size_t n_bytes[256];
    int n_arrived;
};

static void *side_place(void *arg, const struct transport_head *head, size_t n_bytes)
{
    struct side *side = arg;
    if (head->id == ID_REFUSED || head->offset > ROOM_BYTES || n_bytes > ROOM_BYTES - head->offset) {
        status_fail(STATUS_PEER, "peer %u sent %zu bytes that nobody asked for", head->sender, n_bytes);
        return NULL;
    }
    return side->room + head->offset;
}

static void side_arrived(void *arg, const struct transport_head *head, void *body, size_t n_bytes)
{
    struct side *side = arg;
    (void)body;
    side->heads[side->n_arrived] = *head;
    side->n_bytes[side->n_arrived++] = n_bytes;
}

static bool side_open(struct side *side, uint32_t self, uint32_t attempt)
{
    memset(side, 0, sizeof *side);
    side->room = mmap(NULL, ROOM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const struct transport_events events = {side, side_place, side_arrived};
    if (transport_open(self, N_PEER, attempt, N_SEND, NULL, &events, &side->transport) != STATUS_OK) {
        return false;
    }
    const struct seal_secret secret = {
        .cipher = seal_cipher_choose(seal_ciphers()), .token = "token", .attempt = attempt};
    const uint8_t near[N_PEER] = {sealing == NEAR, sealing == NEAR, sealing == NEAR};
    return sealing == PLAIN || transport_seal(side->transport, &secret, near) == STATUS_OK;
}

static void side_close(struct side *side)
{
    transport_close(side->transport);
    munmap(side->room, ROOM_BYTES);
}

static bool swap(struct side *side, int socket, uint32_t peer)
{
    size_t n;
    const void *own = transport_address(side->transport, &n);
    uint8_t address[4096];
    if (send(socket, own, n, 0) != (ssize_t)n) {
        return false;
    }
    ssize_t n_other = recv(socket, address, sizeof address, 0);
    return n_other > 0 && transport_connect(side->transport, peer, address, (size_t)n_other) == STATUS_OK;
}

/* The other process: ends with 0 after ID_STOP, with the status's exit code when its transport fails. */
static void echo_run(int socket)
{
    struct side side;
    if (!side_open(&side, 1, ATTEMPT) || !swap(&side, socket, 0)) {
        _exit(99);
    }
    int n_pending = 0;
    for (int done = 0;;) {
        if (transport_wait(side.transport, 1000) != STATUS_OK) {
            bool said = strstr(status_reason(), "that nobody asked for") != NULL;
            _exit(said ? status_exit_code(STATUS_PEER) : 98);
        }
        for (; done < side.n_arrived; done++) {
            struct transport_head head = side.heads[done];
            if (head.id == ID_STOP) {
                side_close(&side);
                _exit(0);
            }
            transport_send(side.transport, 0, &head, side.room + head.offset, side.n_bytes[done], &n_pending);
        }
    }
}

static pid_t echo_start(struct side *side)
{
    int sockets[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
    pid_t self = getpid(), pid = fork();
    if (pid == 0) {
        die_with(self);
        echo_run(sockets[1]);
    }
    cr_assert(side_open(side, 0, ATTEMPT), "%s", status_reason());
    cr_assert(swap(side, sockets[0], 1), "%s", status_reason());
    return pid;
}

static void await(struct side *side, int n_arrived, const int *n_pending)
{
    for (double since = clock_s();
         (side->n_arrived < n_arrived || *n_pending > 0) && clock_s() - since < PATIENCE_S;) {
        expect_done(transport_wait(side->transport, 20));
    }
    cr_assert_eq(side->n_arrived, n_arrived);
    cr_assert_eq(*n_pending, 0);
}

static void post(struct side *side, uint16_t kind, uint16_t id, uint64_t offset, const void *body, size_t n,
                 int *n_pending)
{
    struct transport_head head = {
        .kind = kind, .id = id, .epoch = 3, .phase = 4, .to = 5, .from = 6, .offset = offset, .total = 1ull << 40};
    expect_done(transport_send(side->transport, 1, &head, body, n, n_pending));
}

/* Both ends in this process: one turn of each, then room for the threads that UCX connects them with. */
static bool both_turn(struct side *from, struct side *to, double since_s)
{
    transport_progress(from->transport);
    transport_progress(to->transport);
    return patience_left(since_s);
}

static int echo_stop(struct side *side, pid_t pid)
{
    int n_pending = 0;
    post(side, TRANSPORT_KIND_COMMAND, ID_STOP, 0, NULL, 0, &n_pending);
    await(side, side->n_arrived, &n_pending);
    double begin = clock_s();
    side_close(side);
    cr_assert_lt(clock_s() - begin, 1.5, "nothing is under way, so nothing is waited for");
    int state;
    cr_assert_eq(waitpid(pid, &state, 0), pid);
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

static uint8_t *pattern(size_t n)
{
    uint8_t *bytes = malloc(n);
    uint32_t x = 12345;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(x >> 24);
    }
    return bytes;
}

/* Send n bytes, have them back, compare all. */
static void round_trip(size_t n)
{
    struct side side;
    int n_pending = 0;
    pid_t pid = echo_start(&side);
    uint8_t *bytes = pattern(n);
    post(&side, TRANSPORT_KIND_PAYLOAD, 9, 64, bytes, n, &n_pending);
    await(&side, 1, &n_pending);
    cr_assert_eq(side.n_bytes[0], n);
    cr_assert_eq(memcmp(side.room + 64, bytes, n), 0);
    cr_assert_eq(side.heads[0].sender, 1u);
    cr_assert_eq(side.heads[0].kind, TRANSPORT_KIND_PAYLOAD);
    cr_assert_eq(side.heads[0].id, 9);
    cr_assert_eq(side.heads[0].epoch, 3u);
    cr_assert_eq(side.heads[0].phase, 4u);
    cr_assert_eq(side.heads[0].to, 5u);
    cr_assert_eq(side.heads[0].from, 6u);
    cr_assert_eq(side.heads[0].total, 1ull << 40);
    struct transport_traffic traffic = transport_traffic(side.transport);
    cr_assert_eq(traffic.payload_sent, n);
    cr_assert_eq(traffic.payload_received, n);
    free(bytes);
    cr_assert_eq(echo_stop(&side, pid), 0);
}

Test(transport, a_message_without_a_body_arrives)
{
    round_trip(0);
}

Test(transport, a_small_body_arrives_whole)
{
    round_trip(100);
}

Test(transport, a_body_of_several_fragments_arrives_whole)
{
    round_trip(20000);
}

Test(transport, a_body_of_4_mib_arrives_whole)
{
    round_trip((size_t)4 << 20);
}

Test(transport, many_sends_under_way_all_arrive_whole)
{
    struct side side;
    int n_pending = 0;
    pid_t pid = echo_start(&side);
    const size_t n = ROOM_BYTES;
    uint8_t *bytes = pattern(n);
    int n_message = 0;
    for (size_t at = 0; at < n; n_message++) { /* more than N_SEND, from bytes to megabytes */
        size_t piece = (size_t)1 << (n_message % 23);
        piece = piece < n - at ? piece : n - at;
        post(&side, TRANSPORT_KIND_DATA, 9, at, bytes + at, piece, &n_pending);
        at += piece;
    }
    await(&side, n_message, &n_pending);
    cr_assert_gt(n_message, N_SEND);
    cr_assert_eq(memcmp(side.room, bytes, n), 0);
    cr_assert_eq(transport_traffic(side.transport).payload_sent, 0u);
    cr_assert_eq(transport_traffic(side.transport).all_sent, n);
    free(bytes);
    cr_assert_eq(echo_stop(&side, pid), 0);
}

Test(transport, sealed_bodies_of_any_length_arrive_whole)
{
    sealing = SEALED;
    const size_t sizes[] = {0, 100, 20000, TRANSPORT_SEAL_PIECE_BYTES};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        round_trip(sizes[i]);
    }
}

Test(transport, sealed_heads_with_plain_bodies_arrive_whole)
{
    sealing = NEAR;
    round_trip(0);
    round_trip(100);
    round_trip((size_t)4 << 20);
}

/* More than the buffers of sealed bodies, in pieces. */
Test(transport, a_sealed_body_longer_than_a_piece_arrives_whole_as_several_messages)
{
    struct side side;
    int n_pending = 0;
    sealing = SEALED;
    pid_t pid = echo_start(&side);
    const size_t n = 2 * TRANSPORT_SEAL_BYTES + 12345;
    uint8_t *bytes = pattern(n);
    post(&side, TRANSPORT_KIND_DATA, 9, 64, bytes, n, &n_pending);
    await(&side, 2 * TRANSPORT_SEAL_N_PIECE + 1, &n_pending);
    cr_assert_eq(memcmp(side.room + 64, bytes, n), 0);
    cr_assert_eq(transport_traffic(side.transport).all_sent, n, "tags are counted apart");
    cr_assert_eq(transport_traffic(side.transport).seal_sent, (2 * TRANSPORT_SEAL_N_PIECE + 1) * 48u);
    free(bytes);
    cr_assert_eq(echo_stop(&side, pid), 0);
}

Test(transport, a_send_to_the_own_number_is_delivered_and_not_counted)
{
    struct side side;
    int n_pending = 0;
    cr_assert(side_open(&side, 0, ATTEMPT), "%s", status_reason());
    struct transport_head head = {.kind = TRANSPORT_KIND_PAYLOAD, .id = 9, .offset = 8};
    cr_assert_eq(transport_send(side.transport, 0, &head, "own words", 9, &n_pending), STATUS_OK);
    cr_assert_eq(n_pending, 1);
    cr_assert_eq(side.n_arrived, 0, "delivery belongs to progress");
    cr_assert_not(transport_arm(side.transport), "an outer loop must not sleep now");
    await(&side, 1, &n_pending);
    cr_assert_eq(memcmp(side.room + 8, "own words", 9), 0);
    cr_assert_eq(side.heads[0].sender, 0u);
    cr_assert_eq(transport_traffic(side.transport).all_sent, 0u);
    cr_assert_eq(transport_traffic(side.transport).all_received, 0u);
    side_close(&side);
}

Test(transport, messages_of_another_attempt_are_dropped_with_their_bodies)
{
    /* Both ends in this process, so that both can be looked at. */
    struct side fresh, stale;
    int n_pending = 0;
    cr_assert(side_open(&fresh, 0, ATTEMPT));
    cr_assert(side_open(&stale, 1, ATTEMPT - 1));
    size_t n;
    const void *address = transport_address(fresh.transport, &n);
    expect_done(transport_connect(stale.transport, 0, address, n));
    uint8_t *bytes = pattern((size_t)4 << 20);
    const size_t sizes[] = {0, 100, 20000, (size_t)4 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct transport_head head = {.kind = TRANSPORT_KIND_DATA, .id = 9};
        cr_assert_eq(transport_send(stale.transport, 0, &head, bytes, sizes[i], &n_pending), STATUS_OK);
    }
    for (double since = clock_s(); n_pending > 0 && both_turn(&stale, &fresh, since);) {
    }
    expect_done(transport_progress(stale.transport));
    expect_done(transport_progress(fresh.transport));
    cr_assert_eq(n_pending, 0, "the sender gets its bodies back");
    transport_identify(stale.transport, 1, N_PEER, ATTEMPT);
    cr_assert_eq(transport_connect(stale.transport, 0, address, n), STATUS_OK);
    struct transport_head head = {.kind = TRANSPORT_KIND_DATA, .id = 9};
    cr_assert_eq(transport_send(stale.transport, 0, &head, bytes, 100, &n_pending), STATUS_OK);
    for (double since = clock_s(); fresh.n_arrived == 0 && both_turn(&stale, &fresh, since);) {
    }
    cr_assert_eq(fresh.n_arrived, 1, "the message of the right attempt is the only one");
    cr_assert_eq(fresh.n_bytes[0], 100u);
    side_close(&stale);
    side_close(&fresh);
    free(bytes);
}

Test(transport, a_refused_body_ends_the_transport_with_the_reason)
{
    struct side side;
    int n_pending = 0;
    pid_t pid = echo_start(&side);
    uint8_t *bytes = pattern((size_t)4 << 20);
    post(&side, TRANSPORT_KIND_DATA, ID_REFUSED, 0, bytes, (size_t)4 << 20, &n_pending);
    int state = 0;
    for (double since = clock_s(); waitpid(pid, &state, WNOHANG) == 0 && clock_s() - since < PATIENCE_S;) {
        transport_wait(side.transport, 10);
    }
    cr_assert(WIFEXITED(state));
    cr_assert_eq(WEXITSTATUS(state), status_exit_code(STATUS_PEER));
    side_close(&side);
    free(bytes);
}

Test(transport, a_kind_that_is_not_in_the_list_ends_the_transport)
{
    struct side to, from;
    cr_assert(side_open(&to, 0, ATTEMPT));
    cr_assert(side_open(&from, 1, ATTEMPT));
    size_t n;
    const void *address = transport_address(to.transport, &n);
    cr_assert_eq(transport_connect(from.transport, 0, address, n), STATUS_OK);
    struct transport_head head = {.kind = 99};
    cr_assert_eq(transport_send(from.transport, 0, &head, NULL, 0, NULL), STATUS_OK);
    for (double since = clock_s(); transport_progress(to.transport) == STATUS_OK && both_turn(&from, &to, since);) {
    }
    expect_fails(transport_progress(to.transport), STATUS_PEER, "peer 1 sent a message of kind 99, expected 1 to 7");
    cr_assert_eq(to.n_arrived, 0);
    cr_assert_eq(transport_send(to.transport, 0, &head, NULL, 0, NULL), STATUS_PEER, "the failure sticks");
    side_close(&from);
    side_close(&to);
}

/* Sends under way to a peer that was killed: their bytes. */
static uint8_t *send_to_dead(struct side *side, int *n_pending)
{
    pid_t pid = echo_start(side);
    uint8_t *bytes = pattern(ROOM_BYTES);
    post(side, TRANSPORT_KIND_DATA, 9, 0, bytes, 100, n_pending);
    await(side, 1, n_pending);
    kill(pid, SIGKILL);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    for (size_t i = 0; i < N_SEND; i++) {
        post(side, TRANSPORT_KIND_DATA, 9, i << 22, bytes + (i << 22), (size_t)4 << 20, n_pending);
    }
    return bytes;
}

Test(transport, an_abandoned_transport_closes_at_once_though_its_peer_is_dead)
{
    struct side side;
    int n_pending = 0;
    uint8_t *bytes = send_to_dead(&side, &n_pending);
    transport_abandon(side.transport);
    free(bytes);
    const struct transport_head head = {.kind = TRANSPORT_KIND_DATA};
    cr_assert_eq(transport_send(side.transport, 1, &head, NULL, 0, NULL), STATUS_PEER);
    double begin = clock_s();
    side_close(&side);
    cr_assert_lt(clock_s() - begin, 1.5, "and does not try to send for 2 s");
}

Test(transport, closing_is_bounded_when_the_peer_is_dead)
{
    struct side side;
    int n_pending = 0;
    uint8_t *bytes = send_to_dead(&side, &n_pending);
    double begin = clock_s();
    side_close(&side);
    cr_assert_lt(clock_s() - begin, 10, "five times the bound");
    free(bytes);
}

Test(transport, an_address_of_rubbish_is_refused)
{
    struct side side;
    cr_assert(side_open(&side, 0, ATTEMPT));
    uint8_t rubbish[200] = {0};
    expect_fails(transport_connect(side.transport, 1, rubbish, sizeof rubbish), STATUS_PEER, "peer 1");
    expect_fails(transport_connect(side.transport, N_PEER, rubbish, sizeof rubbish), STATUS_PEER,
                 "expected one of 2 others");
    side_close(&side);
}
