#include "trainerd/daemon/monitor/http.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/transport/address.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST_MOST_BYTES 8192u /* of a connection's memory: request line and headers */
#define BACKLOG 128

/* A connection; in the list from accept to close. */
struct client {
    struct client *next;
    int socket;
    uint64_t since_ms;
};

struct http {
    uv_loop_t *loop;
    struct http_pages pages;
    struct MHD_Daemon *server;
    uv_poll_t poll; /* of the library's own epoll file */
    uv_timer_t timer;
    int n_handle;
    struct client *clients;
    int n_client;
    char address[HTTP_ADDRESS_BYTES];
};

/* --- answers --- */

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned code, const char *type, char *text,
                              size_t n)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(n, text, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(text);
        return MHD_NO; /* closes the connection */
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    }
    enum MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_page(struct http *http, struct MHD_Connection *connection, const struct http_page *page)
{
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    ASSERT(file != NULL);
    enum status status = page->print(http->pages.context, file);
    if (status != STATUS_OK && ftell(file) == 0) {
        fprintf(file, "%s\n", status_reason());
    }
    fclose(file);
    return answer(connection, status == STATUS_OK ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, page->content_type,
                  text, n);
}

static enum MHD_Result refuse(struct http *http, struct MHD_Connection *connection, unsigned code)
{
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    ASSERT(file != NULL);
    fputs(code == MHD_HTTP_NOT_FOUND ? "There is no such page; there are:" : "Expected GET or HEAD of:", file);
    for (size_t i = 0; i < http->pages.n; i++) {
        fprintf(file, " %s", http->pages.page[i].path);
    }
    fputc('\n', file);
    fclose(file);
    return answer(connection, code, "text/plain; charset=utf-8", text, n);
}

/* libmicrohttpd's access handler: called after the headers, and again at the end of the body (GET has no body). */
static enum MHD_Result handle_request(void *context, struct MHD_Connection *connection, const char *path,
                                      const char *method, const char *version, const char *body, size_t *n_body,
                                      void **is_second)
{
    (void)version;
    (void)body;
    struct http *http = context;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        return refuse(http, connection, MHD_HTTP_METHOD_NOT_ALLOWED);
    }
    if (*is_second == NULL) {
        *is_second = http;
        return MHD_YES;
    }
    *n_body = 0;
    for (size_t i = 0; i < http->pages.n; i++) {
        if (strcmp(path, http->pages.page[i].path) == 0) {
            return answer_page(http, connection, &http->pages.page[i]);
        }
    }
    return refuse(http, connection, MHD_HTTP_NOT_FOUND);
}

/* --- connections and their time --- */

static void on_connection(void *context, struct MHD_Connection *connection, void **slot,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http *http = context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        struct client *client = memory_alloc(1, sizeof *client);
        *client = (struct client){
            .next = http->clients,
            .socket = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
            .since_ms = uv_now(http->loop)};
        http->clients = client;
        http->n_client++;
        *slot = client;
        return;
    }
    for (struct client **at = &http->clients; *at != NULL; at = &(*at)->next) {
        if (*at == *slot) {
            *at = (*at)->next;
            http->n_client--;
            free(*slot);
            return;
        }
    }
}

static void on_timer(uv_timer_t *timer);

/* Run the library: when its file is ready, when its timeout has passed, and when a connection's time is over. With
 * HTTP_N_CONNECTION connections it stops listening, and starts again only in a run after one of them was closed:
 * after closing any it has to run again. */
static void work(struct http *http)
{
    int n_before;
    do {
        n_before = http->n_client;
        MHD_run(http->server);
    } while (http->n_client < n_before);
    uint64_t life_ms = http->n_client < HTTP_N_CONNECTION ? HTTP_LIFE_MS : HTTP_FULL_LIFE_MS;
    uint64_t now_ms = uv_now(http->loop), wait_ms = UINT64_MAX;
    for (struct client *client = http->clients; client != NULL; client = client->next) {
        uint64_t spent_ms = now_ms - client->since_ms;
        if (spent_ms >= life_ms) {
            shutdown(client->socket, SHUT_RDWR);
        }
        uint64_t left_ms = spent_ms < life_ms ? life_ms - spent_ms : life_ms;
        wait_ms = left_ms < wait_ms ? left_ms : wait_ms;
    }
    MHD_UNSIGNED_LONG_LONG asked_ms;
    if (MHD_get_timeout(http->server, &asked_ms) == MHD_YES && asked_ms < wait_ms) {
        wait_ms = asked_ms;
    }
    if (wait_ms == UINT64_MAX) {
        uv_timer_stop(&http->timer);
    } else {
        uv_timer_start(&http->timer, on_timer, wait_ms, 0);
    }
}

static void on_timer(uv_timer_t *timer)
{
    work(timer->data);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    work(poll->data);
}

/* --- opening --- */

/* A listening socket; -1 with errno. */
static int listen_at(const struct addrinfo *address_info)
{
    int yes = 1;
    int file = socket(address_info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (file < 0) {
        return -1;
    }
    setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(file, address_info->ai_addr, address_info->ai_addrlen) != 0 || listen(file, BACKLOG) != 0) {
        int error = errno;
        close(file);
        errno = error;
        return -1;
    }
    return file;
}

static enum status listen_on(const char *address, const char *what, int *out)
{
    struct address parsed;
    enum status status = address_parse(address, what, &parsed);
    if (status != STATUS_OK) {
        return status;
    }
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    int error = getaddrinfo(parsed.host, parsed.port, &hints, &found);
    if (error != 0) {
        return status_fail(STATUS_CONFIG, "%s is '%s': %s; expected HOST:PORT of this machine", what, address,
                           gai_strerror(error));
    }
    *out = -1;
    for (const struct addrinfo *address_info = found; address_info != NULL && *out < 0;
         address_info = address_info->ai_next) {
        *out = listen_at(address_info);
    }
    error = errno;
    freeaddrinfo(found);
    return *out >= 0 ? STATUS_OK
                     : status_fail(STATUS_CREATE, "cannot listen on %s '%s': %s", what, address, strerror(error));
}

static void address_find(int file, char out[HTTP_ADDRESS_BYTES])
{
    struct sockaddr_storage name;
    socklen_t n_name = sizeof name;
    char host[INET6_ADDRSTRLEN] = "", port[8] = "";
    if (getsockname(file, (struct sockaddr *)&name, &n_name) == 0) {
        getnameinfo((struct sockaddr *)&name, n_name, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    }
    bool is_v6 = strchr(host, ':') != NULL;
    snprintf(out, HTTP_ADDRESS_BYTES, "%s%s%s:%s", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
}

enum status http_open(uv_loop_t *loop, const char *address, const char *what, const struct http_pages *pages,
                      struct http **out)
{
    int file;
    enum status status = listen_on(address, what, &file);
    if (status != STATUS_OK) {
        return status;
    }
    struct http *http = memory_alloc(1, sizeof *http);
    *http = (struct http){.loop = loop, .pages = *pages};
    address_find(file, http->address);
    http->server = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, handle_request, http, MHD_OPTION_LISTEN_SOCKET,
                                    file, MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_N_CONNECTION,
                                    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_MOST_BYTES,
                                    MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_END);
    const union MHD_DaemonInfo *info = http->server == NULL
                                           ? NULL
                                           : MHD_get_daemon_info(http->server, MHD_DAEMON_INFO_EPOLL_FD);
    if (info == NULL || uv_poll_init(loop, &http->poll, info->epoll_fd) != 0) {
        status = status_fail(STATUS_CREATE, "cannot serve %s '%s': no HTTP server can be made", what, address);
        if (http->server != NULL) {
            MHD_stop_daemon(http->server);
        } else {
            close(file);
        }
        free(http);
        return status;
    }
    uv_timer_init(loop, &http->timer);
    http->n_handle = 2;
    http->poll.data = http->timer.data = http;
    uv_poll_start(&http->poll, UV_READABLE, on_readable);
    *out = http;
    return STATUS_OK;
}

static void handle_closed(uv_handle_t *handle)
{
    struct http *http = handle->data;
    if (--http->n_handle == 0) {
        free(http);
    }
}

void http_close(struct http *http)
{
    uv_poll_stop(&http->poll);
    MHD_stop_daemon(http->server);
    uv_close((uv_handle_t *)&http->poll, handle_closed);
    uv_close((uv_handle_t *)&http->timer, handle_closed);
}

const char *http_address(const struct http *http)
{
    return http->address;
}
