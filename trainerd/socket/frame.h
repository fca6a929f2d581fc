/* Bytes to requests: lines up to a limit, and their JSON objects, bounded in depth and values before they are parsed.
 *
 * The first code that sees bytes of unauthenticated clients. Knows no sockets and no commands.
 */
#ifndef TRAINERD_DAEMON_FRAME_H
#define TRAINERD_DAEMON_FRAME_H

#include "protocol/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define FRAME_DEPTH_MOST 16     /* objects and arrays inside each other */
#define FRAME_VALUES_MOST 10000 /* values of one request */
#define FRAME_ID_MOST 128       /* bytes of a text that is a request's id */

struct frame_reader {
    char *bytes;
    size_t capacity;
    size_t from, to;  /* bytes[from … to) are received and not consumed yet */
    size_t n_scanned; /* of these, so many have no newline */
    size_t n_most;    /* bytes of a line; may be changed between lines */
};

void frame_reader_init(struct frame_reader *reader, size_t n_most);
void frame_reader_release(struct frame_reader *reader);

/* The buffer for the next *n_out bytes (0: a line is ready or too long) / n were written. Invalidates lines. */
char *frame_reader_buffer(struct frame_reader *reader, size_t *n_out);
void frame_reader_fill(struct frame_reader *reader, size_t n);

/* Consume the next line, without its newline; *whole_out is false when it is not complete yet.
 *
 *   owns    *line_out points into the reader, until frame_reader_buffer
 *   errors  STATUS_USAGE it is longer than n_most: no later line can be read
 *   cost    each byte is scanned once, however many pieces it arrives in
 */
enum status frame_reader_next(struct frame_reader *reader, const char **line_out, size_t *n_out, bool *whole_out);

/* A line's request: an object without duplicate keys, of version 1, whose id is a number or a short text or missing.
 *
 *   owns    *out: json_decref. NULL unless the line is an object; also set for a bad request, whose answer needs its
 *           id
 *   errors  STATUS_USAGE what is wrong, and at which byte
 */
enum status frame_parse(const char *line, size_t n, json_t **out);

#endif
