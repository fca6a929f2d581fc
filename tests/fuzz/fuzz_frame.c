/* Any bytes from a client, in two pieces: lines lie inside the bytes received, and their requests are refused, or in the table. */
#include "protocol/base/log.h"
#include "trainerd/socket/frame.h"
#include "trainerd/socket/requests.h"

#include <stdint.h>
#include <string.h>

#define N_MOST 5000u

/* Take all complete lines; false after an error, which ends the connection. */
static bool lines_take(struct frame_reader *reader)
{
    const char *line;
    size_t n;
    bool whole = true;
    while (frame_reader_next(reader, &line, &n, &whole) == STATUS_OK) {
        if (!whole) {
            return true;
        }
        ASSERT(n <= N_MOST);
        json_t *request;
        enum status status = frame_parse(line, n, &request);
        ASSERT(status != STATUS_OK || json_is_object(request));
        enum request which = REQUEST_N;
        ASSERT(status != STATUS_OK || request_check(request, &which) != STATUS_OK || which < REQUEST_N);
        json_decref(request);
    }
    return false;
}

static bool feed(struct frame_reader *reader, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        size_t capacity;
        char *buffer = frame_reader_buffer(reader, &capacity);
        size_t piece = n < capacity ? n : capacity;
        ASSERT(piece > 0);
        memcpy(buffer, bytes, piece);
        frame_reader_fill(reader, piece);
        bytes += piece;
        n -= piece;
        if (!lines_take(reader)) {
            return false;
        }
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct frame_reader reader;
    frame_reader_init(&reader, N_MOST);
    size_t cut = n > 0 ? bytes[0] % n : 0;
    if (feed(&reader, bytes, cut)) {
        feed(&reader, bytes + cut, n - cut);
    }
    ASSERT(reader.from <= reader.to && reader.to <= reader.capacity);
    frame_reader_release(&reader);
    return 0;
}
