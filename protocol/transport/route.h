/* The network interface of this machine that leads to another process, and so the devices for UCX.
 *
 * UCX 1.13 assumes that all other processes reach every address. That is wrong for some interfaces: docker0 has the
 * same address on each machine, and networks for storage or management lead elsewhere. The interface by which a
 * worker joins its coordinator is known to lead there. Independent of UCX and messages.
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
void route_read(int socket, struct route *out);

/* "10.0.0.2 (eth0)", for messages. */
#define ROUTE_TEXT_BYTES 96
void route_print(const struct route *route, char out[ROUTE_TEXT_BYTES]);

/* Add to the reason of a failed connection the places of both ends, and the setting that chooses others; returns the
 * status.
 *
 *   at, own  route_print's texts for the other process and for this one
 */
enum status route_fail(enum status status, const char *other, const char *at, const char *own);

/* The value of UCX_NET_DEVICES for these routes: their interfaces, and the machine's RDMA devices, which have their
 * own networks. "": all devices, if routes use only the loopback. */
void route_devices(const struct route *routes, uint32_t n, char out[ROUTE_DEVICES_BYTES]);

#endif
