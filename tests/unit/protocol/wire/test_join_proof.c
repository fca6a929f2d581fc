#include "protocol/wire/control.h"
#include "protocol/wire/join_proof.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN "0123456789abcdef0123456789abcdef"

static struct join_nonces nonces_of(int seed)
{
    struct join_nonces nonces;
    memset(nonces.coordinator, seed, sizeof nonces.coordinator);
    memset(nonces.worker, seed + 1, sizeof nonces.worker);
    return nonces;
}

static uint8_t *peer_frame(const struct join_nonces *nonces, size_t *n_out)
{
    const struct message_peer peer = {.rank = 3, .address = {"here", 4}, .proof = join_proof_blank()};
    uint8_t *frame = control_frame_peer(&peer, n_out);
    join_prove(TOKEN, nonces, frame, *n_out);
    return frame;
}

Test(join_proof, a_frame_is_proven_by_its_token_its_nonces_its_id_and_every_byte)
{
    const struct join_nonces nonces = nonces_of(1);
    size_t n_frame;
    uint8_t *frame = peer_frame(&nonces, &n_frame), *body = frame + CONTROL_HEAD_BYTES;
    size_t n = n_frame - CONTROL_HEAD_BYTES;
    cr_assert(join_is_proven(TOKEN, &nonces, MESSAGE_ID_peer, body, n));
    cr_assert_not(join_is_proven(TOKEN "0", &nonces, MESSAGE_ID_peer, body, n));
    cr_assert_not(join_is_proven(TOKEN, &nonces, MESSAGE_ID_welcome, body, n));
    cr_assert_not(join_is_proven(TOKEN, &nonces, MESSAGE_ID_peer + 256, body, n), "an id is not cut to a byte");
    for (size_t i = 0; i < n; i++) {
        body[i] ^= 0x80;
        cr_assert_not(join_is_proven(TOKEN, &nonces, MESSAGE_ID_peer, body, n), "byte %zu", i);
        body[i] ^= 0x80;
    }
    for (size_t i = 0; i < 2 * JOIN_NONCE_BYTES; i++) {
        struct join_nonces others = nonces;
        ((uint8_t *)&others)[i] ^= 1;
        cr_assert_not(join_is_proven(TOKEN, &others, MESSAGE_ID_peer, body, n), "byte %zu of the nonces", i);
    }
    for (size_t cut = 0; cut < n; cut++) {
        cr_assert_not(join_is_proven(TOKEN, &nonces, MESSAGE_ID_peer, body, cut), "cut at %zu", cut);
    }
    free(frame);
}

Test(join_proof, a_frame_of_one_connection_proves_nothing_on_another)
{
    const struct join_nonces nonces = nonces_of(1), others = nonces_of(2);
    size_t n;
    uint8_t *frame = peer_frame(&nonces, &n);
    cr_assert_not(
        join_is_proven(TOKEN, &others, MESSAGE_ID_peer, frame + CONTROL_HEAD_BYTES, n - CONTROL_HEAD_BYTES));
    free(frame);
}

Test(join_proof, nonces_are_of_one_length_and_never_the_same)
{
    uint8_t one[JOIN_NONCE_BYTES], two[JOIN_NONCE_BYTES];
    join_nonce(one);
    join_nonce(two);
    cr_assert_neq(memcmp(one, two, sizeof one), 0);
    cr_assert_eq(join_nonce_take((struct message_span){one, sizeof one}, two), STATUS_OK);
    cr_assert_eq(memcmp(one, two, sizeof one), 0);
    cr_assert_eq(join_nonce_take((struct message_span){one, sizeof one - 1}, two), STATUS_PEER);
    cr_assert_not_null(strstr(status_reason(), "a nonce of 31 bytes came, expected 32"), "%s", status_reason());
}
