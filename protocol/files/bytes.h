/* Fields written to and read from bounded bytes, little-endian, one after another.
 *
 * Neither side can leave its bounds. A full writer and a reader without enough bytes record that and do nothing more,
 * so that a caller checks once, at the end. Independent of the fields' meaning.
 */
#ifndef PROTOCOL_BYTES_H
#define PROTOCOL_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes_writer {
    uint8_t *to;
    size_t capacity;
    size_t at; /* bytes written */
    bool full; /* something did not fit */
};

struct bytes_reader {
    const uint8_t *from;
    size_t n;
    size_t at;            /* bytes read */
    const char *short_of; /* the first incomplete field; NULL: all were complete */
};

/* Append the low n_bytes of value (1, 2, 4 or 8) / n bytes as they are. */
void bytes_write_number(struct bytes_writer *writer, uint64_t value, size_t n_bytes);
void bytes_write(struct bytes_writer *writer, const void *bytes, size_t n);

/* The next n_bytes as a number, 0 when they are not there / the next n bytes in place, NULL when they are not there.
 * `field` (borrowed) is then in short_of. */
uint64_t bytes_read_number(struct bytes_reader *reader, size_t n_bytes, const char *field);
const void *bytes_read(struct bytes_reader *reader, size_t n, const char *field);

#endif
