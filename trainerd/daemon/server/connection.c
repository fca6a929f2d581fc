/* One client's socket: bytes into its frame reader, answers out, and how it ends. */
#include "protocol/log.h"
#include "protocol/memory.h"
#include "trainerd/daemon/server/answer.h"
#include "trainerd/daemon/server/server_state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct line_write {
    uv_write_t request;
    struct connection *connection;
    char *text;
};

size_t connection_unread(const struct connection *connection)
{
    return uv_stream_get_write_queue_size(&connection->socket.stream);
}

uid_t connection_uid(const struct connection *connection)
{
    return connection->uid;
}

gid_t connection_gid(const struct connection *connection)
{
    return connection->gid;
}

bool connection_is_admin(const struct connection *connection)
{
    return connection->uid == 0 || connection->uid == geteuid();
}

void connection_hold(struct connection *connection, bool held)
{
    connection->is_held = held;
    connection->active_ms = uv_now(connection->server->loop);
    if (!held) {
        server_ready(connection);
    }
}

bool connection_ended(const struct connection *connection)
{
    return connection->is_ended;
}

static void fail_later(struct connection *connection)
{
    connection->has_failed = true;
    server_ready(connection);
}

static void written(uv_write_t *request, int error)
{
    struct line_write *write = (struct line_write *)request;
    struct connection *connection = write->connection;
    struct server *server = connection->server;
    free(write->text);
    free(write);
    if (error != 0) {
        if (connection->state < CONNECTION_STATE_CLOSED && error != UV_ECANCELED) {
            fail_later(connection);
        }
        return;
    }
    connection->active_ms = uv_now(server->loop);
    if (connection_unread(connection) > 0 || connection->state != CONNECTION_STATE_OPEN || connection->has_failed) {
        return;
    }
    if (connection->is_paused) {
        connection->is_paused = false;
        server_ready(connection);
    }
    if (connection->is_announced && server->handler.drained != NULL) {
        server->handler.drained(server->handler.context, connection);
    }
}

static bool send_text(struct connection *connection, char *text)
{
    struct line_write *write = memory_alloc(1, sizeof *write);
    write->connection = connection;
    write->text = text;
    size_t n = strlen(text);
    text[n] = '\n'; /* where the NUL was: the end of the line goes out with it */
    uv_buf_t buffer = uv_buf_init(text, (unsigned)(n + 1));
    int error = uv_write(&write->request, &connection->socket.stream, &buffer, 1, written);
    if (error != 0) {
        free(text);
        free(write);
    }
    return error == 0;
}

void connection_answer(struct connection *connection, json_t *answer)
{
    if (connection->state >= CONNECTION_STATE_CLOSING || connection->has_failed) {
        json_decref(answer);
        return;
    }
    char *text = json_dumps(answer, JSON_COMPACT);
    json_decref(answer);
    ASSERT(text != NULL);
    if (connection_unread(connection) + strlen(text) > connection->server->options.n_most_unread) {
        log_warn("disconnected a client of user %u: it leaves more than %zu bytes unread", (unsigned)connection->uid,
                 connection->server->options.n_most_unread);
        free(text);
        fail_later(connection);
    } else if (!send_text(connection, text)) {
        fail_later(connection);
    }
}

bool connection_send(struct connection *connection, json_t *object)
{
    connection_answer(connection, object);
    return connection->state < CONNECTION_STATE_CLOSING && !connection->has_failed;
}

static void lines_release(struct connection *connection)
{
    connection->server->n_buffered -= connection->frames.capacity;
    frame_reader_release(&connection->frames);
}

static void closed(uv_handle_t *handle)
{
    struct connection *connection = handle->data;
    struct server *server = connection->server;
    lines_release(connection);
    free(connection);
    server_handle_closed(server);
}

/* Remove it from the lists at once, so that it does not count any more; it is freed when the loop has closed its handle. */
void connection_abort(struct connection *connection)
{
    struct server *server = connection->server;
    if (connection->state == CONNECTION_STATE_CLOSED) {
        return;
    }
    connection->state = CONNECTION_STATE_CLOSED;
    server_forget(connection);
    if (connection->is_announced && !server->is_closing && server->handler.closed != NULL) {
        server->handler.closed(server->handler.context, connection);
    }
    connection->is_announced = false;
    uv_close(&connection->socket.handle, closed);
}

static void shut(uv_shutdown_t *request, int error)
{
    struct connection *connection = request->handle->data;
    free(request);
    connection->is_shut = true;
    if (error != 0 || connection->is_ended) {
        connection_abort(connection);
    }
}

static void find_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *out);
static void arrived(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer);

/* Queued bytes leave first. Received bytes are read and discarded until the peer closes too, for at most a second: closing a
 * socket with unread bytes would reset the connection, and the peer would lose the reason. */
void connection_close(struct connection *connection)
{
    struct server *server = connection->server;
    if (connection->state >= CONNECTION_STATE_CLOSING) {
        return;
    }
    connection->state = CONNECTION_STATE_CLOSING;
    connection->closing_ms = uv_now(server->loop);
    lines_release(connection);
    if (connection->is_announced && !server->is_closing && server->handler.closed != NULL) {
        server->handler.closed(server->handler.context, connection);
    }
    connection->is_announced = false;
    uv_shutdown_t *request = memory_alloc(1, sizeof *request);
    if (uv_shutdown(request, &connection->socket.stream, shut) != 0) {
        free(request);
        connection_abort(connection);
        return;
    }
    if (!connection->is_ended) {
        uv_read_start(&connection->socket.stream, find_buffer, arrived);
    }
}

void connection_refuse(struct connection *connection, const json_t *request, enum status status)
{
    log_debug("refused a client of user %u: %s", (unsigned)connection->uid, status_reason());
    connection_answer(connection, answer_failure(request, status));
    connection_close(connection);
}

static void find_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct connection *connection = handle->data;
    struct server *server = connection->server;
    (void)suggested;
    size_t n = sizeof server->discard;
    char *at = server->discard;
    if (connection->state < CONNECTION_STATE_CLOSING) {
        server->n_buffered -= connection->frames.capacity;
        at = frame_reader_buffer(&connection->frames, &n);
        server->n_buffered += connection->frames.capacity;
    }
    *out = uv_buf_init(at, (unsigned)(n < CONNECTION_READ_BYTES ? n : CONNECTION_READ_BYTES));
}

static void arrived(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct connection *connection = stream->data;
    (void)buffer;
    if (n == 0) {
        return;
    }
    connection->is_ended = connection->is_ended || n == UV_EOF;
    if (connection->state >= CONNECTION_STATE_CLOSING) {
        if (n < 0 && (n != UV_EOF || connection->is_shut)) {
            connection_abort(connection);
        }
        return;
    }
    uv_read_stop(stream); /* until the received bytes are handled */
    if (n > 0) {
        frame_reader_fill(&connection->frames, (size_t)n);
    }
    connection->has_failed = connection->has_failed || (n < 0 && n != UV_EOF);
    server_ready(connection);
}

void connection_begin(struct connection *connection)
{
    uv_read_start(&connection->socket.stream, find_buffer, arrived);
}
