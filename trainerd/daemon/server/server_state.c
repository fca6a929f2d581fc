#include "trainerd/daemon/server/server_state.h"

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

void server_ready(struct connection *connection)
{
    if (connection->state < CONNECTION_STATE_CLOSING && !connection->turn.waits) {
        connection->ready_ms = uv_now(connection->server->loop);
        turns_wait(&connection->server->turns, &connection->turn);
    }
}

void server_join(struct connection *connection)
{
    turns_leave(&connection->server->turns, &connection->turn);
    turns_join(&connection->server->turns, connection->peer.uid, &connection->turn);
}

void server_forget(struct connection *connection)
{
    struct server *server = connection->server;
    struct connection **at = &server->connections;
    turns_leave(&server->turns, &connection->turn);
    while (*at != connection) {
        at = &(*at)->next;
    }
    *at = connection->next;
    server->n_connection--;
}

enum user_role server_role(uid_t uid)
{
    return uid == 0 || uid == geteuid() ? USER_ROLE_ADMIN : USER_ROLE_SUBMIT;
}

/* --- handles --- */

static void closed(uv_handle_t *handle)
{
    server_handle_closed(handle->data);
}

static void turns_closed(uv_handle_t *handle)
{
    server_handle_closed((struct server *)((char *)handle - offsetof(struct server, turns.idle)));
}

void server_close_timers(struct server *server)
{
    if (server->is_closing && server->connections == NULL && !uv_is_closing((uv_handle_t *)&server->tick)) {
        uv_close((uv_handle_t *)&server->tick, closed);
        uv_close((uv_handle_t *)&server->turns.idle, turns_closed);
    }
}

void server_handle_closed(struct server *server)
{
    server->n_handle--;
    server_close_timers(server);
    if (server->n_handle == 0) {
        auth_secret_release(&server->secret);
        users_release(&server->users);
        tls_identity_close(server->identity);
        free(server->users_file);
        free(server);
    }
}
