/* Connections: JSON lines over a Unix socket or TLS, within limits, no client delayed by another (docs/protocol.md).
 *
 * The server owns frames, deadlines, the peer's identity (SO_PEERCRED, or a secret's challenge) and the limit of
 * unread bytes. What requests mean is in commands.h.
 */
#ifndef TRAINERD_DAEMON_SERVER_H
#define TRAINERD_DAEMON_SERVER_H

#include "protocol/base/status.h"
#include "trainerd/daemon/server/turns.h"
#include "trainerd/daemon/server/users.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

struct server;
struct connection;

/* A client over a limit, too slow, silent or hostile gets the reason in a line {"id":null,"ok":false,…}, if it can
 * still be sent, and is disconnected. Over the limit of connections, the oldest one without a request is evicted for
 * a newcomer. */
struct server_options {
    const char *address;     /* unix:PATH or tcp:HOST:PORT */
    const char *secret_file; /* tcp: of clients that name no user; NULL or "": no such clients */
    uid_t tcp_uid;           /* the user that those act as */
    gid_t tcp_gid;
    const char *users_file; /* tcp: users.h; NULL or "": none. One of the two files must be given, owner-only */
    const char *tls_folder; /* tcp: where the certificate is, or is made; NULL: without TLS */
    int32_t n_most_connection, n_most_of_uid;
    size_t n_most_frame;      /* bytes of one line */
    size_t n_most_unread;     /* bytes that a peer has not read yet; with more, it is disconnected */
    double hello_s, idle_s;   /* until the first request, between requests */
    uint64_t (*now_ns)(void); /* of turns.h; NULL: the machine's clock */
};

struct server_handler {
    /* One request, an object; borrowed. Answer through connection_send, now or later. */
    void (*request)(void *context, struct connection *connection, json_t *request);
    /* Its peer is gone: drop all references to it. */
    void (*closed)(void *context, struct connection *connection);
    /* All that was sent has left: more may be sent to a follower. */
    void (*drained)(void *context, struct connection *connection);
    void *context;
    /* A login failed, with its reason; at most LOG_LIMIT_MOST times a minute. NULL: it is not to be known */
    void (*login_failed)(void *context, const struct connection *connection, const char *reason);
};

/* Listen. A Unix socket that no process answers on is replaced. It is open to this user alone, for root to all users.
 * The process ignores SIGPIPE from then on.
 *
 *   owns    borrows loop; copies options and handler; the caller owns *out: server_close
 *   errors  STATUS_CONFIG address, secret file, users file or certificate; STATUS_PEER another daemon answers there;
 *           STATUS_CREATE
 */
enum status server_open(uv_loop_t *loop, const struct server_options *options, const struct server_handler *handler,
                        struct server **out);
/* Close all connections, after their queued bytes have left or a second has passed, and remove the socket file. The
 * loop has to run until no handle of the server is left, and then frees it; the handler is not called any more. */
void server_close(struct server *server);
/* The address it listens on, as a client would write it. */
const char *server_address(const struct server *server);
/* The fingerprint of its certificate; "": without TLS. */
const char *server_fingerprint(const struct server *server);
/* Read users_file again, and disconnect those who are not in it any more as they were.
 * errors  those of users_load; the users stay as they are then */
enum status server_reload(struct server *server);

/* Send an object as one line; the reference is taken. false: the peer reads too slowly, or is gone, and
 * handler.closed will be called once this turn of the loop is over. */
bool connection_send(struct connection *connection, json_t *object);
size_t connection_unread(const struct connection *connection);
/* Where it comes from: "unix, process 4711", "192.0.2.7 port 51234", "192.0.2.7 port 51234 as ada". */
#define CONNECTION_FROM_BYTES 128
void connection_from(const struct connection *connection, char out[CONNECTION_FROM_BYTES]);
/* The peer's user of this machine. TCP: that of its name in users_file; with the secret of secret_file: tcp_uid. */
uid_t connection_uid(const struct connection *connection);
gid_t connection_gid(const struct connection *connection);
/* The name that it has logged in by; "": by none. */
const char *connection_user(const struct connection *connection);
/* What it may do; without a name: ADMIN for root and the daemon's own user, SUBMIT for others. */
enum user_role connection_role(const struct connection *connection);
bool connection_is_admin(const struct connection *connection);
/* Hold the connection while an answer is under way: idle_s does not apply, nor does the peer's end of sending. */
void connection_hold(struct connection *connection, bool held);
/* Work for a request takes several turns: the connection's next request waits until it is done. */
void connection_block(struct connection *connection, bool is_blocked);
/* The turns of its server's users: for work that goes on in its user's turns. They end with server_close. */
struct turns *connection_turns(const struct connection *connection);
/* Its peer has sent its last request; it may still read. */
bool connection_ended(const struct connection *connection);

#endif
