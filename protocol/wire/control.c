#include "protocol/wire/control.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "protocol/files/bytes.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_LEAST 4096

void control_head(void *frame, unsigned id, size_t n_body)
{
    struct bytes_writer head = {.to = frame, .capacity = CONTROL_HEAD_BYTES};
    bytes_write_number(&head, n_body, 4);
    bytes_write_number(&head, id, 2);
}

unsigned control_id(const void *frame)
{
    struct bytes_reader head = {.from = frame, .n = CONTROL_HEAD_BYTES};
    bytes_read_number(&head, 4, "length");
    return (unsigned)bytes_read_number(&head, 2, "id");
}

#define SIZE_u8(field) 1
#define SIZE_u32(field) 4
#define SIZE_u64(field) 8
#define SIZE_i32(field) 4
#define SIZE_f64(field) 8
#define SIZE_text(field) (4 + (size_t)message->field.n_bytes)
#define SIZE_bytes(field) SIZE_text(field)

#define FIELD(type, field) +SIZE_##type(field)
#define MESSAGE(id, name, fields)                                                                                    \
    void *control_frame_##name(const struct message_##name *message, size_t *n_out)                                  \
    {                                                                                                                \
        const size_t n_body = 0 fields;                                                                              \
        size_t n;                                                                                                    \
        uint8_t *frame = memory_alloc(CONTROL_HEAD_BYTES + n_body, 1);                                               \
        control_head(frame, id, n_body);                                                                             \
        ASSERT(message_encode_##name(message, frame + CONTROL_HEAD_BYTES, n_body, &n) == STATUS_OK);                 \
        *n_out = CONTROL_HEAD_BYTES + n;                                                                             \
        return frame;                                                                                                \
    }
#include "protocol/wire/messages.def"
#undef MESSAGE
#undef FIELD

void control_decoder_init(struct control_decoder *decoder, uint32_t n_most)
{
    *decoder = (struct control_decoder){.n_most = n_most};
}

void control_decoder_release(struct control_decoder *decoder)
{
    free(decoder->bytes);
    decoder->bytes = NULL;
}

void *control_decoder_buffer(struct control_decoder *decoder, size_t *n_out)
{
    if (decoder->from > 0) {
        memmove(decoder->bytes, decoder->bytes + decoder->from, decoder->to - decoder->from);
        decoder->to -= decoder->from;
        decoder->from = 0;
    }
    /* Grown only when it is full of bytes that came: a length alone reserves nothing. */
    if (decoder->to == decoder->capacity) {
        decoder->capacity = decoder->capacity == 0 ? ROOM_LEAST : 2 * decoder->capacity;
        decoder->bytes = memory_grow(decoder->bytes, decoder->capacity);
    }
    *n_out = decoder->capacity - decoder->to;
    return decoder->bytes + decoder->to;
}

void control_decoder_fill(struct control_decoder *decoder, size_t n)
{
    ASSERT(n <= decoder->capacity - decoder->to);
    decoder->to += n;
}

enum status control_decoder_next(struct control_decoder *decoder, struct control_frame *out, bool *whole_out)
{
    *whole_out = false;
    size_t n = decoder->to - decoder->from;
    if (n < CONTROL_HEAD_BYTES) {
        return STATUS_OK;
    }
    struct bytes_reader head = {.from = decoder->bytes + decoder->from, .n = CONTROL_HEAD_BYTES};
    uint32_t n_body = (uint32_t)bytes_read_number(&head, 4, "length");
    unsigned id = (unsigned)bytes_read_number(&head, 2, "id");
    if (n_body > decoder->n_most) {
        return status_fail(STATUS_PEER, "a frame of %u bytes came over the control socket, expected at most %u",
                           n_body, decoder->n_most);
    }
    if (n - CONTROL_HEAD_BYTES < n_body) {
        return STATUS_OK;
    }
    *out = (struct control_frame){id, decoder->bytes + decoder->from + CONTROL_HEAD_BYTES, n_body};
    decoder->from += CONTROL_HEAD_BYTES + n_body;
    *whole_out = true;
    return STATUS_OK;
}
