#include "protocol/transport/transport.h"
#include "protocol/transport/wakeup.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct sockaddr_un name;
static socklen_t n_name;

static bool name_take(int file)
{
    n_name = sizeof name;
    return getsockname(file, (struct sockaddr *)&name, &n_name) == 0 && name.sun_family == AF_UNIX &&
           n_name > offsetof(struct sockaddr_un, sun_path) && name.sun_path[0] == '\0';
}

/* As UCX opens one. */
static int socket_open(void)
{
    int file = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    const struct sockaddr_un drawn = {.sun_family = AF_UNIX};
    cr_assert_eq(bind(file, (const struct sockaddr *)&drawn, sizeof(sa_family_t)), 0);
    cr_assert(name_take(file));
    return file;
}

static void say(size_t n)
{
    static const char bytes[64];
    int other = socket(AF_UNIX, SOCK_DGRAM, 0);
    cr_assert_eq(sendto(other, bytes, n, 0, (struct sockaddr *)&name, n_name), (ssize_t)n);
    close(other);
}

static ssize_t heard(int file)
{
    char bytes[64];
    ssize_t n = recv(file, bytes, sizeof bytes, MSG_DONTWAIT);
    cr_assert(n >= 0 || errno == EAGAIN);
    return n;
}

Test(wakeup, empty_datagrams_are_dropped_and_others_arrive)
{
    wakeup_guard(true);
    int file = socket_open();
    wakeup_guard(false);
    for (int i = 0; i < 100; i++) {
        say(0); /* more than a queue takes: one that is dropped takes no place */
    }
    say(1);
    say(0);
    say(48);
    cr_expect_eq(heard(file), 1);
    cr_expect_eq(heard(file), 48);
    cr_expect_eq(heard(file), -1);
    close(file);
}

Test(wakeup, other_sockets_stay_as_they_are)
{
    int file = socket_open();
    say(0);
    cr_expect_eq(heard(file), 0);
    close(file);
}

Test(wakeup, each_socket_of_a_transport_is_guarded)
{
    const struct transport_events events = {0};
    struct transport *transport;
    cr_assert_eq(transport_open(0, 2, 1, 4, NULL, &events, &transport), STATUS_OK, "%s", status_reason());
    DIR *files = opendir("/proc/self/fd");
    int n = 0;
    for (struct dirent *entry; (entry = readdir(files)) != NULL;) {
        int file = atoi(entry->d_name);
        if (name_take(file)) {
            n++;
            say(0);
            cr_expect_eq(heard(file), -1, "socket %d", file);
        }
    }
    closedir(files);
    cr_expect_gt(n, 0, "UCX has no such socket any more: protocol/transport/wakeup.c is not needed");
    transport_close(transport);
}
