/* The requests of an unauthenticated client: "hello" gets a nonce, "auth" has the proof of a secret. */
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "protocol/base/version.h"
#include "trainerd/daemon/server/answer.h"
#include "trainerd/daemon/server/server_state.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SHOWN_BYTES 64 /* of a name that a client claims, as text */
#define REASON_BYTES 192

static void answer_hello(struct connection *connection, const json_t *request)
{
    auth_nonce(connection->nonce);
    connection_answer(connection, answer_with(request, "{s:i, s:s, s:s}", "v", CLIENT_PROTOCOL_VERSION, "version",
                                              TRAINERD_VERSION, "nonce", connection->nonce));
}

void connection_from(const struct connection *connection, char out[CONNECTION_FROM_BYTES])
{
    struct sockaddr_storage address = {0};
    int n_address = sizeof address;
    char host[48] = "?", port[8] = "?";
    if (connection->server->endpoint.is_unix) {
        snprintf(out, CONNECTION_FROM_BYTES, "unix, process %d", (int)connection->peer.pid);
        return;
    }
    uv_tcp_getpeername(&connection->socket.tcp, (struct sockaddr *)&address, &n_address);
    getnameinfo((const struct sockaddr *)&address, sizeof address, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(out, CONNECTION_FROM_BYTES, "%s port %s%s%s", host, port, connection->peer.user[0] != '\0' ? " as " : "",
             connection->peer.user);
}

/* name: that the client claims */
static void note_failure(struct connection *connection, const char *name, const char *why)
{
    const struct server_handler *handler = &connection->server->handler;
    char from[CONNECTION_FROM_BYTES], note[LOG_LIMIT_NOTE_BYTES], reason[REASON_BYTES], shown[SHOWN_BYTES];
    if (!log_limit_passes(&connection->server->failed_logins, clock_ms(), note)) {
        return;
    }
    printable_copy(name, shown, sizeof shown);
    connection_from(connection, from);
    snprintf(reason, sizeof reason, "%s%s%s%s%s", why, name[0] != '\0' ? " '" : "", shown, name[0] != '\0' ? "'" : "",
             note);
    log_warn("a login from %s failed: %s", from, reason);
    if (handler->login_failed != NULL) {
        handler->login_failed(handler->context, connection, reason);
    }
}

/* Whose secret is to be proved; one that no client knows where there is no such user, so that names cannot be tried.
 */
static const struct auth_secret *find_secret(const struct server *server, const char *name,
                                             const struct user **user_out)
{
    *user_out = name[0] != '\0' ? users_find(&server->users, name) : NULL;
    if (*user_out != NULL) {
        return &(*user_out)->secret;
    }
    return name[0] == '\0' && server->has_secret ? &server->secret : &server->decoy;
}

static void refuse_login(struct connection *connection, const json_t *request, const char *name,
                         const struct user *user)
{
    bool has_secret = connection->server->has_secret;
    note_failure(connection, name,
                 user != NULL      ? "its proof is not that of the secret of user"
                 : name[0] != '\0' ? "there is no user"
                 : has_secret      ? "its proof is not the secret's"
                                   : "it names no user, and there is no secret_file");
    connection_refuse(
        connection, request,
        status_fail(STATUS_PEER,
                    "the secret is not proved: expected user, nonce and proof for the nonce that hello was answered "
                    "with and this daemon's certificate, see docs/protocol.md"));
}

/* user: NULL for a client that has named none */
static void take_user(struct connection *connection, const struct user *user)
{
    const struct server_options *options = &connection->server->options;
    connection->state = CONNECTION_STATE_OPEN;
    connection->has_requested = true;
    connection->peer.uid = user != NULL ? user->uid : options->tcp_uid;
    connection->peer.gid = user != NULL ? user->gid : options->tcp_gid;
    server_join(connection);
    connection->peer.role = user != NULL ? user->role : server_role(connection->peer.uid);
    snprintf(connection->peer.user, sizeof connection->peer.user, "%s", user != NULL ? user->name : "");
    connection->frames.n_most = options->n_most_frame;
}

/* Each nonce is good for one try. */
static void check_proof(struct connection *connection, const json_t *request)
{
    const struct server *server = connection->server;
    const char *name = json_string_value(json_object_get(request, "user"));
    const char *nonce = json_string_value(json_object_get(request, "nonce"));
    const char *proof = json_string_value(json_object_get(request, "proof"));
    const struct user *user;
    char mine[AUTH_TEXT_BYTES];
    name = name != NULL ? name : "";
    const struct auth_secret *secret = find_secret(server, name, &user);
    const struct auth_login login = {connection->nonce, nonce, server_fingerprint(server), name};
    bool is_good = connection->nonce[0] != '\0' && nonce != NULL && proof != NULL &&
                   strcmp(nonce, connection->nonce) != 0 && auth_is_proof(secret, AUTH_ROLE_CLIENT, &login, proof) &&
                   auth_proof(secret, AUTH_ROLE_SERVER, &login, mine) == STATUS_OK;
    memset(connection->nonce, 0, sizeof connection->nonce);
    if (!is_good) {
        refuse_login(connection, request, name, user);
        return;
    }
    take_user(connection, user);
    if (turns_n(&server->turns, connection->peer.uid) > server->options.n_most_of_uid) {
        connection_refuse(connection, request,
                          status_fail(STATUS_PEER, "user %u has %d connections, the most that are accepted",
                                      (unsigned)connection->peer.uid, (int)server->options.n_most_of_uid));
        return;
    }
    connection_answer(connection, answer_with(request, "{s:s}", "proof", mine));
}

void handshake_request(struct connection *connection, const json_t *request)
{
    const char *command = json_string_value(json_object_get(request, "cmd"));
    if (command != NULL && strcmp(command, "hello") == 0) {
        answer_hello(connection, request);
    } else if (command != NULL && strcmp(command, "auth") == 0) {
        check_proof(connection, request);
    } else {
        status_fail(STATUS_PEER, "this client is not authenticated: expected the commands hello and auth");
        connection_answer(connection, answer_failure(request, STATUS_PEER));
    }
}
