/* A client's connection to the daemon: requests and answers as objects (docs/protocol.md).
 *
 * Knows the protocol's lines and its authentication, not what requests mean.
 */
#ifndef TRAINERD_CTL_CLIENT_H
#define TRAINERD_CTL_CLIENT_H

#include "protocol/base/status.h"
#include "trainerd/socket/auth.h"
#include "trainerd/socket/frame.h"
#include "trainerd/socket/tls.h"

#include <jansson.h>

struct client {
    int file;        /* -1: not connected */
    struct tls *tls; /* NULL: without */
    struct frame_reader lines;
    json_int_t id; /* of the last request */
};

/* How a daemon on a TCP port is known, and who logs in there. */
struct client_login {
    /* of its certificate, or "none": a connection without TLS; NULL: not known, which is an error */
    const char *fingerprint;
    const char *user;                 /* "": none is named */
    const char *secret_file;          /* NULL: none */
    const struct auth_secret *secret; /* in the place of the file; NULL: the file */
};

/* Connect, and authenticate over TCP.
 *
 *   address  NULL: this user's daemon, else the system's; a daemon of another user on these sockets is refused
 *   login    for TCP
 *   owns     the caller owns *out: client_close
 *   errors   STATUS_CONFIG the address, the secret file, or what login lacks; STATUS_PEER no daemon answers, it is
 *            not the one that is known, or it does not know the secret
 */
enum status client_open(const char *address, const struct client_login *login, struct client *out);

/* The fingerprint of the certificate that a daemon on a TCP port shows, which a process between can have changed.
 * errors  STATUS_CONFIG not a TCP address; STATUS_PEER no daemon answers, or it speaks no TLS */
enum status client_seen(const char *address, char out[TLS_FINGERPRINT_BYTES]);
void client_close(struct client *client);

/* Send a request made with json_pack, whose reference is taken; its "v" and "id" are added.
 * errors  STATUS_PEER the daemon is gone */
enum status client_send(struct client *client, json_t *request);

/* The next line for the last request. *out NULL: none within wait_ms (-1: wait without limit).
 *
 *   owns    *out: json_decref
 *   errors  STATUS_PEER the daemon is gone; a refusal: its status and reason
 */
enum status client_next(struct client *client, int wait_ms, json_t **out);

/* Send a request and wait for its one answer. */
enum status client_ask(struct client *client, json_t *request, json_t **out);

/* Ask for a list page by page, until it has n_most entries (0: all).
 *
 *   list   the answer's array · place  its field from which the next page begins, and the request's
 *   owns   takes the request's reference. *out: the last answer, with the entries of all, and `place` where there are
 *          more: json_decref, also after an error
 */
enum status client_pages(struct client *client, json_t *request, const char *list, const char *place, int64_t n_most,
                         json_t **out);

#endif
