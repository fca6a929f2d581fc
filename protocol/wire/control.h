/* Frames of the control socket: u32 length, u16 id, then a message of messages.def. Little-endian.
 *
 * Encoders make one whole frame; the decoder takes bytes as they come, in any pieces, and is safe against hostile
 * ones: no frame beyond its limit, no memory beyond the bytes that really came. Knows no sockets.
 */
#ifndef PROTOCOL_CONTROL_H
#define PROTOCOL_CONTROL_H

#include "protocol/base/status.h"
#include "protocol/wire/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTROL_HEAD_BYTES 6

/* control_frame_hello(&hello, &n), …: one whole frame.
 *
 *   owns    the caller frees it
 */
#define FIELD(type, name)
#define MESSAGE(id, name, fields) void *control_frame_##name(const struct message_##name *message, size_t *n_out);
#include "protocol/wire/messages.def"
#undef MESSAGE
#undef FIELD

/* The head alone, CONTROL_HEAD_BYTES, for a caller with a frame of its own. */
void control_head(void *frame, unsigned id, size_t n_body);

/* The id in a whole frame. */
unsigned control_id(const void *frame);

struct control_frame {
    unsigned id;
    const void *body;
    uint32_t n_bytes;
};

struct control_decoder {
    uint8_t *bytes;
    size_t capacity;
    size_t from, to; /* bytes[from … to) came and were not taken yet */
    uint32_t n_most; /* bytes of a body; may be changed between frames */
};

/*   n_most  longest body that is taken: MESSAGE_FRAME_MOST_BYTES, less for an unauthenticated peer */
void control_decoder_init(struct control_decoder *decoder, uint32_t n_most);
void control_decoder_release(struct control_decoder *decoder);

/* Where the next bytes may be written, and how many (at least one) / that n of them were written. Invalidates
 * frames. */
void *control_decoder_buffer(struct control_decoder *decoder, size_t *n_out);
void control_decoder_fill(struct control_decoder *decoder, size_t n);

/* Take the next frame; *whole_out is false when it has not all come yet.
 *
 *   owns    out->body points into the decoder, until control_decoder_buffer
 *   errors  STATUS_PEER a length beyond n_most: nothing behind it can be read
 */
enum status control_decoder_next(struct control_decoder *decoder, struct control_frame *out, bool *whole_out);

#endif
