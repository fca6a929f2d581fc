/* Where a process of a job stands on its machine: whether UCX is to share memory with another process there.
 *
 * UCX 1.13 finds another process's memory by its number and wakes it by a socket's name, so both have to see the same
 * processes, segments and sockets. It finds out in part: where only the network differs, it shares memory and cannot
 * wake the one that waits; where only the processes do, it misreads the other's address. So addresses of networks
 * alone go to a process in other namespaces. Knows neither UCX nor sockets.
 */
#ifndef PROTOCOL_NEIGHBOUR_H
#define PROTOCOL_NEIGHBOUR_H

#define NEIGHBOUR_BYTES 64

/* The namespaces of this process, "ipc:[4026531839] net:[4026531840] pid:[4026531836]"; "" on a system without
 * namespaces. Two processes of one machine share memory where they have the same. */
void neighbour_self(char out[NEIGHBOUR_BYTES]);

#endif
