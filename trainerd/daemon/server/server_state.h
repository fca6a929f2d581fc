/* A server and its connections from inside. Each of these files calls only those after it:
 *
 * server.c listens, enforces limits and deadlines · connection_requests.c handles requests · handshake.c checks
 * secrets · connection.c moves bytes · server_state.c keeps the lists.
 */
#ifndef TRAINERD_DAEMON_SERVER_STATE_H
#define TRAINERD_DAEMON_SERVER_STATE_H

#include "protocol/base/log_limit.h"
#include "trainerd/daemon/server/server.h"
#include "trainerd/daemon/server/turns.h"
#include "trainerd/daemon/server/users.h"
#include "trainerd/socket/auth.h"
#include "trainerd/socket/endpoint.h"
#include "trainerd/socket/frame.h"
#include "trainerd/socket/tls.h"

#define UID_UNKNOWN ((uid_t)-1)
#define CONNECTION_READ_BYTES 65536u

enum connection_state {
    CONNECTION_STATE_UNAUTHENTICATED, /* has not proved the secret yet */
    CONNECTION_STATE_OPEN,
    CONNECTION_STATE_CLOSING, /* queued bytes may still leave; received bytes are discarded */
    CONNECTION_STATE_CLOSED   /* the handle is being closed */
};

union server_socket {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_pipe_t pipe;
    uv_tcp_t tcp;
};

struct connection_peer {
    uid_t uid;
    gid_t gid;
    pid_t pid;                  /* of a Unix socket's peer, when it connected; 0: not known */
    char user[AUTH_USER_BYTES]; /* the name of its login; "": no login by name */
    enum user_role role;
};

struct connection {
    struct server *server;
    struct connection *next; /* of the server's, newest first */
    struct turn turn;        /* of its user, while it is open: to look at what has come */
    union server_socket socket;
    struct tls *tls;   /* NULL: without */
    bool is_encrypted; /* its handshake is complete */
    bool is_begun;     /* its first byte has come: it is TLS where that is expected */
    struct frame_reader frames;
    enum connection_state state;
    bool is_announced;  /* the handler knows it */
    bool has_requested; /* made its first request */
    bool is_held, has_failed;
    bool is_blocked;        /* its next request waits until work for this one is done */
    bool is_ended, is_shut; /* its peer sends no more; we do not */
    bool is_paused;         /* its next request waits until its peer has read */
    struct connection_peer peer;
    uint64_t since_ms, active_ms; /* accepted; last request, or last bytes that left */
    uint64_t ready_ms, waited_ms; /* since when its turn waits; how long its turns have waited before */
    uint64_t closing_ms;
    char nonce[AUTH_TEXT_BYTES]; /* for its peer to answer; "": not sent yet, or used */
};

struct server {
    uv_loop_t *loop;
    struct server_options options; /* without its texts */
    struct server_handler handler;
    struct endpoint endpoint;
    char address[ENDPOINT_TEXT_BYTES];
    struct auth_secret secret, decoy; /* of secret_file; of users that there are not */
    bool has_secret;
    char *users_file; /* NULL: none */
    struct users users;
    struct tls_identity *identity; /* NULL: without TLS */
    union server_socket listener;
    uv_timer_t tick;
    struct turns turns;
    struct connection *connections;
    int n_connection, n_handle;
    size_t n_buffered; /* bytes of all frame readers together */
    struct log_limit failed_logins;
    bool is_closing;
    char discard[4096];
    char received[CONNECTION_READ_BYTES]; /* of TLS, until it is handed on in the same callback */
};

/* server_state.c */
void server_ready(struct connection *connection);  /* its turn comes, among those of its user */
void server_join(struct connection *connection);   /* it is its user's from here on */
void server_forget(struct connection *connection); /* remove it from all lists */
enum user_role server_role(uid_t uid);             /* without a name */
void server_handle_closed(struct server *server);  /* the last one frees the server */
void server_close_timers(struct server *server);   /* while closing, once no connection is left */

/* connection.c */
void connection_begin(struct connection *connection);                  /* read on; its socket is connected */
void connection_answer(struct connection *connection, json_t *answer); /* as connection_send, for any state */
void connection_refuse(struct connection *connection, const json_t *request,
                       enum status status);           /* send why, and close */
void connection_close(struct connection *connection); /* after what is queued */
void connection_abort(struct connection *connection); /* now */

/* handshake.c: handle a request of an unauthenticated client */
void handshake_request(struct connection *connection, const json_t *request);

/* connection_requests.c: handle one request, or a failure */
void connection_take_turn(struct turn *turn);

#endif
