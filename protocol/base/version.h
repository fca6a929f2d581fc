/* The one version number of all programs, and that of the clients' protocol. */
#ifndef PROTOCOL_VERSION_H
#define PROTOCOL_VERSION_H

#define TRAINERD_VERSION "0.1.0"

/* Of the protocol that the daemon and its clients speak (docs/protocol.md). It changes when an older client would be
 * misunderstood. */
#define CLIENT_PROTOCOL_VERSION 1

#endif
