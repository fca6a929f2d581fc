#include "protocol/vertex/source.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define QUOTE_MOST 40  /* characters of a quoted span */
#define LINE_MOST 110  /* of the shown line */
#define LINE_BEFORE 60 /* those before the caret, where the line is longer */

static bool is_character(char byte)
{
    return (byte & 0xC0) != 0x80;
}

/* A byte that can stand in a message's line. */
static char shown(char byte)
{
    return byte == '\t' || byte == '\r' || byte == '\n' ? ' ' : byte;
}

static int32_t line_begin(const struct vertex_source *source, int32_t at)
{
    while (at > 0 && source->text[at - 1] != '\n') {
        at--;
    }
    return at;
}

static int characters(const struct vertex_source *source, int32_t begin, int32_t end)
{
    int n = 0;
    for (int32_t i = begin; i < end; i++) {
        n += is_character(source->text[i]);
    }
    return n;
}

int vertex_line(const struct vertex_source *source, int32_t at)
{
    int line = 1;
    for (int32_t i = 0; i < at; i++) {
        line += source->text[i] == '\n';
    }
    return line;
}

void vertex_quote(const struct vertex_source *source, struct vertex_span at, char out[VERTEX_QUOTE_BYTES])
{
    size_t n = 0;
    int n_character = 0;
    bool gap = false;
    for (int32_t i = at.begin; i < at.end; i++) {
        char byte = shown(source->text[i]);
        bool begins = is_character(byte);
        if (byte == ' ' && gap) {
            continue; /* lines that are joined in brackets */
        }
        if (begins && n_character == QUOTE_MOST) {
            strcpy(out + n, "…");
            return;
        }
        n_character += begins;
        gap = byte == ' ';
        out[n++] = byte;
        if (n + sizeof "…" >= VERTEX_QUOTE_BYTES) {
            break;
        }
    }
    out[n] = '\0';
}

/* The line with the caret below its character `column`, from 0. A long line is cut around it. */
static void print_line(FILE *file, const struct vertex_source *source, int32_t begin, int column)
{
    int first = column > LINE_MOST - 4 ? column - LINE_BEFORE : 0, c = -1;
    fputs("\n    ", file);
    for (int32_t i = begin; i < source->n && source->text[i] != '\n'; i++) {
        c += is_character(source->text[i]);
        if (c >= first && c < first + LINE_MOST) {
            fputc(shown(source->text[i]), file);
        }
    }
    fprintf(file, "\n    %*s^", column - first, "");
}

enum status vertex_fail(const struct vertex_source *source, struct vertex_span at, const char *format, ...)
{
    char lines[STATUS_REASON_BYTES];
    int32_t begin = line_begin(source, at.begin);
    int column = characters(source, begin, at.begin);
    FILE *file = fmemopen(lines, sizeof lines, "w");
    if (file == NULL) {
        return status_fail(STATUS_NOMEM, "%s: no memory for a message", source->origin);
    }
    fprintf(file, "%.300s:%d:%d: ", source->origin, vertex_line(source, at.begin), column + 1);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    print_line(file, source, begin, column);
    fclose(file);
    lines[sizeof lines - 1] = '\0';
    return status_fail_lines(STATUS_CONFIG, lines);
}
