/* Mutual authentication by a shared secret, over a connection that others may read: each side answers the other's random nonce, so
 * that neither the secret nor anything replayable is sent. With protocol/transport/join_proof.c the only file that sees libsodium.
 *
 *   server → client   server nonce
 *   client → server   client nonce, auth_proof(CLIENT)
 *   server → client   auth_proof(SERVER)
 *
 * A proof is crypto_auth (HMAC-SHA-512-256), keyed by the secret, of the role's name and both nonces.
 * Knows no sockets.
 */
#ifndef TRAINERD_DAEMON_AUTH_H
#define TRAINERD_DAEMON_AUTH_H

#include "protocol/status.h"

#include <stdbool.h>

#define AUTH_BYTES 32
#define AUTH_TEXT_BYTES (2 * AUTH_BYTES + 1) /* as hexadecimal digits, with NUL */

struct auth_secret {
    unsigned char bytes[AUTH_BYTES];
};

enum auth_role { AUTH_ROLE_CLIENT, AUTH_ROLE_SERVER };

/* Read a secret: a file with 64 hexadecimal digits, owned by this user or root, that no other user can read.
 *
 *   errors  STATUS_NO_INPUT; STATUS_CONFIG other users can read it, own it, or it has not 64 digits. No message contains its bytes
 */
enum status auth_secret_load(const char *path, struct auth_secret *out);
void auth_secret_release(struct auth_secret *secret); /* wipes it */

/* A fresh nonce, as text. */
void auth_nonce(char out[AUTH_TEXT_BYTES]);

/* A role's proof of the secret, for both nonces, as text.
 * errors  STATUS_USAGE a nonce is not 64 hexadecimal digits */
enum status auth_proof(const struct auth_secret *secret, enum auth_role role, const char *server_nonce,
                       const char *client_nonce, char out[AUTH_TEXT_BYTES]);

/* Is this the role's proof? Compares in constant time. */
bool auth_is_proof(const struct auth_secret *secret, enum auth_role role, const char *server_nonce, const char *client_nonce,
                   const char *proof);

#endif
