#include "trainerd/socket/frame.h"

#include "protocol/base/memory.h"
#include "protocol/base/version.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 4096u

void frame_reader_init(struct frame_reader *reader, size_t n_most)
{
    *reader = (struct frame_reader){.n_most = n_most};
}

void frame_reader_release(struct frame_reader *reader)
{
    free(reader->bytes);
    *reader = (struct frame_reader){.n_most = reader->n_most};
}

/* Move the unread bytes to the front; an idle connection has no buffer. */
static void tidy(struct frame_reader *reader)
{
    size_t n = reader->to - reader->from;
    if (n == 0) {
        frame_reader_release(reader);
    } else if (reader->from > 0) {
        memmove(reader->bytes, reader->bytes + reader->from, n);
        reader->from = 0;
        reader->to = n;
    }
}

char *frame_reader_buffer(struct frame_reader *reader, size_t *n_out)
{
    tidy(reader);
    size_t n_full = reader->n_most + 1; /* a line and its end */
    if (reader->to == reader->capacity && reader->capacity < n_full) {
        size_t capacity = reader->capacity == 0 ? FIRST_BYTES : 2 * reader->capacity;
        capacity = capacity < n_full ? capacity : n_full;
        reader->bytes = memory_grow(reader->bytes, capacity);
        reader->capacity = capacity;
    }
    *n_out = reader->capacity - reader->to;
    return reader->bytes + reader->to;
}

void frame_reader_fill(struct frame_reader *reader, size_t n)
{
    reader->to += n;
}

enum status frame_reader_next(struct frame_reader *reader, const char **line_out, size_t *n_out, bool *whole_out)
{
    size_t n = reader->to - reader->from;
    char *begin = n > 0 ? reader->bytes + reader->from : NULL;
    char *end = n > reader->n_scanned ? memchr(begin + reader->n_scanned, '\n', n - reader->n_scanned) : NULL;
    *whole_out = end != NULL;
    size_t n_line = end != NULL ? (size_t)(end - begin) : n;
    if (n_line > reader->n_most) {
        return status_fail(STATUS_USAGE, "the request is longer than %zu bytes, the most that is accepted",
                           reader->n_most);
    }
    if (end == NULL) {
        reader->n_scanned = n;
        return STATUS_OK;
    }
    *line_out = begin;
    *n_out = n_line > 0 && begin[n_line - 1] == '\r' ? n_line - 1 : n_line;
    reader->from += n_line + 1;
    reader->n_scanned = 0;
    return STATUS_OK;
}

/* The parser recurses into nested values and allocates every value: both numbers are bounded before. */
static enum status check_size(const char *line, size_t n)
{
    size_t depth = 0, n_value = 1;
    bool is_text = false;
    for (size_t i = 0; i < n; i++) {
        char c = line[i];
        if (is_text) {
            i += c == '\\';
            is_text = c != '"';
        } else if (c == '"') {
            is_text = true;
        } else if (c == '{' || c == '[') {
            if (++depth > FRAME_DEPTH_MOST) {
                return status_fail(STATUS_USAGE, "the request is nested more than %d deep at byte %zu",
                                   FRAME_DEPTH_MOST, i + 1);
            }
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        } else if (c == ',' && ++n_value > FRAME_VALUES_MOST) {
            return status_fail(STATUS_USAGE, "the request has more than %d values at byte %zu", FRAME_VALUES_MOST,
                               i + 1);
        }
    }
    return STATUS_OK;
}

/* An id is short, since every line of an answer repeats it. */
static enum status check_head(json_t **request)
{
    const json_t *id = json_object_get(*request, "id"), *version = json_object_get(*request, "v");
    bool is_short = id == NULL || json_is_null(id) || json_is_number(id) ||
                    (json_is_string(id) && json_string_length(id) <= FRAME_ID_MOST);
    if (!is_short) {
        json_object_del(*request, "id");
        return status_fail(STATUS_USAGE, "id is neither a number nor a text of at most %d bytes", FRAME_ID_MOST);
    }
    if (!json_is_integer(version)) {
        return status_fail(STATUS_USAGE, "the request has no version, expected \"v\":%d", CLIENT_PROTOCOL_VERSION);
    }
    if (json_integer_value(version) != CLIENT_PROTOCOL_VERSION) {
        return status_fail(
            STATUS_USAGE,
            "the client speaks version %lld of the protocol, this daemon version %d: use the trainctl or the "
            "Python package of trainerd " TRAINERD_VERSION,
            (long long)json_integer_value(version), CLIENT_PROTOCOL_VERSION);
    }
    return STATUS_OK;
}

enum status frame_parse(const char *line, size_t n, json_t **out)
{
    *out = NULL;
    enum status status = check_size(line, n);
    if (status != STATUS_OK) {
        return status;
    }
    json_error_t error;
    json_t *value = json_loadb(line, n, JSON_REJECT_DUPLICATES, &error);
    if (value == NULL) {
        return status_fail(STATUS_USAGE, "the request is not JSON at byte %d: %s", error.position, error.text);
    }
    if (!json_is_object(value)) {
        json_decref(value);
        return status_fail(STATUS_USAGE, "the request is not an object, expected {\"v\":1,\"id\":1,\"cmd\":\"…\"}");
    }
    *out = value;
    return check_head(out);
}
