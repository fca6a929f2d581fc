/* A client's turn: one request is handled, and none while the client has many answers unread, or work for one is
 * under way. A client that floods or never reads delays only its own user. */
#include "trainerd/daemon/server/answer.h"
#include "trainerd/daemon/server/server_state.h"

#include <stddef.h>

#define BEHIND_BYTES 65536u /* with more unread, a client's next request waits */
#define N_LONG_MOST 8       /* requests of the greatest length that all clients together may have under way */

static bool is_behind(const struct connection *connection)
{
    size_t n_unread = connection_unread(connection);
    return n_unread > BEHIND_BYTES || n_unread > connection->server->options.n_most_unread / 2;
}

static void handle_request(struct connection *connection, const char *line, size_t n)
{
    struct server *server = connection->server;
    json_t *request;
    enum status status = frame_parse(line, n, &request);
    connection->active_ms = uv_now(server->loop);
    if (status != STATUS_OK) {
        connection_answer(connection, answer_failure(request, status));
    } else if (connection->state == CONNECTION_STATE_UNAUTHENTICATED) {
        handshake_request(connection, request);
    } else {
        connection->has_requested = connection->is_announced = true;
        server->handler.request(server->handler.context, connection, request);
    }
    json_decref(request);
}

/* Part of a request is received: read on, within the memory that all clients may take together. */
static void await_rest(struct connection *connection)
{
    const struct server *server = connection->server;
    if (connection->frames.capacity > CONNECTION_READ_BYTES &&
        server->n_buffered > N_LONG_MOST * server->options.n_most_frame) {
        connection_refuse(connection, NULL,
                          status_fail(STATUS_PEER, "too many long requests are under way; try again later"));
    } else {
        connection_begin(connection);
    }
}

static void handle_next(struct connection *connection)
{
    const char *line;
    size_t n;
    bool whole;
    if (connection->state >= CONNECTION_STATE_CLOSING) {
        return;
    }
    if (connection->has_failed) {
        connection_abort(connection);
        return;
    }
    if (connection->is_blocked) {
        return;
    }
    if (is_behind(connection)) {
        connection->is_paused = true;
        return;
    }
    enum status status = frame_reader_next(&connection->frames, &line, &n, &whole);
    if (status != STATUS_OK) {
        connection_refuse(connection, NULL, status);
    } else if (whole) {
        handle_request(connection, line, n);
        server_ready(connection);
    } else if (!connection->is_ended) {
        await_rest(connection);
    } else if (!connection->is_held) {
        connection_close(connection);
    }
}

void connection_take_turn(struct turn *turn)
{
    struct connection *connection = (struct connection *)((char *)turn - offsetof(struct connection, turn));
    connection->waited_ms += uv_now(connection->server->loop) - connection->ready_ms;
    handle_next(connection);
}
