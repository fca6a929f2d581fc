/* Checks of heads before a transport accepts them. Independent of UCX, so that tests can pass any bytes. */
#ifndef PROTOCOL_TRANSPORT_HEAD_H
#define PROTOCOL_TRANSPORT_HEAD_H

#include "protocol/transport/transport.h"

/* Who reads a head: peer `self` of n_peer in this attempt. */
struct transport_reader {
    uint32_t self, n_peer, attempt;
};

/* Read the head of a message: with the magic, from another peer, of a known kind. *is_fresh_out is false when the
 * message belongs to another attempt: it is to be dropped, and *out is not to be used.
 *
 *   errors  STATUS_PEER no peer sends this
 */
enum status transport_head_read(const void *bytes, size_t n_bytes, const struct transport_reader *reader,
                                struct transport_head *out, bool *is_fresh_out);

#endif
