/* One client's socket: bytes into its frame reader, through TLS where it has that, answers out, and how it ends. */
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "trainerd/daemon/server/answer.h"
#include "trainerd/daemon/server/server_state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct byte_write {
    uv_write_t request;
    struct connection *connection;
    char *bytes;
};

size_t connection_unread(const struct connection *connection)
{
    return uv_stream_get_write_queue_size(&connection->socket.stream);
}

uid_t connection_uid(const struct connection *connection)
{
    return connection->peer.uid;
}

gid_t connection_gid(const struct connection *connection)
{
    return connection->peer.gid;
}

const char *connection_user(const struct connection *connection)
{
    return connection->peer.user;
}

enum user_role connection_role(const struct connection *connection)
{
    return connection->peer.role;
}

bool connection_is_admin(const struct connection *connection)
{
    return connection->peer.role == USER_ROLE_ADMIN;
}

void connection_hold(struct connection *connection, bool held)
{
    connection->is_held = held;
    connection->active_ms = uv_now(connection->server->loop);
    if (!held) {
        server_ready(connection);
    }
}

void connection_block(struct connection *connection, bool is_blocked)
{
    connection->is_blocked = is_blocked;
    if (!is_blocked) {
        server_ready(connection);
    }
}

struct turns *connection_turns(const struct connection *connection)
{
    return &connection->server->turns;
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
    struct byte_write *write = (struct byte_write *)request;
    struct connection *connection = write->connection;
    struct server *server = connection->server;
    free(write->bytes);
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

/* bytes  ours to free */
static bool send_bytes(struct connection *connection, char *bytes, size_t n)
{
    struct byte_write *write = memory_alloc(1, sizeof *write);
    write->connection = connection;
    write->bytes = bytes;
    uv_buf_t buffer = uv_buf_init(bytes, (unsigned)n);
    int error = uv_write(&write->request, &connection->socket.stream, &buffer, 1, written);
    if (error != 0) {
        free(bytes);
        free(write);
    }
    return error == 0;
}

/* Send what TLS has for the peer. */
static bool send_encrypted(struct connection *connection)
{
    size_t n;
    char *bytes = tls_take(connection->tls, &n);
    return bytes == NULL || send_bytes(connection, bytes, n);
}

/* text  ours to free. Plain text can only be sent before a handshake has begun. */
static bool send_text(struct connection *connection, char *text)
{
    size_t n = strlen(text);
    text[n] = '\n'; /* where the NUL was: the end of the line goes out with it */
    if (connection->tls == NULL || (!connection->is_encrypted && !connection->is_begun)) {
        return send_bytes(connection, text, n + 1);
    }
    bool is_sent = !connection->is_encrypted ||
                   (tls_write(connection->tls, text, n + 1) == STATUS_OK && send_encrypted(connection));
    free(text);
    return is_sent;
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
        log_warn("disconnected a client of user %u: it leaves more than %zu bytes unread",
                 (unsigned)connection->peer.uid, connection->server->options.n_most_unread);
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
    tls_close(connection->tls);
    free(connection);
    server_handle_closed(server);
}

/* Remove it from the lists at once: it does not count any more. It is freed when its handle is closed. */
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

/* Queued bytes leave first. Received bytes are read and discarded until the peer closes too, for at most a second:
 * closing a socket with unread bytes would reset the connection, and the peer would lose the reason. */
void connection_close(struct connection *connection)
{
    struct server *server = connection->server;
    if (connection->state >= CONNECTION_STATE_CLOSING) {
        return;
    }
    connection->state = CONNECTION_STATE_CLOSING;
    turns_leave(&server->turns, &connection->turn);
    connection->closing_ms = uv_now(server->loop);
    lines_release(connection);
    if (connection->is_announced && !server->is_closing && server->handler.closed != NULL) {
        server->handler.closed(server->handler.context, connection);
    }
    connection->is_announced = false;
    if (connection->tls != NULL) {
        tls_end(connection->tls);
        send_encrypted(connection);
    }
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
    log_debug("refused a client of user %u: %s", (unsigned)connection->peer.uid, status_reason());
    connection_answer(connection, answer_failure(request, status));
    connection_close(connection);
}

/* Room for received bytes in the frame reader; *n_out of it. */
static char *frames_room(struct connection *connection, size_t *n_out)
{
    struct server *server = connection->server;
    server->n_buffered -= connection->frames.capacity;
    char *at = frame_reader_buffer(&connection->frames, n_out);
    server->n_buffered += connection->frames.capacity;
    return at;
}

static void find_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct connection *connection = handle->data;
    struct server *server = connection->server;
    (void)suggested;
    size_t n = sizeof server->discard;
    char *at = server->discard;
    if (connection->state < CONNECTION_STATE_CLOSING && connection->tls != NULL) {
        n = sizeof server->received;
        at = server->received;
    } else if (connection->state < CONNECTION_STATE_CLOSING) {
        at = frames_room(connection, &n);
    }
    *out = uv_buf_init(at, (unsigned)(n < CONNECTION_READ_BYTES ? n : CONNECTION_READ_BYTES));
}

/* The first byte of a TCP client tells TLS from plain text. false: it was the wrong one, and the client was told */
static bool check_begin(struct connection *connection, char first)
{
    bool is_tls = first == TLS_RECORD_HANDSHAKE, expects_tls = connection->tls != NULL;
    if (connection->is_begun || connection->server->endpoint.is_unix || is_tls == expects_tls) {
        connection->is_begun = true;
        return true;
    }
    tls_close(connection->tls);
    connection->tls = NULL;
    connection_refuse(
        connection, NULL,
        expects_tls
            ? status_fail(STATUS_PEER,
                          "this port speaks TLS: expected a client that knows the fingerprint of the daemon's "
                          "certificate, as trainctl does after trainctl login")
            : status_fail(STATUS_PEER, "this port is without TLS: the daemon's file has tls = \"off\""));
    return false;
}

static void arrived(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct connection *connection = stream->data;
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
    if (n > 0 && !check_begin(connection, buffer->base[0])) {
        return;
    }
    if (n > 0 && connection->tls != NULL) {
        tls_feed(connection->tls, buffer->base, (size_t)n);
    } else if (n > 0) {
        frame_reader_fill(&connection->frames, (size_t)n);
    }
    connection->has_failed = connection->has_failed || (n < 0 && n != UV_EOF);
    server_ready(connection);
}

/* Bytes that have come through TLS, to the frame reader; *any_out: there were some, or the peer has ended. */
static enum status decrypt(struct connection *connection, bool *any_out)
{
    struct tls *tls = connection->tls;
    size_t n = 0, room;
    enum status status = tls_shake(tls, &connection->is_encrypted);
    *any_out = false;
    if (status == STATUS_OK && connection->is_encrypted && tls_has_bytes(tls)) {
        char *at = frames_room(connection, &room);
        status = tls_read(tls, at, room, &n);
        frame_reader_fill(&connection->frames, n);
    }
    connection->is_ended = connection->is_ended || tls_has_ended(tls);
    *any_out = n > 0 || tls_has_ended(tls);
    return status;
}

void connection_begin(struct connection *connection)
{
    bool any = false;
    if (connection->tls != NULL) {
        enum status status = decrypt(connection, &any);
        if (status != STATUS_OK) {
            log_debug("disconnected a client: %s", status_reason());
            connection_close(connection); /* with the alert */
            return;
        }
        send_encrypted(connection);
    }
    if (any) {
        server_ready(connection);
    } else {
        uv_read_start(&connection->socket.stream, find_buffer, arrived);
    }
}
