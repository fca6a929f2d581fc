/* The listening side: who may connect, how many, how long they may be silent, and whose turn it is. */
#include "trainerd/daemon/server/server.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/files/file.h"
#include "trainerd/daemon/server/server_state.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 511
#define CLOSING_MS 1000
#define TICK_MOST_MS 500.0
#define UNAUTHENTICATED_FRAME_BYTES 1024u /* of a request before the secret is proved */

static void check_deadline(struct connection *connection, uint64_t now_ms)
{
    const struct server_options *options = &connection->server->options;
    double silent_s = (double)(now_ms - connection->active_ms) / 1000.0;
    if (connection->state == CONNECTION_STATE_CLOSING) {
        if (now_ms - connection->closing_ms > CLOSING_MS) {
            connection_abort(connection);
        }
    } else if (connection_unread(connection) > 0) {
        if (silent_s > options->idle_s) {
            log_warn("disconnected a client of user %u: it has read nothing for %g s", (unsigned)connection->peer.uid,
                     silent_s);
            connection_abort(connection);
        }
    } else if (!connection->has_requested) { /* what it waits for its turn is not its own time */
        uint64_t waited_ms = connection->waited_ms + (connection->turn.waits ? now_ms - connection->ready_ms : 0);
        if ((double)(now_ms - connection->since_ms - waited_ms) / 1000.0 > options->hello_s) {
            connection_refuse(connection, NULL,
                              status_fail(STATUS_PEER, "no valid request within %g s", options->hello_s));
        }
    } else if (!connection->is_held && silent_s > options->idle_s) {
        connection_refuse(connection, NULL, status_fail(STATUS_PEER, "no request for %g s", options->idle_s));
    }
}

static void check_deadlines(uv_timer_t *timer)
{
    struct server *server = timer->data;
    for (struct connection *at = server->connections, *next; at != NULL; at = next) {
        next = at->next;
        check_deadline(at, uv_now(server->loop));
    }
}

static void find_peer(struct connection *connection)
{
    struct ucred peer = {.uid = UID_UNKNOWN, .gid = (gid_t)-1};
    socklen_t n = sizeof peer;
    uv_os_fd_t file;
    connection->peer.uid = UID_UNKNOWN;
    connection->peer.gid = (gid_t)-1;
    if (connection->server->endpoint.is_unix && uv_fileno(&connection->socket.handle, &file) == 0 &&
        getsockopt(file, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0) {
        connection->peer.uid = peer.uid;
        connection->peer.gid = peer.gid;
        connection->peer.pid = peer.pid;
        connection->peer.role = server_role(peer.uid);
    }
}

/* The oldest connection without a request, of that user or of any (UID_UNKNOWN), which a newcomer may replace. */
static struct connection *oldest_silent(const struct server *server, uid_t uid, const struct connection *but)
{
    struct connection *found = NULL;
    for (struct connection *at = server->connections; at != NULL; at = at->next) {
        bool is_silent = !at->has_requested && at->state < CONNECTION_STATE_CLOSING && at != but;
        if (is_silent && (uid == UID_UNKNOWN || at->peer.uid == uid)) {
            found = at; /* newest first: the last is the oldest */
        }
    }
    return found;
}

/* Of the user who has most connections, if these are more than the newcomer's user has, the one that was silent for
 * longest; followers, who wait for news, last. NULL: no user has more. */
static struct connection *greediest_idle(const struct server *server, const struct connection *newcomer)
{
    uid_t greedy = newcomer->peer.uid;
    if (turns_most(&server->turns, &greedy) <= turns_n(&server->turns, newcomer->peer.uid)) {
        return NULL;
    }
    struct connection *found = NULL;
    for (struct connection *at = server->connections; at != NULL; at = at->next) {
        bool is_his = at->peer.uid == greedy && at->state < CONNECTION_STATE_CLOSING;
        bool is_earlier = found == NULL || at->is_held < found->is_held ||
                          (at->is_held == found->is_held && at->active_ms <= found->active_ms); /* newest first */
        found = is_his && is_earlier ? at : found;
    }
    return found;
}

/* Over the limit: evict the oldest silent connection, or one of a user who has more than the newcomer's, else refuse
 * the newcomer. So no users together can keep another one out. */
static void enforce_limits(struct connection *newcomer)
{
    struct server *server = newcomer->server;
    bool too_many = server->n_connection > server->options.n_most_connection;
    if (!too_many && turns_n(&server->turns, newcomer->peer.uid) <= server->options.n_most_of_uid) {
        return;
    }
    struct connection *silent = oldest_silent(server, too_many ? UID_UNKNOWN : newcomer->peer.uid, newcomer);
    if (silent != NULL) {
        connection_refuse(silent, NULL, status_fail(STATUS_PEER, "evicted for another client, before any request"));
        if (too_many) {
            connection_abort(silent);
        }
        return;
    }
    struct connection *idle = too_many ? greediest_idle(server, newcomer) : NULL;
    if (idle != NULL) {
        connection_refuse(idle, NULL,
                          status_fail(STATUS_PEER, "evicted for another user, who has fewer of the %d connections",
                                      (int)server->options.n_most_connection));
        if (server->n_connection > 2 * server->options.n_most_connection) {
            connection_abort(idle);
        }
        return;
    }
    connection_refuse(newcomer, NULL,
                      too_many ? status_fail(STATUS_PEER, "%d clients are connected, the most that are accepted",
                                             (int)server->options.n_most_connection)
                               : status_fail(STATUS_PEER, "user %u has %d connections, the most that are accepted",
                                             (unsigned)newcomer->peer.uid, (int)server->options.n_most_of_uid));
    if (server->n_connection > 2 * server->options.n_most_connection) {
        connection_abort(newcomer);
    }
}

static void socket_init(struct server *server, union server_socket *out, void *owner)
{
    if (server->endpoint.is_unix) {
        uv_pipe_init(server->loop, &out->pipe, 0);
    } else {
        uv_tcp_init(server->loop, &out->tcp);
    }
    out->handle.data = owner;
    server->n_handle++;
}

static void arrived(uv_stream_t *listener, int error)
{
    struct server *server = listener->data;
    if (error != 0) {
        log_warn("cannot accept a connection: %s", uv_strerror(error));
        return;
    }
    struct connection *connection = memory_alloc(1, sizeof *connection);
    connection->server = server;
    connection->turn.take = connection_take_turn;
    connection->state = server->endpoint.is_unix ? CONNECTION_STATE_OPEN : CONNECTION_STATE_UNAUTHENTICATED;
    connection->since_ms = connection->active_ms = uv_now(server->loop);
    bool is_open = connection->state == CONNECTION_STATE_OPEN;
    frame_reader_init(&connection->frames, is_open ? server->options.n_most_frame : UNAUTHENTICATED_FRAME_BYTES);
    socket_init(server, &connection->socket, connection);
    connection->next = server->connections;
    server->connections = connection;
    server->n_connection++;
    error = uv_accept(listener, &connection->socket.stream);
    if (error != 0) {
        connection_abort(connection);
        return;
    }
    find_peer(connection);
    server_join(connection);
    connection->tls = server->identity != NULL ? tls_open(server->identity) : NULL;
    connection_begin(connection);
    enforce_limits(connection);
}

static bool is_served(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool any = file >= 0 && (connect(file, (struct sockaddr *)&name, sizeof name) == 0 || errno != ECONNREFUSED);
    file_close(file);
    return any;
}

/* The longest wait, of several, for a child that a killed daemon had just forked: it holds the socket until it
 * executes its program. */
#define FREE_MS_MOST 640

/* An existing socket is replaced if no process listens on it. */
static enum status check_free(const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0) {
        return errno == ENOENT ? STATUS_OK
                               : status_fail(STATUS_CREATE, "cannot stat '%s': %s", path, strerror(errno));
    }
    if (!S_ISSOCK(info.st_mode)) {
        return status_fail(STATUS_CREATE, "'%s' exists and is not a socket", path);
    }
    bool served = is_served(path);
    for (unsigned wait_ms = 10; served && wait_ms <= FREE_MS_MOST; wait_ms *= 2) {
        uv_sleep(wait_ms);
        served = is_served(path);
    }
    if (served) {
        return status_fail(STATUS_PEER, "another daemon listens on '%s'", path);
    }
    return unlink(path) == 0 ? STATUS_OK
                             : status_fail(STATUS_CREATE, "cannot replace '%s': %s", path, strerror(errno));
}

/* Make the socket's folder if it is missing. In a folder of another user, that user could replace the socket. */
static enum status make_folder(const char *path)
{
    char parent[ENDPOINT_PATH_BYTES];
    const char *slash = strrchr(path, '/');
    struct stat info;
    if (slash == NULL || slash == path) {
        return STATUS_OK;
    }
    snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
    if (mkdir(parent, geteuid() == 0 ? 0755 : 0700) != 0 && errno != EEXIST) {
        return status_fail(STATUS_CREATE, "cannot make folder '%s' for the socket: %s", parent, strerror(errno));
    }
    if (stat(parent, &info) != 0 || !S_ISDIR(info.st_mode)) {
        return status_fail(STATUS_CREATE, "'%s' is not a folder: expected the socket's folder", parent);
    }
    bool is_sticky = (info.st_mode & S_ISVTX) != 0;
    if (info.st_uid != geteuid() && info.st_uid != 0) {
        return status_fail(STATUS_CREATE, "folder '%s' of the socket belongs to user %u", parent,
                           (unsigned)info.st_uid);
    }
    if ((info.st_mode & 022) != 0 && !is_sticky) {
        return status_fail(STATUS_CREATE, "folder '%s' of the socket can be written by others (mode %04o)", parent,
                           (unsigned)info.st_mode & 07777);
    }
    return STATUS_OK;
}

static enum status listen_unix(struct server *server)
{
    const char *path = server->endpoint.path;
    enum status status = make_folder(path);
    if (status != STATUS_OK || (status = check_free(path)) != STATUS_OK) {
        return status;
    }
    mode_t before = umask(0177);
    int error = uv_pipe_bind(&server->listener.pipe, path);
    umask(before);
    if (error == 0 && geteuid() == 0 && chmod(path, 0666) != 0) {
        error = -errno;
    }
    error = error == 0 ? uv_listen(&server->listener.stream, BACKLOG, arrived) : error;
    if (error != 0) {
        return status_fail(STATUS_CREATE, "cannot listen on '%s': %s", path, uv_strerror(error));
    }
    snprintf(server->address, sizeof server->address, "unix:%s", path);
    return STATUS_OK;
}

static enum status listen_tcp(struct server *server)
{
    const struct address *address = &server->endpoint.tcp;
    struct addrinfo hint = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    struct sockaddr_storage name;
    int n = sizeof name;
    int error = getaddrinfo(address->host, address->port, &hint, &found);
    if (error != 0) {
        return status_fail(STATUS_CONFIG, "cannot find host '%s' to listen on: %s", address->host,
                           gai_strerror(error));
    }
    error = uv_tcp_bind(&server->listener.tcp, found->ai_addr, 0);
    freeaddrinfo(found);
    error = error == 0 ? uv_listen(&server->listener.stream, BACKLOG, arrived) : error;
    error = error == 0 ? uv_tcp_getsockname(&server->listener.tcp, (struct sockaddr *)&name, &n) : error;
    if (error != 0) {
        return status_fail(STATUS_CREATE, "cannot listen on tcp:%s:%s: %s", address->host, address->port,
                           uv_strerror(error));
    }
    in_port_t port = name.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&name)->sin6_port
                                                : ((struct sockaddr_in *)&name)->sin_port;
    struct endpoint bound = server->endpoint;
    snprintf(bound.tcp.port, sizeof bound.tcp.port, "%u", (unsigned)ntohs(port));
    endpoint_print(&bound, server->address);
    return STATUS_OK;
}

static bool is_given(const char *path)
{
    return path != NULL && path[0] != '\0';
}

/* What clients of a TCP port prove, and what the daemon proves itself with. */
static enum status load_secrets(struct server *server, const struct server_options *options)
{
    enum status status = STATUS_OK;
    if (!is_given(options->secret_file) && !is_given(options->users_file)) {
        return status_fail(
            STATUS_CONFIG,
            "listening on %s needs secret_file or users_file: any client of the port could run programs here",
            options->address);
    }
    auth_secret_draw(&server->decoy);
    if (is_given(options->secret_file)) {
        status = auth_secret_load(options->secret_file, &server->secret);
        server->has_secret = status == STATUS_OK;
    }
    if (status == STATUS_OK && is_given(options->users_file)) {
        server->users_file = strdup(options->users_file);
        status = users_load(server->users_file, &server->users);
    }
    if (status == STATUS_OK && options->tls_folder != NULL) {
        status = tls_identity_open(options->tls_folder, true, &server->identity);
    }
    return status;
}

static enum status listen_start(struct server *server, const struct server_options *options)
{
    enum status status = endpoint_parse(options->address, "listen", &server->endpoint);
    if (status != STATUS_OK) {
        return status;
    }
    socket_init(server, &server->listener, server);
    if (server->endpoint.is_unix) {
        return listen_unix(server);
    }
    status = load_secrets(server, options);
    if (status != STATUS_OK) {
        return status;
    }
    return listen_tcp(server);
}

static void tick_start(struct server *server)
{
    double least_s = server->options.hello_s < server->options.idle_s ? server->options.hello_s
                                                                      : server->options.idle_s;
    double tick_ms = least_s * 250.0 < TICK_MOST_MS ? least_s * 250.0 : TICK_MOST_MS;
    uint64_t every_ms = tick_ms < 10.0 ? 10 : (uint64_t)tick_ms;
    uv_timer_start(&server->tick, check_deadlines, every_ms, every_ms);
}

enum status server_open(uv_loop_t *loop, const struct server_options *options, const struct server_handler *handler,
                        struct server **out)
{
    struct server *server = memory_alloc(1, sizeof *server);
    signal(SIGPIPE, SIG_IGN); /* the write reports a client that is gone */
    server->loop = loop;
    server->options = *options;
    server->options.address = server->options.secret_file = server->options.users_file = server->options.tls_folder =
        NULL;
    server->handler = *handler;
    uv_timer_init(loop, &server->tick);
    server->tick.data = server;
    turns_init(loop, options->now_ns, &server->turns);
    server->n_handle = 2;
    enum status status = listen_start(server, options);
    if (status != STATUS_OK) {
        server_close(server);
        return status;
    }
    tick_start(server);
    *out = server;
    return STATUS_OK;
}

static void listener_closed(uv_handle_t *handle)
{
    server_handle_closed(handle->data);
}

void server_close(struct server *server)
{
    server->is_closing = true;
    if (server->listener.handle.data != NULL) {
        if (server->address[0] != '\0' && server->endpoint.is_unix) {
            unlink(server->endpoint.path);
        }
        uv_close(&server->listener.handle, listener_closed);
    }
    for (struct connection *at = server->connections, *next; at != NULL; at = next) {
        next = at->next;
        connection_close(at);
    }
    server_close_timers(server);
}

const char *server_address(const struct server *server)
{
    return server->address;
}

const char *server_fingerprint(const struct server *server)
{
    return server->identity != NULL ? tls_identity_fingerprint(server->identity) : "";
}

/* Is the user of that name the same in both lists? */
static bool is_unchanged(const struct users *before, const struct users *now, const char *name)
{
    const struct user *one = users_find(before, name), *other = users_find(now, name);
    return one != NULL && other != NULL && one->uid == other->uid && one->gid == other->gid &&
           one->role == other->role && memcmp(&one->secret, &other->secret, sizeof one->secret) == 0;
}

enum status server_reload(struct server *server)
{
    struct users before = server->users, now;
    if (server->users_file == NULL) {
        return STATUS_OK;
    }
    enum status status = users_load(server->users_file, &now);
    if (status != STATUS_OK) {
        return status;
    }
    server->users = now;
    for (struct connection *at = server->connections, *next; at != NULL; at = next) {
        next = at->next;
        if (at->peer.user[0] != '\0' && !is_unchanged(&before, &now, at->peer.user)) {
            connection_refuse(at, NULL,
                              status_fail(STATUS_PEER, "user '%s' is not as it was at this login", at->peer.user));
        }
    }
    users_release(&before);
    return STATUS_OK;
}
