/* The namespaces of a job's process, which decide whether UCX may share memory with another process of the machine.
 *
 * UCX 1.13 finds another process's memory by its number and wakes it by a socket's name, so both have to see the same
 * processes, segments and sockets. It detects that only in part. If only the network differs, it shares memory and
 * cannot wake a waiting process. If only the processes differ, it misreads the other's address. So a process in other
 * namespaces gets only network addresses. Independent of UCX and sockets.
 */
#ifndef PROTOCOL_NEIGHBOUR_H
#define PROTOCOL_NEIGHBOUR_H

#define NEIGHBOUR_BYTES 64

/* The namespaces of this process, "ipc:[4026531839] net:[4026531840] pid:[4026531836]"; "" on a system without
 * namespaces. Two processes of one machine share memory if their texts are equal. */
void neighbour_self(char out[NEIGHBOUR_BYTES]);

#endif
