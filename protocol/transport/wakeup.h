/* The sockets by which processes that share memory wake each other, and what others may send there.
 *
 * UCX 1.13 opens one for each of its kinds of shared memory: a datagram socket under an abstract name that the kernel
 * draws, which every user of the machine sees and may send to. A peer sends one byte. UCX takes an empty datagram for
 * the end of a stream and aborts. Other datagrams only wake its process, and a full queue is one signal like any
 * other. So this file replaces the C library's bind, which UCX calls: a socket gets its filter before its name. Uses
 * only sockets.
 */
#ifndef PROTOCOL_WAKEUP_H
#define PROTOCOL_WAKEUP_H

#include <stdbool.h>

/* Have the kernel drop empty datagrams to datagram sockets that are bound to a name of the kernel's choice from now
 * on; no longer. Where it takes no filter, bind fails with the reason. */
void wakeup_guard(bool on);

#endif
