/* Which of this machine's network interfaces leads to another process, and so which devices UCX is to use.
 *
 * UCX 1.13 takes every address for one that all others reach. Machines have interfaces of which that is not true:
 * docker0 has the same address on each, networks for storage or management lead elsewhere. The interface by which a
 * worker joins its coordinator is known to lead there. Knows neither UCX nor messages.
 */
#ifndef PROTOCOL_ROUTE_H
#define PROTOCOL_ROUTE_H

#include "protocol/base/status.h"

#include <net/if.h>
#include <stdint.h>

#define ROUTE_DEVICES_BYTES 1024

/* From this machine: "eth0" and "10.0.0.2". Both "": not known. */
struct route {
    char interface[IF_NAMESIZE];
    char address[64];
};

/* The way that a connected socket takes. */
void route_of(int socket, struct route *out);

/* "10.0.0.2 (eth0)", for messages. */
#define ROUTE_TEXT_BYTES 96
void route_print(const struct route *route, char out[ROUTE_TEXT_BYTES]);

/* Say with status_reason where both ends of a connection are that could not be made, and which setting chooses other
 * ends; returns the status.
 *
 *   at, own  what route_print has said of the other process and of this one
 */
enum status route_fail(enum status status, const char *other, const char *at, const char *own);

/* What UCX_NET_DEVICES is to be for these routes: their interfaces, and the machine's RDMA devices, which have
 * networks of their own. "": all that there are, where no route leads by an interface that others could reach, but by
 * the loopback. */
void route_devices(const struct route *routes, uint32_t n, char out[ROUTE_DEVICES_BYTES]);

#endif
