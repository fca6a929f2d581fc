/* Encoder, decoder and names, one function per row of messages.def; every field goes through
 * protocol/files/bytes.h. */
#include "protocol/wire/message.h"

#include "protocol/files/bytes.h"

#include <string.h>

static void write_u8(struct bytes_writer *to, uint8_t value)
{
    bytes_write_number(to, value, 1);
}
static void write_u32(struct bytes_writer *to, uint32_t value)
{
    bytes_write_number(to, value, 4);
}
static void write_u64(struct bytes_writer *to, uint64_t value)
{
    bytes_write_number(to, value, 8);
}
static void write_i32(struct bytes_writer *to, int32_t value)
{
    bytes_write_number(to, (uint32_t)value, 4);
}

static void write_f64(struct bytes_writer *to, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bytes_write_number(to, bits, 8);
}

static void write_bytes(struct bytes_writer *to, struct message_span span)
{
    bytes_write_number(to, span.n_bytes, 4);
    bytes_write(to, span.at, span.n_bytes);
}

static uint8_t read_u8(struct bytes_reader *from, const char *field)
{
    return (uint8_t)bytes_read_number(from, 1, field);
}
static uint32_t read_u32(struct bytes_reader *from, const char *field)
{
    return (uint32_t)bytes_read_number(from, 4, field);
}
static uint64_t read_u64(struct bytes_reader *from, const char *field)
{
    return bytes_read_number(from, 8, field);
}
static int32_t read_i32(struct bytes_reader *from, const char *field)
{
    return (int32_t)read_u32(from, field);
}

static double read_f64(struct bytes_reader *from, const char *field)
{
    uint64_t bits = bytes_read_number(from, 8, field);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static struct message_span read_bytes(struct bytes_reader *from, const char *field)
{
    struct message_span span = {NULL, read_u32(from, field)};
    span.at = bytes_read(from, span.n_bytes, field);
    if (span.at == NULL) {
        span.n_bytes = 0;
    }
    return span;
}

#define write_text write_bytes
#define read_text read_bytes

static enum status encode_end(const char *name, const struct bytes_writer *to, size_t *n_out)
{
    if (to->full) {
        return status_fail(STATUS_BUG, "message '%s' does not fit into %zu bytes", name, to->capacity);
    }
    *n_out = to->at;
    return STATUS_OK;
}

static enum status decode_end(const char *name, const struct bytes_reader *from)
{
    if (from->short_of != NULL) {
        return status_fail(STATUS_PEER, "message '%s' of %zu bytes ends inside field '%s'", name, from->n,
                           from->short_of);
    }
    if (from->at != from->n) {
        return status_fail(STATUS_PEER, "message '%s' of %zu bytes has %zu bytes behind its last field", name,
                           from->n, from->n - from->at);
    }
    return STATUS_OK;
}

#define FIELD(type, field) write_##type(&to, message->field);
#define MESSAGE(id, name, fields)                                                                                    \
    enum status message_encode_##name(const struct message_##name *message, void *buffer, size_t capacity,           \
                                      size_t *n_out)                                                                 \
    {                                                                                                                \
        struct bytes_writer to = {.to = buffer, .capacity = capacity};                                               \
        fields return encode_end(#name, &to, n_out);                                                                 \
    }
#include "protocol/wire/messages.def"
#undef MESSAGE
#undef FIELD

#define FIELD(type, field) out->field = read_##type(&from, #field);
#define MESSAGE(id, name, fields)                                                                                    \
    enum status message_decode_##name(const void *bytes, size_t n_bytes, struct message_##name *out)                 \
    {                                                                                                                \
        struct bytes_reader from = {.from = bytes, .n = n_bytes};                                                    \
        fields return decode_end(#name, &from);                                                                      \
    }
#include "protocol/wire/messages.def"
#undef MESSAGE
#undef FIELD

const char *message_name(unsigned id)
{
    switch (id) {
#define FIELD(type, field)
#define MESSAGE(id, name, fields)                                                                                    \
    case id:                                                                                                         \
        return #name;
#include "protocol/wire/messages.def"
#undef MESSAGE
#undef FIELD
    default:
        return "unknown";
    }
}

struct message_span message_text(const char *text)
{
    return (struct message_span){text, (uint32_t)strlen(text)};
}
