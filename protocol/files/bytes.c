#include "protocol/files/bytes.h"

#include <string.h>

void bytes_write_number(struct bytes_writer *writer, uint64_t value, size_t n_bytes)
{
    uint8_t little[8];
    for (size_t i = 0; i < n_bytes; i++) {
        little[i] = (uint8_t)(value >> (8 * i));
    }
    bytes_write(writer, little, n_bytes);
}

void bytes_write(struct bytes_writer *writer, const void *bytes, size_t n)
{
    if (writer->full || n > writer->capacity - writer->at) {
        writer->full = true;
        return;
    }
    if (n > 0) {
        memcpy(writer->to + writer->at, bytes, n);
    }
    writer->at += n;
}

uint64_t bytes_read_number(struct bytes_reader *reader, size_t n_bytes, const char *field)
{
    const uint8_t *little = bytes_read(reader, n_bytes, field);
    uint64_t value = 0;
    if (little == NULL) {
        return 0;
    }
    for (size_t i = 0; i < n_bytes; i++) {
        value |= (uint64_t)little[i] << (8 * i);
    }
    return value;
}

const void *bytes_read(struct bytes_reader *reader, size_t n, const char *field)
{
    if (reader->short_of != NULL || n > reader->n - reader->at) {
        if (reader->short_of == NULL) {
            reader->short_of = field;
        }
        return NULL;
    }
    const void *here = reader->from + reader->at;
    reader->at += n;
    return here;
}
