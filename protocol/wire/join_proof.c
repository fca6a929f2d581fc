#include "protocol/wire/join_proof.h"

#include "protocol/base/log.h"
#include "protocol/wire/control.h"

#include <sodium.h>
#include <string.h>

_Static_assert(JOIN_PROOF_BYTES == crypto_auth_hmacsha512256_BYTES, "a proof is one of these");

void join_nonce(uint8_t out[JOIN_NONCE_BYTES])
{
    ASSERT(sodium_init() >= 0);
    randombytes_buf(out, JOIN_NONCE_BYTES);
}

enum status join_nonce_take(struct message_span from, uint8_t out[JOIN_NONCE_BYTES])
{
    if (from.n_bytes != JOIN_NONCE_BYTES) {
        return status_fail(STATUS_PEER, "a nonce of %u bytes came, expected %d", from.n_bytes, JOIN_NONCE_BYTES);
    }
    memcpy(out, from.at, JOIN_NONCE_BYTES);
    return STATUS_OK;
}

struct message_span join_proof_blank(void)
{
    static const uint8_t zeros[JOIN_PROOF_BYTES];
    return (struct message_span){zeros, sizeof zeros};
}

static void prove(const char *token, const struct join_nonces *nonces, unsigned id, const void *bytes, size_t n_bytes,
                  uint8_t out[JOIN_PROOF_BYTES])
{
    static const char name[] = "trainerd-3-join";
    const uint8_t number = (uint8_t)id;
    crypto_auth_hmacsha512256_state state;
    ASSERT(sodium_init() >= 0 && id < 256);
    crypto_auth_hmacsha512256_init(&state, (const unsigned char *)token, strlen(token));
    crypto_auth_hmacsha512256_update(&state, (const unsigned char *)name, sizeof name);
    crypto_auth_hmacsha512256_update(&state, &number, sizeof number);
    crypto_auth_hmacsha512256_update(&state, nonces->coordinator, sizeof nonces->coordinator);
    crypto_auth_hmacsha512256_update(&state, nonces->worker, sizeof nonces->worker);
    crypto_auth_hmacsha512256_update(&state, bytes, n_bytes);
    crypto_auth_hmacsha512256_final(&state, out);
    sodium_memzero(&state, sizeof state);
}

void join_prove(const char *token, const struct join_nonces *nonces, void *frame, size_t n_bytes)
{
    ASSERT(n_bytes >= CONTROL_HEAD_BYTES + JOIN_PROOF_BYTES);
    uint8_t *bytes = frame, *body = bytes + CONTROL_HEAD_BYTES, *proof = bytes + n_bytes - JOIN_PROOF_BYTES;
    prove(token, nonces, control_id(frame), body, (size_t)(proof - body), proof);
}

bool join_is_proven(const char *token, const struct join_nonces *nonces, unsigned id, const void *body,
                    size_t n_bytes)
{
    uint8_t expected[JOIN_PROOF_BYTES];
    if (n_bytes < JOIN_PROOF_BYTES || id > 255) {
        return false;
    }
    size_t n = n_bytes - JOIN_PROOF_BYTES;
    prove(token, nonces, id, body, n, expected);
    return sodium_memcmp(expected, (const uint8_t *)body + n, JOIN_PROOF_BYTES) == 0;
}
