#include "trainerd/ctl/client.h"

#include "protocol/clock.h"
#include "protocol/file.h"
#include "protocol/version.h"
#include "trainerd/daemon/server/auth.h"
#include "trainerd/daemon/server/endpoint.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_BYTES_MOST (64u << 20)
#define ANSWER_MS 60000
#define SYSTEM_PATH "/run/trainerd/trainerd.sock"

/* --- connecting --- */

static int connect_unix(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file >= 0 && connect(file, (struct sockaddr *)&name, sizeof name) != 0) {
        int error = errno;
        close(file);
        errno = error;
        return -1;
    }
    return file;
}

static enum status connect_tcp(const struct address *address, int *file_out)
{
    struct addrinfo hint = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int error = getaddrinfo(address->host, address->port, &hint, &found);
    if (error != 0) {
        return status_fail(STATUS_PEER, "cannot find host '%s': %s", address->host, gai_strerror(error));
    }
    int file = -1;
    for (const struct addrinfo *at = found; at != NULL && file < 0; at = at->ai_next) {
        file = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (file >= 0 && connect(file, at->ai_addr, at->ai_addrlen) != 0) {
            error = errno;
            close(file);
            file = -1;
        }
    }
    freeaddrinfo(found);
    *file_out = file;
    return file >= 0
               ? STATUS_OK
               : status_fail(STATUS_PEER, "no daemon answers on tcp:%s:%s: %s", address->host, address->port, strerror(error));
}

/* Another user could have made a socket at a default path: the daemon must be this user's or root's. */
static bool is_trusted(int file)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    return getsockopt(file, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && (peer.uid == 0 || peer.uid == geteuid());
}

static enum status connect_default(int *file_out)
{
    char address[ENDPOINT_TEXT_BYTES];
    struct endpoint endpoint;
    endpoint_default(address);
    enum status status = endpoint_parse(address, "the default address", &endpoint);
    if (status != STATUS_OK) {
        return status;
    }
    *file_out = connect_unix(endpoint.path);
    if (*file_out < 0 && strcmp(endpoint.path, SYSTEM_PATH) != 0) {
        *file_out = connect_unix(SYSTEM_PATH);
    }
    if (*file_out < 0) {
        return status_fail(STATUS_PEER,
                           "no daemon answers on %s: %s. Start one with trainerd --listen %s, or give its address "
                           "with --to",
                           address, strerror(errno), address);
    }
    if (!is_trusted(*file_out)) {
        return status_fail(STATUS_PEER,
                           "the daemon on %s is neither this user's nor root's; give its address with --to if it is "
                           "to be trusted",
                           address);
    }
    return STATUS_OK;
}

/* A daemon of another protocol, of which no answer would be understood. */
static enum status check_version(const json_t *hello)
{
    const json_t *v = json_object_get(hello, "v");
    const char *version = json_string_value(json_object_get(hello, "version"));
    if (json_integer_value(v) == CLIENT_PROTOCOL_VERSION) {
        return STATUS_OK;
    }
    return status_fail(STATUS_PEER,
                       "the daemon, trainerd %.40s, speaks version %lld of the protocol, this trainctl, " TRAINERD_VERSION
                       ", version %d: use the trainctl of the daemon's version",
                       version != NULL ? version : "of an unknown version", (long long)json_integer_value(v),
                       CLIENT_PROTOCOL_VERSION);
}

/* Both sides prove that they know the secret, each for the other's nonce. */
static enum status authenticate(struct client *client, const char *secret_file)
{
    struct auth_secret secret;
    char mine[AUTH_TEXT_BYTES], proof[AUTH_TEXT_BYTES];
    json_t *hello = NULL, *answer = NULL;
    if (secret_file == NULL) {
        return status_fail(STATUS_CONFIG,
                           "a daemon on a TCP port needs a secret: expected --secret-file or $TRAINERD_SECRET_FILE");
    }
    enum status status = auth_secret_load(secret_file, &secret);
    status = status == STATUS_OK ? client_ask(client, json_pack("{s:s}", "cmd", "hello"), &hello) : status;
    status = status == STATUS_OK ? check_version(hello) : status;
    if (status == STATUS_OK) {
        const char *nonce = json_string_value(json_object_get(hello, "nonce"));
        auth_nonce(mine);
        status = auth_proof(&secret, AUTH_ROLE_CLIENT, nonce != NULL ? nonce : "", mine, proof);
        status = status == STATUS_OK
                     ? client_ask(client, json_pack("{s:s, s:s, s:s}", "cmd", "auth", "nonce", mine, "proof", proof), &answer)
                     : status;
        const char *theirs = json_string_value(json_object_get(answer, "proof"));
        if (status == STATUS_OK && (theirs == NULL || !auth_is_proof(&secret, AUTH_ROLE_SERVER, nonce, mine, theirs))) {
            status = status_fail(STATUS_PEER, "the daemon does not know the secret");
        }
    }
    auth_secret_release(&secret);
    json_decref(hello);
    json_decref(answer);
    return status;
}

static enum status connect_to(const char *address, struct client *client, bool *is_unix_out)
{
    struct endpoint endpoint;
    enum status status = endpoint_parse(address, "--to", &endpoint);
    if (status != STATUS_OK) {
        return status;
    }
    *is_unix_out = endpoint.is_unix;
    if (!endpoint.is_unix) {
        return connect_tcp(&endpoint.tcp, &client->file);
    }
    client->file = connect_unix(endpoint.path);
    return client->file >= 0 ? STATUS_OK : status_fail(STATUS_PEER, "no daemon answers on %s: %s", address, strerror(errno));
}

enum status client_open(const char *address, const char *secret_file, struct client *out)
{
    bool is_unix = true;
    *out = (struct client){.file = -1};
    frame_reader_init(&out->lines, ANSWER_BYTES_MOST);
    enum status status = address == NULL ? connect_default(&out->file) : connect_to(address, out, &is_unix);
    status = status == STATUS_OK && !is_unix ? authenticate(out, secret_file) : status;
    if (status != STATUS_OK) {
        client_close(out);
    }
    return status;
}

void client_close(struct client *client)
{
    if (client->file >= 0) {
        close(client->file);
    }
    frame_reader_release(&client->lines);
    client->file = -1;
}

/* --- requests and answers --- */

enum status client_send(struct client *client, json_t *request)
{
    json_object_set_new(request, "v", json_integer(CLIENT_PROTOCOL_VERSION));
    json_object_set_new(request, "id", json_integer(++client->id));
    char *text = json_dumps(request, JSON_COMPACT);
    json_decref(request);
    if (text == NULL) {
        return status_fail(STATUS_USAGE, "the request cannot be written as JSON: a text in it is not UTF-8");
    }
    size_t n = strlen(text);
    text[n] = '\n'; /* in place of the NUL */
    for (size_t at = 0; at <= n;) {
        ssize_t sent = send(client->file, text + at, n + 1 - at, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) {
            break; /* client_next reads why the daemon closed the connection */
        }
        at += sent > 0 ? (size_t)sent : 0;
    }
    free(text);
    return STATUS_OK;
}

/* Read more bytes; false: none in time. */
static enum status read_more(struct client *client, int wait_ms, bool *received_out)
{
    struct pollfd ready = {.fd = client->file, .events = POLLIN};
    int n_ready = poll(&ready, 1, wait_ms);
    *received_out = false;
    if (n_ready <= 0) {
        return n_ready == 0 || errno == EINTR ? STATUS_OK : status_fail(STATUS_PEER, "cannot wait: %s", strerror(errno));
    }
    size_t capacity;
    char *buffer = frame_reader_buffer(&client->lines, &capacity);
    ssize_t n = recv(client->file, buffer, capacity, 0);
    if (n == 0 || (n < 0 && errno != EINTR)) {
        return status_fail(STATUS_PEER, "the daemon closed the connection%s%s", n < 0 ? ": " : "",
                           n < 0 ? strerror(errno) : "");
    }
    frame_reader_fill(&client->lines, n > 0 ? (size_t)n : 0);
    *received_out = true;
    return STATUS_OK;
}

/* Parse a line; a refusal becomes this process's failure, with its status and reason. */
static enum status parse_line(const struct client *client, const char *line, size_t n, json_t **out)
{
    json_t *answer = json_loadb(line, n, 0, NULL), *id = json_object_get(answer, "id");
    if (answer == NULL) {
        return status_fail(STATUS_PEER, "the answer is not JSON: expected a daemon of trainerd");
    }
    if (json_is_false(json_object_get(answer, "ok"))) {
        const char *error = json_string_value(json_object_get(answer, "error"));
        int exit_code = (int)json_integer_value(json_object_get(answer, "exit_code"));
        enum status status = status_from_exit_code(exit_code);
        status = status_fail(status == STATUS_OK ? STATUS_PEER : status, "%s",
                             error != NULL ? error : "the daemon gives no reason");
        json_decref(answer);
        return status;
    }
    if (json_integer_value(id) != client->id) { /* of an earlier request's stream */
        json_decref(answer);
        return STATUS_OK;
    }
    *out = answer;
    return STATUS_OK;
}

enum status client_next(struct client *client, int wait_ms, json_t **out)
{
    double until_ms = 1e3 * clock_s() + wait_ms;
    *out = NULL;
    for (;;) {
        const char *line;
        size_t n;
        bool whole = false, received = true;
        enum status status = frame_reader_next(&client->lines, &line, &n, &whole);
        if (status == STATUS_OK && whole) {
            status = parse_line(client, line, n, out);
        } else if (status == STATUS_OK) {
            double left_ms = until_ms - 1e3 * clock_s();
            status = read_more(client, wait_ms < 0 ? -1 : left_ms > 0 ? (int)left_ms + 1 : 0, &received);
        }
        if (status != STATUS_OK || *out != NULL || !received) {
            return status;
        }
    }
}

enum status client_ask(struct client *client, json_t *request, json_t **out)
{
    enum status status = client_send(client, request);
    status = status == STATUS_OK ? client_next(client, ANSWER_MS, out) : status;
    if (status == STATUS_OK && *out == NULL) {
        return status_fail(STATUS_PEER, "the daemon has not answered within %d s", ANSWER_MS / 1000);
    }
    return status;
}
