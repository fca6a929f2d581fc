/* Sealed messages between peers: what comes once is taken, and nothing that others made, changed, sent again or sent elsewhere. */
#include "protocol/transport/transport_seal.h"

#include <criterion/criterion.h>
#include <string.h>

enum { N_PEER = 3, N_BODY = 100, ATTEMPT = 7 };

static const struct seal_secret secret = {
    .cipher = SEAL_CHACHA20POLY1305, .token = "token", .session = {9}, .attempt = ATTEMPT};
static struct sealing *peers[N_PEER];
static const uint8_t none_near[N_PEER];

static void open_all(void)
{
    for (uint32_t peer = 0; peer < N_PEER; peer++) {
        cr_assert_eq(sealing_open(&secret, peer, N_PEER, none_near, &peers[peer]), STATUS_OK, "%s", status_reason());
    }
}

static void close_all(void)
{
    for (uint32_t peer = 0; peer < N_PEER; peer++) {
        sealing_close(peers[peer]);
    }
}

TestSuite(transport_seal, .init = open_all, .fini = close_all);

struct sent {
    struct sealed_head head;
    uint8_t body[N_BODY];
};

/* A message of N_BODY bytes, each `byte`. */
static struct sent message(uint32_t from, uint32_t to, uint8_t byte)
{
    struct sent sent = {
        .head.head = {.magic = TRANSPORT_MAGIC, .attempt = ATTEMPT, .kind = TRANSPORT_KIND_COMMAND, .sender = from}};
    uint8_t body[N_BODY], *buffer = sealing_buffer(peers[from]);
    memset(body, byte, sizeof body);
    sealing_close_message(peers[from], to, &sent.head, body, N_BODY, buffer);
    memcpy(sent.body, buffer, N_BODY);
    sealing_buffer_return(peers[from], buffer);
    return sent;
}

enum taken { TAKEN, DROPPED, REFUSED, CHANGED };

static enum taken take(uint32_t by, const struct sent *sent, size_t n_body)
{
    struct sealed_head head;
    uint8_t body[N_BODY];
    bool is_fresh;
    if (sealing_read_head(peers[by], &sent->head, sizeof sent->head, n_body, ATTEMPT, &head, &is_fresh) !=
        STATUS_OK) {
        return REFUSED;
    }
    if (!is_fresh) {
        return DROPPED;
    }
    return sealing_open_body(peers[by], &head, sent->body, body) == STATUS_OK ? TAKEN : CHANGED;
}

Test(transport_seal, a_message_that_is_sent_again_is_dropped_and_one_that_is_overtaken_is_taken)
{
    struct sent first = message(0, 1, 1), second = message(0, 1, 2), late;
    cr_assert_eq(take(1, &second, N_BODY), TAKEN);
    cr_assert_eq(take(1, &first, N_BODY), TAKEN);
    cr_assert_eq(take(1, &first, N_BODY), DROPPED);
    cr_assert_eq(take(1, &second, N_BODY), DROPPED);
    late = message(0, 1, 3);
    for (int i = 0; i < SEAL_WINDOW; i++) {
        struct sent next = message(0, 1, 4);
        cr_assert_eq(take(1, &next, N_BODY), TAKEN);
    }
    cr_assert_eq(take(1, &late, N_BODY), DROPPED, "it was overtaken by more than the window");
}

Test(transport_seal, a_head_that_is_changed_anywhere_is_refused_before_its_body_is_placed)
{
    for (size_t i = 0; i < sizeof(struct sealed_head); i++) {
        struct sent sent = message(0, 1, 1);
        ((uint8_t *)&sent.head)[i] ^= 4;
        enum taken taken = take(1, &sent, N_BODY);
        cr_assert(taken == REFUSED || (taken == DROPPED && sent.head.head.attempt != ATTEMPT), "byte %zu", i);
    }
    struct sent sent = message(0, 1, 1);
    cr_assert_eq(take(1, &sent, N_BODY - 1), REFUSED, "its body is shorter than it says");
    cr_assert_eq(take(1, &sent, N_BODY), TAKEN, "what was refused counts for nothing");
}

Test(transport_seal, a_body_that_is_changed_anywhere_is_noticed)
{
    for (size_t i = 0; i < N_BODY; i++) {
        struct sent sent = message(0, 1, 1);
        sent.body[i] ^= 1;
        cr_assert_eq(take(1, &sent, N_BODY), CHANGED, "byte %zu", i);
    }
    struct sent one = message(0, 1, 1), other = message(0, 1, 1);
    memcpy(one.body, other.body, N_BODY);
    cr_assert_eq(take(1, &one, N_BODY), CHANGED, "another message's body");
}

Test(transport_seal, what_is_sealed_for_another_peer_or_by_another_key_is_refused)
{
    struct sent for_other = message(0, 2, 1), of_other = message(2, 1, 1);
    cr_assert_eq(take(1, &for_other, N_BODY), REFUSED);
    of_other.head.head.sender = 0;
    cr_assert_eq(take(1, &of_other, N_BODY), REFUSED, "peer 2 says that it is peer 0");
    struct seal_secret wrong = secret;
    wrong.token = "another";
    sealing_close(peers[0]);
    cr_assert_eq(sealing_open(&wrong, 0, N_PEER, none_near, &peers[0]), STATUS_OK);
    struct sent of_stranger = message(0, 1, 1);
    cr_assert_eq(take(1, &of_stranger, N_BODY), REFUSED);
}
