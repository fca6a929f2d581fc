#include "trainerd/daemon/monitor/notify.h"

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/files/file.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct notify {
    int socket; /* connected; -1: none */
    uv_timer_t timer;
};

/* How long a change of state waits for a manager that has not read earlier notifications. */
#define STATE_WAIT_MS 1000

static void send_line(const struct notify *notify, const char *text)
{
    if (notify->socket >= 0 && send(notify->socket, text, strlen(text), MSG_NOSIGNAL) < 0) {
        log_warn("cannot notify the service manager: %s", strerror(errno));
    }
}

/* The manager's queue is short (10 datagrams), and may be full of signs of life. */
static void send_state(const struct notify *notify, const char *text)
{
    struct pollfd room = {.fd = notify->socket, .events = POLLOUT};
    poll(&room, notify->socket >= 0, STATE_WAIT_MS);
    send_line(notify, text);
}

/* A name that begins with '@' is in the abstract namespace, where that byte is NUL. */
static int connect_to(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || n >= sizeof address.sun_path) {
        log_warn("NOTIFY_SOCKET is '%s': expected a path of less than %zu bytes", name, sizeof address.sun_path);
        return -1;
    }
    memcpy(address.sun_path, name, n);
    if (name[0] == '@') {
        address.sun_path[0] = '\0';
    }
    int file = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t n_address = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    if (file >= 0 && connect(file, (const struct sockaddr *)&address, n_address) != 0) {
        log_warn("cannot reach the service manager at '%s': %s", name, strerror(errno));
        close(file);
        return -1;
    }
    return file;
}

/* The watchdog's period for this process, in microseconds; 0: no watchdog. */
static uint64_t watchdog_us(void)
{
    const char *period = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    bool is_ours = pid == NULL || strtoll(pid, NULL, 10) == getpid();
    return period != NULL && is_ours ? strtoull(period, NULL, 10) : 0;
}

static void send_watchdog(uv_timer_t *timer)
{
    send_line(timer->data, "WATCHDOG=1");
}

struct notify *notify_open(uv_loop_t *loop)
{
    struct notify *notify = memory_alloc(1, sizeof *notify);
    const char *name = getenv("NOTIFY_SOCKET");
    *notify = (struct notify){.socket = name == NULL ? -1 : connect_to(name)};
    uv_timer_init(loop, &notify->timer);
    notify->timer.data = notify;
    uint64_t half_ms = watchdog_us() / 2000;
    if (notify->socket >= 0 && half_ms > 0) {
        uv_timer_start(&notify->timer, send_watchdog, 0, half_ms);
    }
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return notify;
}

static void timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void notify_close(struct notify *notify)
{
    file_close(notify->socket);
    notify->socket = -1;
    uv_close((uv_handle_t *)&notify->timer, timer_closed);
}

void notify_ready(const struct notify *notify, const char *text)
{
    char line[512];
    snprintf(line, sizeof line, "READY=1\nSTATUS=%.400s", text);
    send_state(notify, line);
}

void notify_reloading(const struct notify *notify)
{
    char line[80];
    snprintf(line, sizeof line, "RELOADING=1\nMONOTONIC_USEC=%" PRId64, clock_ns() / 1000);
    send_state(notify, line);
}

void notify_stopping(const struct notify *notify)
{
    send_state(notify, "STOPPING=1");
}
