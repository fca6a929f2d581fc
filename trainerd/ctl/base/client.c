#include "trainerd/ctl/base/client.h"

#include "protocol/base/clock.h"
#include "protocol/base/printable.h"
#include "protocol/base/version.h"
#include "trainerd/ctl/base/known_hosts.h"
#include "trainerd/socket/endpoint.h"

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
#define PIECE_BYTES 65536
#define PAGE_ENTRIES 1000
#define SHOWN_BYTES 400 /* of what a daemon without TLS says */

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
    return file >= 0 ? STATUS_OK
                     : status_fail(STATUS_PEER, "no daemon answers on tcp:%s:%s: %s", address->host, address->port,
                                   strerror(error));
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
    return status_fail(
        STATUS_PEER,
        "the daemon, trainerd %.40s, speaks version %lld of the protocol, this trainctl, " TRAINERD_VERSION
        ", version %d: use the trainctl of the daemon's version",
        version != NULL ? version : "of an unknown version", (long long)json_integer_value(v),
        CLIENT_PROTOCOL_VERSION);
}

void client_close(struct client *client)
{
    if (client->file >= 0) {
        close(client->file);
    }
    tls_close(client->tls);
    frame_reader_release(&client->lines);
    client->file = -1;
    client->tls = NULL;
}

/* --- requests and answers --- */

/* What cannot be sent any more is no failure: client_next reads why the daemon closed the connection. */
static void send_bytes(const struct client *client, const char *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t sent = send(client->file, bytes + at, n - at, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) {
            break;
        }
        at += sent > 0 ? (size_t)sent : 0;
    }
}

static void send_encrypted(const struct client *client)
{
    size_t n;
    char *bytes = tls_take(client->tls, &n);
    if (bytes != NULL) {
        send_bytes(client, bytes, n);
        free(bytes);
    }
}

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
    enum status status = STATUS_OK;
    if (client->tls != NULL) {
        status = tls_write(client->tls, text, n + 1);
        send_encrypted(client);
    } else {
        send_bytes(client, text, n + 1);
    }
    free(text);
    return status;
}

/* Bytes that TLS has already, to the lines; *n_out 0: it has no bytes. */
static enum status read_decrypted(struct client *client, size_t *n_out)
{
    size_t room;
    *n_out = 0;
    if (!tls_has_bytes(client->tls)) {
        return tls_has_ended(client->tls) ? status_fail(STATUS_PEER, "the daemon closed the connection") : STATUS_OK;
    }
    char *at = frame_reader_buffer(&client->lines, &room);
    enum status status = tls_read(client->tls, at, room, n_out);
    frame_reader_fill(&client->lines, *n_out);
    return status;
}

/* Read more bytes; false: none in time. `out`: room for them. */
static enum status receive(const struct client *client, int wait_ms, char *out, size_t room, size_t *n_out)
{
    struct pollfd ready = {.fd = client->file, .events = POLLIN};
    int n_ready = poll(&ready, 1, wait_ms);
    *n_out = 0;
    if (n_ready <= 0) {
        return n_ready == 0 || errno == EINTR ? STATUS_OK
                                              : status_fail(STATUS_PEER, "cannot wait: %s", strerror(errno));
    }
    ssize_t n = recv(client->file, out, room, 0);
    if (n == 0 || (n < 0 && errno != EINTR)) {
        return status_fail(STATUS_PEER, "the daemon closed the connection%s%s", n < 0 ? ": " : "",
                           n < 0 ? strerror(errno) : "");
    }
    *n_out = n > 0 ? (size_t)n : 0;
    return STATUS_OK;
}

/* Read more bytes of lines; false: none in time. Of TLS a piece may hold none yet. */
static enum status read_more(struct client *client, int wait_ms, bool *received_out)
{
    char piece[PIECE_BYTES];
    size_t n = 0, room;
    enum status status = STATUS_OK;
    if (client->tls == NULL) {
        char *at = frame_reader_buffer(&client->lines, &room);
        status = receive(client, wait_ms, at, room, &n);
        frame_reader_fill(&client->lines, n);
    } else {
        status = read_decrypted(client, &n);
        if (status == STATUS_OK && n == 0) {
            status = receive(client, wait_ms, piece, sizeof piece, &n);
            tls_feed(client->tls, piece, n);
        }
    }
    *received_out = n > 0;
    return status;
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
        status = status_fail_lines(status == STATUS_OK ? STATUS_PEER : status,
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
    if (status == STATUS_OK) {
        status = client_next(client, ANSWER_MS, out);
    }
    if (status == STATUS_OK && *out == NULL) {
        return status_fail(STATUS_PEER, "the daemon has not answered within %d s", ANSWER_MS / 1000);
    }
    return status;
}

/* --- opening --- */

/* Both sides prove that they know the secret, each for the other's nonce, and which certificate they know. */
static enum status authenticate(struct client *client, const struct client_login *given)
{
    struct auth_secret secret;
    char mine[AUTH_TEXT_BYTES], proof[AUTH_TEXT_BYTES];
    json_t *hello = NULL, *answer = NULL;
    enum status status = STATUS_OK;
    if (given->secret != NULL) {
        secret = *given->secret;
    } else if (given->secret_file == NULL) {
        return status_fail(
            STATUS_CONFIG,
            "a daemon on a TCP port needs a secret: expected --secret-file, $TRAINERD_SECRET_FILE or a "
            "trainctl login before");
    } else {
        status = auth_secret_load(given->secret_file, &secret);
    }
    if (status == STATUS_OK &&
        (status = client_ask(client, json_pack("{s:s}", "cmd", "hello"), &hello)) == STATUS_OK) {
        status = check_version(hello);
    }
    if (status == STATUS_OK) {
        const char *nonce = json_string_value(json_object_get(hello, "nonce"));
        const struct auth_login login = {nonce != NULL ? nonce : "", mine,
                                         client->tls != NULL ? tls_fingerprint(client->tls) : "", given->user};
        auth_nonce(mine);
        status = auth_proof(&secret, AUTH_ROLE_CLIENT, &login, proof);
        json_t *request = json_pack("{s:s, s:s, s:s}", "cmd", "auth", "nonce", mine, "proof", proof);
        if (given->user[0] != '\0') {
            json_object_set_new(request, "user", json_string(given->user));
        }
        if (status == STATUS_OK) {
            status = client_ask(client, request, &answer);
        } else {
            json_decref(request);
        }
        const char *theirs = json_string_value(json_object_get(answer, "proof"));
        if (status == STATUS_OK && (theirs == NULL || !auth_is_proof(&secret, AUTH_ROLE_SERVER, &login, theirs))) {
            status = status_fail(STATUS_PEER, "the daemon does not know the secret");
        }
    }
    auth_secret_release(&secret);
    json_decref(hello);
    json_decref(answer);
    return status;
}

static enum status connect_to(const char *address, const struct endpoint *endpoint, struct client *client)
{
    if (!endpoint->is_unix) {
        return connect_tcp(&endpoint->tcp, &client->file);
    }
    client->file = connect_unix(endpoint->path);
    return client->file >= 0 ? STATUS_OK
                             : status_fail(STATUS_PEER, "no daemon answers on %s: %s", address, strerror(errno));
}

/* A daemon that does not begin with TLS says why in a line, which is not to be trusted. */
static enum status fail_plain(struct client *client, const char *piece, size_t n)
{
    char shown[SHOWN_BYTES] = "";
    json_t *line = json_loadb(piece, n, JSON_DISABLE_EOF_CHECK, NULL);
    const char *error = json_string_value(json_object_get(line, "error"));
    printable_copy(error != NULL ? error : "it sends no TLS", shown, sizeof shown);
    json_decref(line);
    tls_close(client->tls);
    client->tls = NULL;
    return status_fail(STATUS_PEER, "the daemon answers without TLS: %s", shown);
}

static enum status shake(struct client *client)
{
    char piece[PIECE_BYTES];
    double until_ms = 1e3 * clock_s() + ANSWER_MS;
    bool done = false, is_first = true;
    client->tls = tls_open(NULL);
    for (;;) {
        enum status status = tls_shake(client->tls, &done);
        size_t n = 0;
        send_encrypted(client);
        if (status != STATUS_OK || done) {
            return status;
        }
        double left_ms = until_ms - 1e3 * clock_s();
        if (left_ms <= 0) {
            return status_fail(STATUS_PEER, "the daemon has not answered within %d s", ANSWER_MS / 1000);
        }
        status = receive(client, (int)left_ms + 1, piece, sizeof piece, &n);
        if (status == STATUS_OK && n > 0 && is_first && piece[0] == '{') {
            return fail_plain(client, piece, n);
        }
        if (status != STATUS_OK) {
            return status;
        }
        is_first = is_first && n == 0;
        tls_feed(client->tls, piece, n);
    }
}

static enum status check_known(const char *address, const char *seen, const char *known)
{
    return strcmp(seen, known) == 0 ? STATUS_OK
                                    : status_fail(STATUS_PEER,
                                                  "the daemon on %s is not the one that is known: its certificate's "
                                                  "fingerprint is %s, expected %s. Another process may answer "
                                                  "there, or between. If the daemon has a new certificate, as "
                                                  "`trainctl fingerprint` on its machine tells, run trainctl login "
                                                  "%s --fingerprint %s",
                                                  address, seen, known, address, seen);
}

static enum status open_tcp(const char *address, const struct endpoint *endpoint, const struct client_login *login,
                            struct client *client)
{
    if (login->fingerprint == NULL) {
        return status_fail(STATUS_CONFIG,
                           "the daemon on %s is not known: run trainctl login %s, or give --fingerprint, which "
                           "`trainctl fingerprint` prints on its machine",
                           address, address);
    }
    enum status status = connect_to(address, endpoint, client);
    if (status == STATUS_OK && strcmp(login->fingerprint, KNOWN_HOSTS_NO_TLS) != 0) {
        status = shake(client);
        if (status == STATUS_OK) {
            status = check_known(address, tls_fingerprint(client->tls), login->fingerprint);
        }
    }
    if (status != STATUS_OK) {
        return status;
    }
    return authenticate(client, login);
}

enum status client_open(const char *address, const struct client_login *login, struct client *out)
{
    struct endpoint endpoint;
    enum status status = STATUS_OK;
    *out = (struct client){.file = -1};
    frame_reader_init(&out->lines, ANSWER_BYTES_MOST);
    if (address == NULL) {
        status = connect_default(&out->file);
    } else {
        status = endpoint_parse(address, "--to", &endpoint);
        if (status == STATUS_OK) {
            status = endpoint.is_unix ? connect_to(address, &endpoint, out)
                                      : open_tcp(address, &endpoint, login, out);
        }
    }
    if (status != STATUS_OK) {
        client_close(out);
    }
    return status;
}

enum status client_seen(const char *address, char out[TLS_FINGERPRINT_BYTES])
{
    struct endpoint endpoint;
    struct client client = {.file = -1};
    enum status status = endpoint_parse(address, "address", &endpoint);
    if (status == STATUS_OK && endpoint.is_unix) {
        status = status_fail(
            STATUS_CONFIG,
            "'%.200s' is a Unix socket, whose daemon is not known by a certificate: expected tcp:HOST:PORT", address);
    }
    if (status == STATUS_OK && (status = connect_to(address, &endpoint, &client)) == STATUS_OK) {
        status = shake(&client);
    }
    if (status == STATUS_OK) {
        snprintf(out, TLS_FINGERPRINT_BYTES, "%s", tls_fingerprint(client.tls));
    }
    client_close(&client);
    return status;
}

enum status client_pages(struct client *client, json_t *request, const char *list, const char *place, int64_t n_most,
                         json_t **out)
{
    enum status status = STATUS_OK;
    json_t *more = NULL, *all = NULL;
    *out = NULL;
    do {
        json_t *page = NULL;
        int64_t n_left = n_most == 0 ? PAGE_ENTRIES : n_most - (int64_t)json_array_size(all);
        json_object_set_new(request, "limit", json_integer(n_left < PAGE_ENTRIES ? n_left : PAGE_ENTRIES));
        status = client_ask(client, json_incref(request), &page);
        if (status != STATUS_OK) {
            break;
        }
        if (all != NULL) {
            json_array_extend(all, json_object_get(page, list));
            json_object_set(page, list, all);
        }
        json_decref(*out);
        *out = page;
        all = json_object_get(page, list);
        more = json_object_get(page, place);
        json_object_set(request, place, more);
    } while (more != NULL && (n_most == 0 || (int64_t)json_array_size(all) < n_most));
    json_decref(request);
    return status;
}
