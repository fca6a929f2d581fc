/* Mutual authentication by a secret, over a connection that others may read: each side answers the other's random
 * nonce, so that neither the secret nor anything replayable is sent. With protocol/wire/join_proof.c the only file
 * that sees libsodium.
 *
 *   server → client   server nonce
 *   client → server   user, client nonce, auth_proof(CLIENT)
 *   server → client   auth_proof(SERVER)
 *
 * A proof is crypto_auth (HMAC-SHA-512-256), keyed by the secret, of the role's name, both nonces, the fingerprint of
 * the daemon's certificate as the side that proves has seen it, and the user's name. So a login that is passed on to
 * another connection fails: its client has seen the certificate of the process between. Knows no sockets.
 */
#ifndef TRAINERD_DAEMON_AUTH_H
#define TRAINERD_DAEMON_AUTH_H

#include "protocol/base/status.h"

#include <stdbool.h>
#include <stddef.h>

#define AUTH_BYTES 32
#define AUTH_TEXT_BYTES (2 * AUTH_BYTES + 1) /* as hexadecimal digits, with NUL */
#define AUTH_USER_BYTES 33                   /* a user's name, with NUL */

struct auth_secret {
    unsigned char bytes[AUTH_BYTES];
};

enum auth_role { AUTH_ROLE_CLIENT, AUTH_ROLE_SERVER };

/* What a proof is of, beside its role. */
struct auth_login {
    const char *server_nonce, *client_nonce;
    const char *fingerprint; /* of the daemon's certificate; "": a connection without TLS */
    const char *user;        /* "": of secret_file */
};

/* Read a file that only its owner, this user or root, can read or change.
 *
 *   what    "secret file", for messages
 *   owns    *out, n_out bytes and a NUL, is the caller's: auth_text_release
 *   errors  STATUS_NO_INPUT; STATUS_DATA no plain file; STATUS_CONFIG other users can read it, own it, or it has more
 *           than n_most bytes
 */
enum status auth_file_read(const char *what, const char *path, size_t n_most, char **out, size_t *n_out);
void auth_text_release(char *text, size_t n); /* wipes it */

/* Read a secret: a file as above with 64 hexadecimal digits.
 * errors  those of auth_file_read; STATUS_CONFIG it has not 64 digits. No message contains its bytes */
enum status auth_secret_load(const char *path, struct auth_secret *out);
/* The secret that a text is, 64 hexadecimal digits and nothing else. false: it is not a secret */
bool auth_secret_read(const char *text, struct auth_secret *out);
/* One that no client knows, for users that there are not. */
void auth_secret_draw(struct auth_secret *out);
void auth_secret_release(struct auth_secret *secret); /* wipes it */

/* A user's name: 1 to 32 letters, digits, points, hyphens and underscores, first no hyphen or point. */
bool auth_is_user(const char *name);

/* A fresh nonce, as text. */
void auth_nonce(char out[AUTH_TEXT_BYTES]);

/* A role's proof of the secret, as text.
 * errors  STATUS_USAGE a nonce or the fingerprint is not 64 hexadecimal digits, or the user's name is too long */
enum status auth_proof(const struct auth_secret *secret, enum auth_role role, const struct auth_login *login,
                       char out[AUTH_TEXT_BYTES]);

/* Is this the role's proof? Compares in constant time. */
bool auth_is_proof(const struct auth_secret *secret, enum auth_role role, const struct auth_login *login,
                   const char *proof);

#endif
