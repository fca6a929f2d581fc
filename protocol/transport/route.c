#include "protocol/transport/route.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define RDMA "/sys/class/infiniband"

static bool text_of(const struct sockaddr *address, char out[64])
{
    socklen_t n = address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    return (address->sa_family == AF_INET || address->sa_family == AF_INET6) &&
           getnameinfo(address, n, out, 64, NULL, 0, NI_NUMERICHOST) == 0;
}

void route_read(int socket, struct route *out)
{
    struct sockaddr_storage own = {0};
    socklen_t n = sizeof own;
    struct ifaddrs *all = NULL;
    *out = (struct route){0};
    if (getsockname(socket, (struct sockaddr *)&own, &n) != 0 ||
        !text_of((const struct sockaddr *)&own, out->address) || getifaddrs(&all) != 0) {
        return;
    }
    if (strncmp(out->address, "::ffff:", 7) == 0) { /* IPv4, to a listener of both */
        memmove(out->address, out->address + 7, strlen(out->address + 7) + 1);
    }
    for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
        char address[64];
        if (at->ifa_addr != NULL && text_of(at->ifa_addr, address) && strcmp(address, out->address) == 0) {
            snprintf(out->interface, sizeof out->interface, "%.*s", (int)strcspn(at->ifa_name, ":"),
                     at->ifa_name); /* "eth0:1" is eth0 */
        }
    }
    freeifaddrs(all);
}

void route_print(const struct route *route, char out[ROUTE_TEXT_BYTES])
{
    bool is_known = route->interface[0] != '\0';
    snprintf(out, ROUTE_TEXT_BYTES, is_known ? "%s (%s)" : "%s", is_known ? route->address : "an unknown address",
             route->interface);
}

enum status route_fail(enum status status, const char *other, const char *at, const char *own)
{
    char reason[512];
    snprintf(reason, sizeof reason, "%s", status_reason());
    const char *set = getenv("UCX_NET_DEVICES");
    return status_fail(
        status,
        "%s: %s is at %s, this process at %s. UCX_NET_DEVICES=INTERFACE, for the coordinator and for each worker, "
        "chooses another network; here it is %s",
        reason, other, at, own, set != NULL ? set : "not set");
}

/* Add one to a list with commas. */
static void add(char out[ROUTE_DEVICES_BYTES], const char *name)
{
    size_t n = strlen(out);
    snprintf(out + n, ROUTE_DEVICES_BYTES - n, "%s%s", n > 0 ? "," : "", name);
}

static bool is_loopback(const struct route *route)
{
    return strncmp(route->address, "127.", 4) == 0 || strcmp(route->address, "::1") == 0;
}

static bool is_among(const struct route *routes, uint32_t n, const char *interface)
{
    bool found = false;
    for (uint32_t i = 0; i < n && !found; i++) {
        found = strcmp(routes[i].interface, interface) == 0;
    }
    return found;
}

/* "mlx5_0:1", a port of a device, for each. */
static void add_rdma(char out[ROUTE_DEVICES_BYTES])
{
    DIR *devices = opendir(RDMA);
    for (struct dirent *device; devices != NULL && (device = readdir(devices)) != NULL;) {
        char path[PATH_MAX], name[2 * NAME_MAX + 2];
        snprintf(path, sizeof path, RDMA "/%s/ports", device->d_name);
        DIR *ports = device->d_name[0] != '.' ? opendir(path) : NULL;
        for (struct dirent *port; ports != NULL && (port = readdir(ports)) != NULL;) {
            if (port->d_name[0] != '.') {
                snprintf(name, sizeof name, "%s:%s", device->d_name, port->d_name);
                add(out, name);
            }
        }
        if (ports != NULL) {
            closedir(ports);
        }
    }
    if (devices != NULL) {
        closedir(devices);
    }
}

void route_devices(const struct route *routes, uint32_t n, char out[ROUTE_DEVICES_BYTES])
{
    out[0] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        if (routes[i].interface[0] != '\0' && !is_loopback(&routes[i]) && !is_among(routes, i, routes[i].interface)) {
            add(out, routes[i].interface);
        }
    }
    if (out[0] != '\0') {
        add_rdma(out);
    }
}
