#include "protocol/base/clock.h"
#include "tests/support/daemon/client.h"
#include "tests/support/process/folder.h"
#include "tests/support/process/patience.h"
#include "trainerd/daemon/monitor/notify.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int manager;

/* Be the manager that listens there. name: NUL first for the abstract namespace */
static void listen_as_manager(const char *name, size_t n)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, name, n);
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t n_address = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    cr_assert_eq(bind(manager, (struct sockaddr *)&address, n_address), 0);
}

static void begin(void)
{
    folder_make();
    uv_loop_init(&loop);
    const char *path = folder_path("notify");
    listen_as_manager(path, strlen(path));
    setenv("NOTIFY_SOCKET", path, 1);
}

static void end(void)
{
    close(manager);
    cr_assert_eq(uv_loop_close(&loop), 0);
    folder_remove();
}

TestSuite(notify, .init = begin, .fini = end);

static void close_all(struct notify *notify)
{
    notify_close(notify);
    uv_run(&loop, UV_RUN_DEFAULT);
}

/* The next datagram, turning the loop until it is there; valid until the next call. */
static const char *hear(void)
{
    static char words[1024];
    ssize_t n;
    await((n = recv(manager, words, sizeof words - 1, 0)) >= 0);
    words[n] = '\0';
    return words;
}

Test(notify, a_manager_hears_when_the_daemon_serves_reads_again_and_stops)
{
    struct notify *notify = notify_open(&loop);
    notify_ready(notify, "at unix:/x");
    cr_assert_str_eq(hear(), "READY=1\nSTATUS=at unix:/x");
    notify_reloading(notify);
    const char *words = hear();
    cr_assert_eq(strncmp(words, "RELOADING=1\nMONOTONIC_USEC=", 27), 0, "%s", words);
    cr_assert_gt(atoll(words + 27), 0);
    notify_stopping(notify);
    cr_assert_str_eq(hear(), "STOPPING=1");
    cr_assert_null(getenv("NOTIFY_SOCKET"));
    close_all(notify);
}

Test(notify, the_watchdog_hears_from_the_loop_and_only_from_it)
{
    char own[32];
    snprintf(own, sizeof own, "%d", (int)getpid());
    setenv("WATCHDOG_USEC", "2000", 1);
    setenv("WATCHDOG_PID", own, 1);
    struct notify *notify = notify_open(&loop);
    for (int i = 0; i < 3; i++) {
        cr_assert_str_eq(hear(), "WATCHDOG=1");
    }
    cr_assert_null(getenv("WATCHDOG_USEC"));
    while (recv(manager, own, sizeof own, 0) >= 0) {
    }
    double until_s = clock_s() + 0.05; /* a loop that does not turn */
    while (clock_s() < until_s) {
        cr_assert_lt(recv(manager, own, sizeof own, 0), 0);
    }
    close_all(notify);
}

/* Does the process sleep, or has it ended? */
static bool is_still(pid_t pid)
{
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    bool is_read = file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    if (file != NULL) {
        fclose(file);
    }
    return is_read && (state == 'S' || state == 'Z');
}

Test(notify, a_change_of_state_waits_for_a_manager_that_is_behind)
{
    struct notify *notify = notify_open(&loop);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, folder_path("notify"));
    int full = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert_eq(connect(full, (struct sockaddr *)&address, sizeof address), 0);
    while (send(full, "x", 1, 0) == 1) {
    }
    pid_t stopping = fork();
    if (stopping == 0) {
        notify_stopping(notify);
        _exit(0);
    }
    for (double since_s = clock_s(); !is_still(stopping);) {
        cr_assert(patience_left(since_s));
    }
    const char *words = hear();
    while (strcmp(words, "x") == 0) {
        words = hear();
    }
    cr_assert_str_eq(words, "STOPPING=1");
    cr_assert_eq(waitpid(stopping, NULL, 0), stopping);
    close(full);
    close_all(notify);
}

Test(notify, another_processs_watchdog_is_none_of_ours)
{
    setenv("WATCHDOG_USEC", "2000", 1);
    setenv("WATCHDOG_PID", "1", 1);
    struct notify *notify = notify_open(&loop);
    cr_assert_eq(uv_loop_alive(&loop), 0);
    close_all(notify);
}

Test(notify, an_abstract_name_is_reached_too)
{
    char name[64];
    close(manager);
    snprintf(name, sizeof name, "@trainerd-test-%d", (int)getpid());
    setenv("NOTIFY_SOCKET", name, 1);
    name[0] = '\0';
    listen_as_manager(name, 1 + strlen(name + 1));
    struct notify *notify = notify_open(&loop);
    notify_stopping(notify);
    cr_assert_str_eq(hear(), "STOPPING=1");
    close_all(notify);
}

Test(notify, without_a_manager_nothing_is_said_and_nothing_fails)
{
    unsetenv("NOTIFY_SOCKET");
    setenv("WATCHDOG_USEC", "2000", 1);
    struct notify *notify = notify_open(&loop);
    notify_ready(notify, "x");
    cr_assert_eq(uv_loop_alive(&loop), 0);
    close_all(notify);
    setenv("NOTIFY_SOCKET", folder_path("nobody"), 1);
    notify = notify_open(&loop);
    notify_ready(notify, "x");
    close_all(notify);
}
