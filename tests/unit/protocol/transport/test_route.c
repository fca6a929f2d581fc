#include "protocol/transport/route.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Of a socket of the loopback: both ends are there. */
Test(route, a_connection_is_by_the_interface_that_has_its_address)
{
    struct sockaddr_in where = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(9)};
    struct route route;
    char text[ROUTE_TEXT_BYTES], devices[ROUTE_DEVICES_BYTES];
    int file = socket(AF_INET, SOCK_DGRAM, 0);
    cr_assert_eq(connect(file, (struct sockaddr *)&where, sizeof where), 0);
    route_read(file, &route);
    close(file);
    cr_expect_str_eq(route.interface, "lo");
    cr_expect_str_eq(route.address, "127.0.0.1");
    route_print(&route, text);
    cr_expect_str_eq(text, "127.0.0.1 (lo)");
    route_devices(&route, 1, devices);
    cr_expect_str_eq(devices, "", "the loopback leads to no other machine");
    route_read(-1, &route);
    route_print(&route, text);
    cr_expect_str_eq(text, "an unknown address");
}

/* As a coordinator that listens on [::] has workers of IPv4. */
Test(route, an_address_of_ipv4_in_one_of_ipv6_is_found)
{
    struct sockaddr_in6 where = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
    struct route route;
    int file = socket(AF_INET6, SOCK_DGRAM, 0);
    cr_assert_eq(inet_pton(AF_INET6, "::ffff:127.0.0.1", &where.sin6_addr), 1);
    cr_assert_eq(connect(file, (struct sockaddr *)&where, sizeof where), 0);
    route_read(file, &route);
    close(file);
    cr_expect_str_eq(route.address, "127.0.0.1");
    cr_expect_str_eq(route.interface, "lo");
}

Test(route, devices_are_each_interface_once_then_those_of_rdma)
{
    const struct route routes[] = {{"lo", "127.0.0.1"}, {"eth0", "10.0.0.1"}, {"", ""},
                                   {"ib0", "10.1.0.1"}, {"eth0", "10.0.0.1"}, {"lo", "::1"}};
    char devices[ROUTE_DEVICES_BYTES];
    route_devices(routes, 6, devices);
    cr_expect_eq(strncmp(devices, "eth0,ib0", 8), 0, "%s", devices);
    cr_expect(devices[8] == '\0' || (devices[8] == ',' && strchr(devices + 9, ':') != NULL), "%s", devices);
    route_devices(routes, 1, devices);
    cr_expect_str_eq(devices, "");
}

Test(route, a_failure_names_both_ends_and_the_setting)
{
    unsetenv("UCX_NET_DEVICES");
    status_fail(STATUS_PEER, "cannot connect");
    cr_expect_eq(route_fail(STATUS_PEER, "worker 1", "10.0.0.2 (eth0)", "10.0.0.1 (eth1)"), STATUS_PEER);
    cr_expect_str_eq(status_reason(),
                     "cannot connect: worker 1 is at 10.0.0.2 (eth0), this process at 10.0.0.1 (eth1). "
                     "UCX_NET_DEVICES=INTERFACE, for the coordinator and for each worker, chooses another network; "
                     "here it is not set");
}
