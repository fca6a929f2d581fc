/* Requests out of bytes: lines up to a limit, and the JSON object of a line, bounded in depth and number before it is
 * parsed.
 *
 * What a stranger sends is met here first. Knows no sockets and no commands.
 */
#ifndef TRAINERD_DAEMON_FRAME_H
#define TRAINERD_DAEMON_FRAME_H

#include "protocol/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define FRAME_DEPTH_MOST 16     /* objects and arrays inside each other */
#define FRAME_VALUES_MOST 10000 /* values of one request */
#define FRAME_ID_MOST 128       /* bytes of a text that is a request's id */

struct frame_reader {
    char *bytes;
    size_t capacity;
    size_t from, to;  /* bytes[from … to) came and were not taken yet */
    size_t n_scanned; /* of these, so many hold no end of a line */
    size_t n_most;    /* bytes of a line; may be changed between lines */
};

void frame_reader_init(struct frame_reader *reader, size_t n_most);
void frame_reader_release(struct frame_reader *reader);

/* Where the next bytes may be written, and how many (at least one, unless a line waits to be taken or is too long) /
 * that n of them were written. Invalidates lines. */
char *frame_reader_buffer(struct frame_reader *reader, size_t *n_out);
void frame_reader_fill(struct frame_reader *reader, size_t n);

/* Take the next line, without its end; *whole_out is false when it has not all come yet.
 *
 *   owns    *line_out points into the reader, until frame_reader_buffer
 *   errors  STATUS_USAGE it is longer than n_most: nothing behind it can be read
 *   cost    each byte is looked at once, in however many pieces it comes
 */
enum status frame_reader_next(struct frame_reader *reader, const char **line_out, size_t *n_out, bool *whole_out);

/* A line's request: an object without duplicate keys, of version 1, whose id is a number or a short text or missing.
 *
 *   owns    *out: json_decref. NULL unless the line is an object, also when something is wrong with it: its id can
 *           be told
 *   errors  STATUS_USAGE what is wrong, and at which byte
 */
enum status frame_parse(const char *line, size_t n, json_t **out);

#endif
