#include "protocol/transport/seal.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/files/bytes.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BYTES 32
#define NONCE_BYTES 12

_Static_assert(crypto_aead_aes256gcm_KEYBYTES == KEY_BYTES &&
                   crypto_aead_chacha20poly1305_ietf_KEYBYTES == KEY_BYTES &&
                   crypto_auth_hmacsha512256_BYTES == KEY_BYTES,
               "both ciphers take the keys that are derived");
_Static_assert(crypto_aead_aes256gcm_NPUBBYTES == NONCE_BYTES &&
                   crypto_aead_chacha20poly1305_ietf_NPUBBYTES == NONCE_BYTES,
               "nonces are as long");
_Static_assert(crypto_aead_aes256gcm_ABYTES == SEAL_TAG_BYTES &&
                   crypto_aead_chacha20poly1305_ietf_ABYTES == SEAL_TAG_BYTES,
               "tags are as long");

struct seal_key {
    crypto_aead_aes256gcm_state aes;
    uint8_t chacha[KEY_BYTES];
    enum seal_cipher cipher;
};

const char *seal_cipher_name(enum seal_cipher cipher)
{
    static const char *const names[SEAL_N] = {"none", "AES-256-GCM", "ChaCha20-Poly1305"};
    return names[cipher];
}

uint32_t seal_ciphers(void)
{
    ASSERT(sodium_init() >= 0);
    return 1u << SEAL_CHACHA20POLY1305 | (crypto_aead_aes256gcm_is_available() != 0 ? 1u << SEAL_AES256GCM : 0);
}

enum seal_cipher seal_cipher_choose(uint32_t ciphers)
{
    for (int cipher = SEAL_NONE + 1; cipher < SEAL_N; cipher++) {
        if ((ciphers >> cipher & 1) != 0) {
            return (enum seal_cipher)cipher;
        }
    }
    return SEAL_NONE;
}

void seal_session_draw(uint8_t out[SEAL_SESSION_BYTES])
{
    ASSERT(sodium_init() >= 0);
    randombytes_buf(out, SEAL_SESSION_BYTES);
}

struct seal_key *seal_key_make(const struct seal_secret *secret, enum seal_purpose purpose, uint32_t number)
{
    static const char name[] = "trainerd-4-seal";
    uint8_t numbers[12], bytes[KEY_BYTES];
    struct bytes_writer writer = {.to = numbers, .capacity = sizeof numbers};
    bytes_write_number(&writer, secret->attempt, 4);
    bytes_write_number(&writer, purpose, 4);
    bytes_write_number(&writer, number, 4);
    crypto_auth_hmacsha512256_state state;
    ASSERT(sodium_init() >= 0 && (seal_ciphers() >> secret->cipher & 1) != 0);
    crypto_auth_hmacsha512256_init(&state, (const unsigned char *)secret->token, strlen(secret->token));
    crypto_auth_hmacsha512256_update(&state, (const unsigned char *)name, sizeof name);
    crypto_auth_hmacsha512256_update(&state, secret->session, sizeof secret->session);
    crypto_auth_hmacsha512256_update(&state, numbers, sizeof numbers);
    crypto_auth_hmacsha512256_final(&state, bytes);
    sodium_memzero(&state, sizeof state);
    struct seal_key *key = memory_alloc(1, sizeof *key);
    key->cipher = secret->cipher;
    if (key->cipher == SEAL_AES256GCM) {
        crypto_aead_aes256gcm_beforenm(&key->aes, bytes);
    } else {
        memcpy(key->chacha, bytes, sizeof bytes);
    }
    sodium_memzero(bytes, sizeof bytes);
    return key;
}

void seal_key_free(struct seal_key *key)
{
    if (key != NULL) {
        sodium_memzero(key, sizeof *key);
        free(key);
    }
}

static void nonce_of(const struct seal_message *message, uint8_t out[NONCE_BYTES])
{
    struct bytes_writer writer = {.to = out, .capacity = NONCE_BYTES};
    bytes_write_number(&writer, message->to, 4);
    bytes_write_number(&writer, message->sequence, 8);
}

void seal_close(const struct seal_key *key, const struct seal_message *message, const void *plain, size_t n,
                void *out, uint8_t tag[SEAL_TAG_BYTES])
{
    uint8_t nonce[NONCE_BYTES], none = 0;
    nonce_of(message, nonce);
    out = n > 0 ? out : &none; /* libsodium takes no NULL */
    plain = n > 0 ? plain : &none;
    if (key->cipher == SEAL_AES256GCM) {
        crypto_aead_aes256gcm_encrypt_detached_afternm(out, tag, NULL, plain, n, message->beside, message->n_beside,
                                                       NULL, nonce, &key->aes);
    } else {
        crypto_aead_chacha20poly1305_ietf_encrypt_detached(out, tag, NULL, plain, n, message->beside,
                                                           message->n_beside, NULL, nonce, key->chacha);
    }
}

bool seal_open(const struct seal_key *key, const struct seal_message *message, const void *sealed, size_t n,
               const uint8_t tag[SEAL_TAG_BYTES], void *out)
{
    uint8_t nonce[NONCE_BYTES], none = 0;
    nonce_of(message, nonce);
    out = n > 0 ? out : &none;
    sealed = n > 0 ? sealed : &none;
    if (key->cipher == SEAL_AES256GCM) {
        return crypto_aead_aes256gcm_decrypt_detached_afternm(out, NULL, sealed, n, tag, message->beside,
                                                              message->n_beside, nonce, &key->aes) == 0;
    }
    return crypto_aead_chacha20poly1305_ietf_decrypt_detached(out, NULL, sealed, n, tag, message->beside,
                                                              message->n_beside, nonce, key->chacha) == 0;
}

/* Forget the numbers that leave the window when it ends at `end`. */
static void window_move(struct seal_window *window, uint64_t end)
{
    if (end - window->end >= SEAL_WINDOW) {
        memset(window->seen, 0, sizeof window->seen);
        window->end = end;
    }
    for (; window->end < end; window->end++) {
        uint64_t bit = window->end % SEAL_WINDOW;
        window->seen[bit / 64] &= ~(1ull << bit % 64);
    }
}

bool seal_window_admit(struct seal_window *window, uint64_t sequence)
{
    if (sequence == UINT64_MAX || (sequence < window->end && window->end - sequence > SEAL_WINDOW)) {
        return false;
    }
    if (sequence >= window->end) {
        window_move(window, sequence + 1);
    }
    uint64_t bit = sequence % SEAL_WINDOW, mask = 1ull << bit % 64;
    bool came = (window->seen[bit / 64] & mask) != 0;
    window->seen[bit / 64] |= mask;
    return !came;
}
