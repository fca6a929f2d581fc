#include "trainerd/daemon/server/server_state.h"

#include <stdlib.h>
#include <unistd.h>

/* --- connections with something to look at --- */

void server_ready(struct connection *connection)
{
    struct server *server = connection->server;
    if (connection->is_ready || connection->state >= CONNECTION_STATE_CLOSING) {
        return;
    }
    connection->is_ready = true;
    connection->next_ready = NULL;
    *server->last_ready = connection;
    server->last_ready = &connection->next_ready;
    uv_idle_start(&server->turn, server->on_turn);
}

static void ready_remove(struct connection *connection)
{
    struct server *server = connection->server;
    struct connection **at = &server->first_ready;
    while (*at != connection) {
        at = &(*at)->next_ready;
    }
    *at = connection->next_ready;
    if (server->last_ready == &connection->next_ready) {
        server->last_ready = at;
    }
    connection->is_ready = false;
}

struct connection *server_take_ready(struct server *server)
{
    struct connection *connection = server->first_ready;
    if (connection != NULL) {
        ready_remove(connection);
    }
    return connection;
}

void server_forget(struct connection *connection)
{
    struct server *server = connection->server;
    if (connection->is_ready) {
        ready_remove(connection);
    }
    struct connection **at = &server->connections;
    while (*at != connection) {
        at = &(*at)->next;
    }
    *at = connection->next;
    server->n_connection--;
}

int server_n_of_uid(const struct server *server, uid_t uid)
{
    int n = 0;
    for (const struct connection *at = server->connections; at != NULL; at = at->next) {
        n += at->uid == uid && at->state < CONNECTION_STATE_CLOSING;
    }
    return n;
}

enum user_role server_role_of(uid_t uid)
{
    return uid == 0 || uid == geteuid() ? USER_ROLE_ADMIN : USER_ROLE_SUBMIT;
}

/* --- handles --- */

static void closed(uv_handle_t *handle)
{
    server_handle_closed(handle->data);
}

void server_close_timers(struct server *server)
{
    if (server->is_closing && server->connections == NULL && !uv_is_closing((uv_handle_t *)&server->tick)) {
        uv_close((uv_handle_t *)&server->tick, closed);
        uv_close((uv_handle_t *)&server->turn, closed);
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
