/* Which heads a transport takes in at all. Knows nothing of what carries them, so that any bytes can be tried on it. */
#ifndef PROTOCOL_TRANSPORT_HEAD_H
#define PROTOCOL_TRANSPORT_HEAD_H

#include "protocol/transport/transport.h"

/* Read the head of a message to peer `self` of n_peer in `attempt`: one of ours, from another peer, of a kind that there is.
 * *is_fresh_out is false when it is of another attempt: to be dropped, *out says nothing.
 *
 *   errors  STATUS_PEER no peer sends this
 */
enum status transport_head_read(const void *bytes, size_t n_bytes, uint32_t self, uint32_t n_peer, uint32_t attempt,
                                struct transport_head *out, bool *is_fresh_out);

#endif
