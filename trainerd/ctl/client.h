/* A client's connection to the daemon: requests and answers as objects (docs/protocol.md).
 *
 * Knows the protocol's lines and its authentication, not what requests mean.
 */
#ifndef TRAINERD_CTL_CLIENT_H
#define TRAINERD_CTL_CLIENT_H

#include "protocol/status.h"
#include "trainerd/daemon/server/frame.h"

#include <jansson.h>

struct client {
    int file; /* -1: not connected */
    struct frame_reader lines;
    json_int_t id; /* of the last request */
};

/* Connect, and authenticate where a secret is needed.
 *
 *   address      NULL: this user's daemon, else the system's; a daemon of another user on these sockets is refused
 *   secret_file  tcp only; NULL: none
 *   owns         the caller owns *out: client_close
 *   errors       STATUS_CONFIG the address or the secret file; STATUS_PEER no daemon answers, or it does not know the secret
 */
enum status client_open(const char *address, const char *secret_file, struct client *out);
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

#endif
