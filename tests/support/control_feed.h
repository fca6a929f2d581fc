/* Bytes from a control socket, as they fit the decoder's buffer. */
#ifndef TESTS_SUPPORT_CONTROL_FEED_H
#define TESTS_SUPPORT_CONTROL_FEED_H

#include "protocol/wire/control.h"

#include <string.h>

static inline void feed(struct control_decoder *decoder, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        size_t capacity;
        void *buffer = control_decoder_buffer(decoder, &capacity);
        size_t piece = n < capacity ? n : capacity;
        memcpy(buffer, bytes, piece);
        control_decoder_fill(decoder, piece);
        bytes += piece;
        n -= piece;
    }
}

#endif
