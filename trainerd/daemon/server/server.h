/* Connections: JSON lines over a Unix or TCP socket, within limits, nobody held up by anybody else. See
 * docs/protocol.md.
 *
 * Frames, deadlines, who the peer is (SO_PEERCRED, or the shared secret's challenge), and how much may wait to be
 * read by it live here; what requests mean lives in commands.h.
 */
#ifndef TRAINERD_DAEMON_SERVER_H
#define TRAINERD_DAEMON_SERVER_H

#include "protocol/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

struct server;
struct connection;

/* A client that is too many, too slow, silent or hostile is told so in a line {"id":null,"ok":false,…} where it can
 * be told, and dropped. Connections without a request make room for newcomers, oldest first; those with one stay. */
struct server_options {
    const char *address;     /* unix:PATH or tcp:HOST:PORT */
    const char *secret_file; /* tcp: must be there, owner-only */
    uid_t tcp_uid;           /* whom clients that prove the secret are taken for */
    gid_t tcp_gid;
    int32_t n_most_connection, n_most_of_uid;
    size_t n_most_frame;    /* bytes of one line */
    size_t n_most_unread;   /* bytes that wait to be read by a peer; beyond: it is dropped */
    double hello_s, idle_s; /* until the first request, between requests */
};

struct server_handler {
    /* One request, an object; borrowed. Answer through connection_send, now or later. */
    void (*request)(void *context, struct connection *connection, json_t *request);
    /* Its peer is gone: forget it. */
    void (*closed)(void *context, struct connection *connection);
    /* All that was sent has left: a follower may be given more. */
    void (*drained)(void *context, struct connection *connection);
    void *context;
};

/* Listen. A Unix socket that nobody answers on is replaced; it is for this user alone, for everybody when this is
 * root. The process ignores SIGPIPE from then on.
 *
 *   owns    borrows loop; copies options and handler; the caller owns *out: server_close
 *   errors  STATUS_CONFIG address or secret file; STATUS_PEER another daemon answers there; STATUS_CREATE
 */
enum status server_open(uv_loop_t *loop, const struct server_options *options, const struct server_handler *handler,
                        struct server **out);
/* Closes all connections after what waits has left or a second has passed; the socket file is removed. The loop has
 * to run on until nothing of the server is left in it, and frees it then; the handler hears of nobody any more. */
void server_close(struct server *server);
/* Where it listens, as a client would write it. */
const char *server_address(const struct server *server);

/* Send an object as one line; the reference is taken. false: the peer reads too slowly, or is gone, and
 * handler.closed will be called once this turn of the loop is over. */
bool connection_send(struct connection *connection, json_t *object);
size_t connection_unread(const struct connection *connection);
/* Who it is. TCP with the secret: tcp_uid. */
uid_t connection_uid(const struct connection *connection);
gid_t connection_gid(const struct connection *connection);
bool connection_is_admin(const struct connection *connection); /* root, or the daemon's own user */
/* An answer to it is under way: until it is released, idle_s does not apply, and it stays when its peer will ask no
 * more. */
void connection_hold(struct connection *connection, bool held);
/* Its peer will ask no more; it may still read. */
bool connection_ended(const struct connection *connection);

#endif
