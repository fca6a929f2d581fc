/* Sealed messages of a transport: keys of all peers, the buffers of sealed bodies, and sealed heads. Knows nothing of
 * what carries them.
 */
#ifndef PROTOCOL_TRANSPORT_SEAL_H
#define PROTOCOL_TRANSPORT_SEAL_H

#include "protocol/transport/transport.h"

/* Head of a sealed message: 96 bytes, little-endian. */
struct sealed_head {
    struct transport_head head;
    uint64_t sequence; /* of the sender's messages for this receiver */
    uint64_t n_body;
    uint8_t body_tag[SEAL_TAG_BYTES]; /* zeros: the body is plain */
    uint8_t tag[SEAL_TAG_BYTES];      /* of all before it */
};

struct sealing;

/* As transport_seal, for peer `self` of n_peer. owns  the caller owns *out: sealing_close (NULL is allowed) */
enum status sealing_open(const struct seal_secret *secret, uint32_t self, uint32_t n_peer, const uint8_t *near,
                         struct sealing **out);
void sealing_close(struct sealing *sealing);

/* Are bodies for and from this peer encrypted? */
bool sealing_covers(const struct sealing *sealing, uint32_t peer);

/* A buffer of TRANSPORT_SEAL_PIECE_BYTES, NULL when all are taken / give it back. */
uint8_t *sealing_buffer(struct sealing *sealing);
void sealing_buffer_return(struct sealing *sealing, uint8_t *buffer);

/* Seal the next message for `peer`: complete `head`, whose first member is set, and encrypt the body to `buffer`
 * (NULL: it travels as it is). */
void sealing_close_message(struct sealing *sealing, uint32_t peer, struct sealed_head *head, const void *body,
                           size_t n_body, uint8_t *buffer);

/* Read a head that came with a body of n_body bytes, and check it. *is_fresh_out is false where it is to be dropped:
 * of another attempt, or it came before.
 *
 *   errors  STATUS_PEER no peer of this attempt sent it
 */
enum status sealing_read_head(struct sealing *sealing, const void *bytes, size_t n_bytes, size_t n_body,
                              uint32_t attempt, struct sealed_head *out, bool *is_fresh_out);

/* Decrypt a body that came with that head to `out`, which may be the same bytes; a plain one is copied. errors
 * STATUS_PEER it was changed */
enum status sealing_open_body(struct sealing *sealing, const struct sealed_head *head, const void *body, void *out);

#endif
