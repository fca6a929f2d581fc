/* Messages of messages.def as structs: encode, decode, name. Every length is checked; a decoded text or bytes field
 * points into the frame and is not NUL-terminated. Knows no sockets. */
#ifndef PROTOCOL_MESSAGE_H
#define PROTOCOL_MESSAGE_H

#include "protocol/base/status.h"

#include <stddef.h>
#include <stdint.h>

#define MESSAGE_VERSION 7u
#define MESSAGE_HELLO_1 1u /* the ids of older versions' hello */
#define MESSAGE_HELLO_2 9u
#define MESSAGE_HELLO_3 12u
#define MESSAGE_HELLO_4 15u
#define MESSAGE_HELLO_5 17u
#define MESSAGE_ADDRESS_MOST_BYTES 16384u             /* of a transport's address */
#define MESSAGE_NO_RANK UINT32_MAX                    /* message hello: any rank */
#define MESSAGE_FRAME_MOST_BYTES ((uint32_t)16 << 20) /* of a control-socket frame's body */
#define MESSAGE_ANSWER_MOST_BYTES ((size_t)32 << 10)  /* of a report, with TRAFFIC_LAYERS_MOST layers */

struct message_span {
    const void *at;
    uint32_t n_bytes;
};

/* struct message_hello, … and MESSAGE_ID_hello = 1, … */
#define MESSAGE_TYPE_u8 uint8_t
#define MESSAGE_TYPE_u32 uint32_t
#define MESSAGE_TYPE_u64 uint64_t
#define MESSAGE_TYPE_i32 int32_t
#define MESSAGE_TYPE_i64 int64_t
#define MESSAGE_TYPE_f64 double
#define MESSAGE_TYPE_text struct message_span
#define MESSAGE_TYPE_bytes struct message_span

#define FIELD(type, name) MESSAGE_TYPE_##type name;
#define MESSAGE(id, name, fields)                                                                                    \
    struct message_##name {                                                                                          \
        fields                                                                                                       \
    };
#include "protocol/wire/messages.def"
#undef MESSAGE
#undef FIELD

#define FIELD(type, name)
#define MESSAGE(id, name, fields) MESSAGE_ID_##name = id,
enum message_id {
#include "protocol/wire/messages.def"
    MESSAGE_ID_END
};
#undef MESSAGE
#undef FIELD

/* message_encode_hello(&hello, buffer, capacity, &n_out) and message_decode_hello(bytes, n, &hello), for every row.
 *
 *   owns    encode writes at most capacity bytes; decode borrows the bytes
 *   errors  encode STATUS_BUG the buffer is too small · decode STATUS_PEER short, long, or trailing bytes: names the
 *           message and field
 */
#define FIELD(type, name)
#define MESSAGE(id, name, fields)                                                                                    \
    enum status message_encode_##name(const struct message_##name *message, void *buffer, size_t capacity,           \
                                      size_t *n_out);                                                                \
    enum status message_decode_##name(const void *bytes, size_t n_bytes, struct message_##name *out);
#include "protocol/wire/messages.def"
#undef MESSAGE
#undef FIELD

/* "hello"; "unknown" for other numbers. */
const char *message_name(unsigned id);

/* A span of a C string, without its NUL. */
struct message_span message_text(const char *text);

#endif
