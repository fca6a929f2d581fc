/* Where a process of a job stands on its machine: what UCX needs to wake it by shared memory.
 *
 * UCX shares memory among the processes of an IPC namespace, and wakes one that waits by a datagram to a socket whose name is of the network
 * namespace. Two processes that have the first in common and not the second share memory, and the one that waits sees what has arrived only
 * when its wait is over: a job trains, several times slower. Knows neither UCX nor sockets.
 */
#ifndef PROTOCOL_NEIGHBOUR_H
#define PROTOCOL_NEIGHBOUR_H

#include <stdbool.h>

#define NEIGHBOUR_BYTES 64

struct neighbour {
    char memory[NEIGHBOUR_BYTES];  /* "ipc:[4026531839]"; "": UCX shares no memory here, or the system has no namespaces */
    char network[NEIGHBOUR_BYTES]; /* "net:[4026531840]" */
};

/* Of this process. */
void neighbour_self(bool shares_memory, struct neighbour *out);

/* Of two processes of one machine: do they share memory, and cannot wake each other? */
bool neighbour_sleeps(const struct neighbour *one, const struct neighbour *other);

#endif
