/* Sealed bytes: encrypted and authenticated by libsodium's AEAD ciphers, for traffic that leaves a machine.
 *
 * Each sender has a key of its own, made from the job's token and a session number that the coordinator draws for
 * each attempt. A nonce is the receiver's number and a sequence number, so the caller never uses a sequence number
 * twice for one receiver.
 */
#ifndef PROTOCOL_SEAL_H
#define PROTOCOL_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEAL_TAG_BYTES 16
#define SEAL_SESSION_BYTES 32
#define SEAL_WINDOW 1024 /* messages that may overtake one */

enum seal_cipher { SEAL_NONE, SEAL_AES256GCM, SEAL_CHACHA20POLY1305, SEAL_N };

/* Purpose of a key. */
enum seal_purpose { SEAL_MESSAGES, SEAL_TO_WORKER, SEAL_TO_COORDINATOR };

/* Shared by all processes of an attempt. */
struct seal_secret {
    enum seal_cipher cipher;
    const char *token;
    uint8_t session[SEAL_SESSION_BYTES];
    uint32_t attempt;
};

struct seal_key;

/* Sequence numbers that have arrived from one sender. */
struct seal_window {
    uint64_t end; /* one more than the largest that came */
    uint64_t seen[SEAL_WINDOW / 64];
};

/* "AES-256-GCM"; "none" */
const char *seal_cipher_name(enum seal_cipher cipher);

/* The ciphers that this processor has, bit 1 << cipher of each. */
uint32_t seal_ciphers(void);

/* The fastest of these; SEAL_NONE: no common one. */
enum seal_cipher seal_cipher_choose(uint32_t ciphers);

/* SEAL_SESSION_BYTES random bytes. */
void seal_session_draw(uint8_t out[SEAL_SESSION_BYTES]);

/* The key of sender `number`, a peer's or (not SEAL_MESSAGES) a rank. Its cipher is not SEAL_NONE, and this processor
 * has it.
 *
 *   owns  the caller frees it: seal_key_free (NULL is allowed)
 */
struct seal_key *seal_key_make(const struct seal_secret *secret, enum seal_purpose purpose, uint32_t number);
void seal_key_free(struct seal_key *key);

/* One message: who it is for, its number, and what is authenticated with it but not encrypted. */
struct seal_message {
    uint32_t to;
    uint64_t sequence;
    const void *beside;
    size_t n_beside;
};

/* Encrypt n bytes to `out`, which may be the same bytes. Where n is 0, both may be NULL. */
void seal_close(const struct seal_key *key, const struct seal_message *message, const void *plain, size_t n,
                void *out, uint8_t tag[SEAL_TAG_BYTES]);

/* Decrypt n bytes likewise. false: they are not what the sender sealed; `out` is not to be used. */
bool seal_open(const struct seal_key *key, const struct seal_message *message, const void *sealed, size_t n,
               const uint8_t tag[SEAL_TAG_BYTES], void *out);

/* Admit an authenticated sequence number: false where it came before, or SEAL_WINDOW numbers too late. */
bool seal_window_admit(struct seal_window *window, uint64_t sequence);

#endif
