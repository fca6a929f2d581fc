/* The text of a vertex program, and messages that point at a place in it. */
#ifndef PROTOCOL_VERTEX_SOURCE_H
#define PROTOCOL_VERTEX_SOURCE_H

#include "protocol/base/status.h"

#include <stddef.h>
#include <stdint.h>

#define VERTEX_TEXT_MOST (64 * 1024) /* bytes */
#define VERTEX_GRAMMAR "see docs/programs.md#grammar"

struct vertex_source {
    const char *origin; /* the file's name in messages */
    const char *text;   /* n bytes */
    int32_t n;
};

/* Bytes begin … end - 1 of the text. */
struct vertex_span {
    int32_t begin, end;
};

/* Fail with "ORIGIN:LINE:COLUMN: " and the sentence, then the line, then a caret below the span's first character.
 * Lines and columns count from 1, columns in characters.
 * errors  always STATUS_CONFIG */
enum status vertex_fail(const struct vertex_source *source, struct vertex_span at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The line of a byte, from 1. */
int vertex_line(const struct vertex_source *source, int32_t at);

/* A span's text for a message, in one line, cut to 40 characters. */
#define VERTEX_QUOTE_BYTES 176
void vertex_quote(const struct vertex_source *source, struct vertex_span at, char out[VERTEX_QUOTE_BYTES]);

#endif
