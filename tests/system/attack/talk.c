#include "tests/system/attack/talk.h"

#include "protocol/base/clock.h"
#include "tests/support/process/folder.h"
#include "tests/system/attack/campaign.h"
#include "tests/system/attack/target.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { N_KEPT = 1200, N_LINE = 1 << 20 };

void (*talk_restart)(void);
static int kept[USER_N][N_KEPT], n_kept[USER_N];

int talk_open(enum user who)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", folder);
    int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    HOLDS(file >= 0, "%s", strerror(errno));
    user_become(who);
    int error = connect(file, (const struct sockaddr *)&address, sizeof address);
    user_leave();
    fcntl(file, F_SETFL, O_NONBLOCK);
    if (error != 0) {
        close(file);
        return -1;
    }
    return file;
}

int talk_open_http(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)target_http_port())};
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    HOLDS(file >= 0, "%s", strerror(errno));
    if (connect(file, (const struct sockaddr *)&address, sizeof address) != 0) {
        close(file);
        return -1;
    }
    fcntl(file, F_SETFL, O_NONBLOCK);
    return file;
}

void talk_send(int file, const void *bytes, size_t n)
{
    double since_s = clock_s();
    for (size_t at = 0; at < n;) {
        ssize_t sent = send(file, (const char *)bytes + at, n - at, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) {
            return; /* the daemon has closed the connection: its reason is read next */
        }
        at += sent > 0 ? (size_t)sent : 0;
        struct pollfd ready = {.fd = file, .events = POLLOUT | POLLIN};
        if (sent < 0 && (poll(&ready, 1, 1000) < 0 || (ready.revents & POLLOUT) == 0) &&
            clock_s() - since_s > TALK_S) {
            return;
        }
    }
}

bool talk_line(int file, char *out, size_t n_out)
{
    double since_s = clock_s();
    for (size_t n = 0;;) {
        char byte;
        ssize_t got = recv(file, &byte, 1, 0);
        if (got == 1 && byte != '\n') {
            out[n] = byte;
            n += n + 1 < n_out;
            continue;
        }
        out[n] = '\0';
        if (got == 1) {
            return true;
        }
        if (got == 0 || errno != EAGAIN) {
            return false;
        }
        poll(&(struct pollfd){.fd = file, .events = POLLIN}, 1, 1000);
        HOLDS(clock_s() - since_s < TALK_S || target_is_dead(), "the daemon has not answered for %d s", TALK_S);
    }
}

static void talk_drop(enum user who)
{
    while (n_kept[who] > 0) {
        close(kept[who][--n_kept[who]]);
    }
}

/* A request and its answer: NULL where the connection ended before. owns  the caller has the reference */
static json_t *talk_try(enum user who, const char *request)
{
    static char line[N_LINE];
    int file = talk_open(who);
    if (file < 0) {
        return NULL;
    }
    talk_send(file, request, strlen(request));
    talk_send(file, "\n", 1);
    bool is_whole = talk_line(file, line, sizeof line);
    close(file);
    user_expect_no_secret(who, line);
    json_t *answer = is_whole ? json_loads(line, 0, NULL) : NULL;
    HOLDS(!is_whole || answer != NULL, "no JSON: %.500s", line);
    return answer;
}

/* A process that is killed closes its connections before it can be waited for. */
static bool has_died_soon(bool is_likely)
{
    bool has_died = target_is_dead();
    for (int i = 0; is_likely && !has_died && i < 200; i++) {
        campaign_nap(10);
        has_died = target_is_dead();
    }
    return has_died;
}

/* The connection ends for its own sake, not for what was asked. */
static bool is_farewell(const json_t *answer)
{
    return json_is_null(json_object_get(answer, "id")) && strstr(talk_error(answer), "not JSON") == NULL;
}

json_t *talk_ask(enum user who, const char *format, ...)
{
    static char request[1 << 17];
    va_list values;
    va_start(values, format);
    int n = vsnprintf(request, sizeof request, format, values);
    va_end(values);
    cr_assert_lt(n, (int)sizeof request);
    for (int try = 0; try < 6; try++) {
        json_t *answer = talk_try(who, request);
        if (answer != NULL && !is_farewell(answer)) {
            return answer;
        }
        bool has_died = has_died_soon(answer == NULL);
        HOLDS(has_died || n_kept[who] > 0, "the daemon does not answer %s: %s", user_home(who),
              answer != NULL ? talk_error(answer) : "the connection has ended");
        json_decref(answer);
        talk_drop(who);
        if (has_died && talk_restart != NULL) {
            talk_restart();
        }
    }
    HOLDS(false, "no answer to %.500s", request);
    return NULL;
}

bool talk_is_ok(const json_t *answer)
{
    return json_is_true(json_object_get(answer, "ok"));
}

const char *talk_error(const json_t *answer)
{
    const char *error = json_string_value(json_object_get(answer, "error"));
    return error != NULL ? error : "";
}

void talk_keep(enum user who, int file)
{
    if (file >= 0 && n_kept[who] == N_KEPT) {
        close(file);
    } else if (file >= 0) {
        kept[who][n_kept[who]++] = file;
    }
}

void talk_drop_all(void)
{
    for (int who = 0; who < USER_N; who++) {
        talk_drop((enum user)who);
    }
}

const char *talk_http(const char *path)
{
    static char text[1 << 16];
    char request[256];
    size_t n = 0;
    int file = talk_open_http();
    text[0] = '\0';
    if (file < 0) {
        return text;
    }
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
    talk_send(file, request, strlen(request));
    double since_s = clock_s();
    for (ssize_t got = -1; got != 0 && n + 1 < sizeof text;) {
        got = recv(file, text + n, sizeof text - 1 - n, 0);
        n += got > 0 ? (size_t)got : 0;
        if (got < 0 && errno != EAGAIN) {
            break;
        }
        if (got < 0) {
            poll(&(struct pollfd){.fd = file, .events = POLLIN}, 1, 1000);
            HOLDS(clock_s() - since_s < TALK_S, "no answer to GET %s for %d s", path, TALK_S);
        }
    }
    text[n] = '\0';
    close(file);
    return text;
}
