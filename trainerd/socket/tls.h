/* TLS 1.3 between a daemon and its clients, over memory: bytes from the socket go in, bytes for the socket come out,
 * in between are those of requests and answers. tls*.c are the only files that see GnuTLS.
 *
 * A daemon's certificate is its own, signed by itself: its fingerprint is what a client knows it by, and no authority
 * is asked. No session is resumed, so that no bytes of an earlier connection mean anything in another. Knows no
 * sockets and no requests.
 */
#ifndef TRAINERD_DAEMON_TLS_H
#define TRAINERD_DAEMON_TLS_H

#include "protocol/base/status.h"

#include <stdbool.h>
#include <stddef.h>

#define TLS_FINGERPRINT_BYTES 65  /* SHA-256 of a certificate as 64 hexadecimal digits, with NUL */
#define TLS_RECORD_HANDSHAKE 0x16 /* the first byte of a client that begins with TLS; no line of JSON begins so */
#define TLS_FILE "tls.pem"

struct tls_identity;

/* A daemon's private key and certificate, of the file TLS_FILE in its state folder; made if it is missing and
 * `makes`: written aside, with mode 0600, and renamed.
 *
 *   owns    the caller owns *out: tls_identity_close
 *   errors  STATUS_NO_INPUT no such file; STATUS_CONFIG the file is another user's, others can read it, or it does
 *           not hold a key with its certificate; STATUS_CREATE, STATUS_IO
 */
enum status tls_identity_open(const char *folder, bool makes, struct tls_identity **out);
void tls_identity_close(struct tls_identity *identity); /* NULL: nothing */
const char *tls_identity_fingerprint(const struct tls_identity *identity);

/* Read a fingerprint: 64 hexadecimal digits, with colons or without, to lower case. false: not a fingerprint */
bool tls_fingerprint_read(const char *text, char out[TLS_FINGERPRINT_BYTES]);

struct tls;

/* One end of a connection. identity  the daemon's, borrowed; NULL: the client's end · owns  the caller: tls_close */
struct tls *tls_open(const struct tls_identity *identity);
void tls_close(struct tls *tls); /* NULL: nothing */

/* Bytes that came from the socket; kept until tls_shake and tls_read have used them. */
void tls_feed(struct tls *tls, const void *bytes, size_t n);

/* Go on with the handshake; *done_out: it is complete, and bytes can be read and written.
 *
 *   errors  STATUS_PEER what came is no TLS 1.3, or its proofs do not hold. An alert for the peer may wait in
 *           tls_take
 */
enum status tls_shake(struct tls *tls, bool *done_out);

/* The next bytes that the peer has written, *n_out of at most `room`. 0: more must come from the socket first, or the
 * peer has ended. errors  STATUS_PEER bytes were changed, left out or added on the way */
enum status tls_read(struct tls *tls, void *out, size_t room, size_t *n_out);
bool tls_has_bytes(const struct tls *tls); /* that tls_read has not used yet */
bool tls_has_ended(const struct tls *tls); /* the peer writes no more */

/* Bytes for the peer / the end of them: to be sent with tls_take. */
enum status tls_write(struct tls *tls, const void *bytes, size_t n);
void tls_end(struct tls *tls);

/* What is to be sent, *n_out bytes; NULL: nothing is. owns  the caller frees it */
char *tls_take(struct tls *tls, size_t *n_out);

/* The fingerprint of the certificate whose key the daemon has proved; "" before the handshake is complete. */
const char *tls_fingerprint(const struct tls *tls);

#endif
