#include "tests/support/daemon/client.h"

#include "protocol/base/clock.h"
#include "tests/support/process/patience.h"
#include "trainerd/socket/endpoint.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

uv_loop_t loop;

void turn(double since_s)
{
    uv_run(&loop, UV_RUN_NOWAIT);
    cr_assert(patience_left(since_s), "nothing happened");
}

void client_open(struct client *client, const char *address)
{
    struct endpoint endpoint;
    cr_assert_eq(endpoint_parse(address, "test", &endpoint), STATUS_OK);
    *client = (struct client){.file = socket(endpoint.is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in remote = {.sin_family = AF_INET};
    snprintf(local.sun_path, sizeof local.sun_path, "%s", endpoint.path);
    if (!endpoint.is_unix) {
        remote.sin_port = htons((uint16_t)atoi(endpoint.tcp.port));
        inet_pton(AF_INET, endpoint.tcp.host, &remote.sin_addr);
    }
    const struct sockaddr *name = endpoint.is_unix ? (const struct sockaddr *)&local
                                                   : (const struct sockaddr *)&remote;
    cr_assert_eq(connect(client->file, name, endpoint.is_unix ? sizeof local : sizeof remote), 0, "%s: %s", address,
                 strerror(errno));
    fcntl(client->file, F_SETFL, O_NONBLOCK);
}

void client_close(struct client *client)
{
    close(client->file);
    free(client->got);
    *client = (struct client){.file = -1};
}

void client_send_bytes(struct client *client, const void *bytes, size_t n)
{
    double since_s = clock_s();
    for (size_t at = 0; at < n;) {
        ssize_t sent = send(client->file, (const char *)bytes + at, n - at, MSG_NOSIGNAL);
        if (sent > 0) {
            at += (size_t)sent;
        } else if (errno == EAGAIN) {
            turn(since_s);
        } else {
            return; /* the server has closed the connection: the caller reads its reason next */
        }
    }
}

void client_send(struct client *client, const char *text)
{
    client_send_bytes(client, text, strlen(text));
}

/* Receive the bytes that have arrived; false when there were none. */
static bool read_some(struct client *client)
{
    char bytes[65536];
    ssize_t n = client->is_closed ? 0 : recv(client->file, bytes, sizeof bytes, 0);
    if (n > 0) {
        client->got = realloc(client->got, client->n_got + (size_t)n + 1);
        memcpy(client->got + client->n_got, bytes, (size_t)n);
        client->n_got += (size_t)n;
        client->got[client->n_got] = '\0';
        return true;
    }
    client->is_closed = n == 0 || errno != EAGAIN;
    return false;
}

const char *client_line(struct client *client)
{
    double since_s = clock_s();
    for (;;) {
        char *at = client->got + client->n_taken;
        char *end = client->n_got > client->n_taken ? memchr(at, '\n', client->n_got - client->n_taken) : NULL;
        if (end != NULL) {
            *end = '\0';
            client->n_taken = (size_t)(end + 1 - client->got);
            return at;
        }
        if (client->is_closed) {
            return NULL;
        }
        if (!read_some(client)) {
            turn(since_s);
        }
    }
}

void client_expect_end(struct client *client)
{
    double since_s = clock_s();
    while (!client->is_closed) {
        if (!read_some(client)) {
            turn(since_s);
        }
    }
}
