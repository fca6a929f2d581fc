/* The two requests of an unauthenticated client: "hello", answered with a nonce, and "auth" with the proof of the secret. */
#include "protocol/clock.h"
#include "protocol/log.h"
#include "protocol/version.h"
#include "trainerd/daemon/server/answer.h"
#include "trainerd/daemon/server/server_state.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void answer_hello(struct connection *connection, const json_t *request)
{
    json_t *answer = answer_new(request);
    auth_nonce(connection->nonce);
    json_object_set_new(answer, "v", json_integer(CLIENT_PROTOCOL_VERSION));
    json_object_set_new(answer, "version", json_string(TRAINERD_VERSION));
    json_object_set_new(answer, "nonce", json_string(connection->nonce));
    connection_answer(connection, answer);
}

void connection_from(const struct connection *connection, char out[CONNECTION_FROM_BYTES])
{
    struct sockaddr_storage address = {0};
    int n_address = sizeof address;
    char host[48] = "?", port[8] = "?";
    if (connection->server->endpoint.is_unix) {
        snprintf(out, CONNECTION_FROM_BYTES, "unix, process %d", (int)connection->pid);
        return;
    }
    uv_tcp_getpeername(&connection->socket.tcp, (struct sockaddr *)&address, &n_address);
    getnameinfo((const struct sockaddr *)&address, sizeof address, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(out, CONNECTION_FROM_BYTES, "%s port %s", host, port);
}

static void note_failure(struct connection *connection)
{
    const struct server_handler *handler = &connection->server->handler;
    char from[CONNECTION_FROM_BYTES], note[LOG_LIMIT_NOTE_BYTES], reason[128];
    if (!log_limit_passes(&connection->server->failed_logins, clock_ms(), note)) {
        return;
    }
    connection_from(connection, from);
    snprintf(reason, sizeof reason, "its proof is not the secret's%s", note);
    log_warn("a login from %s failed: %s", from, reason);
    if (handler->login_failed != NULL) {
        handler->login_failed(handler->context, connection, reason);
    }
}

/* Each nonce is good for one try. */
static void check_proof(struct connection *connection, const json_t *request)
{
    const char *nonce = json_string_value(json_object_get(request, "nonce"));
    const char *proof = json_string_value(json_object_get(request, "proof"));
    const struct auth_secret *secret = &connection->server->secret;
    char mine[AUTH_TEXT_BYTES];
    bool is_good = connection->nonce[0] != '\0' && nonce != NULL && proof != NULL && strcmp(nonce, connection->nonce) != 0 &&
                   auth_is_proof(secret, AUTH_ROLE_CLIENT, connection->nonce, nonce, proof) &&
                   auth_proof(secret, AUTH_ROLE_SERVER, connection->nonce, nonce, mine) == STATUS_OK;
    memset(connection->nonce, 0, sizeof connection->nonce);
    if (!is_good) {
        note_failure(connection);
        connection_refuse(connection, request,
                          status_fail(STATUS_PEER, "the secret is not proved: expected nonce and proof for "
                                                   "the nonce that hello was answered with, see docs/protocol.md"));
        return;
    }
    connection->state = CONNECTION_STATE_OPEN;
    connection->has_requested = true;
    connection->uid = connection->server->options.tcp_uid;
    connection->gid = connection->server->options.tcp_gid;
    connection->frames.n_most = connection->server->options.n_most_frame;
    json_t *answer = answer_new(request);
    json_object_set_new(answer, "proof", json_string(mine));
    connection_answer(connection, answer);
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
