/* Any bytes from a control socket, in two pieces: frames lie inside the bytes received, and their messages are refused or decoded. */
#include "protocol/base/log.h"
#include "tests/support/control_feed.h"

#define N_MOST 5000u

static bool frames_take(struct control_decoder *decoder)
{
    struct control_frame frame;
    bool whole;
    while (control_decoder_next(decoder, &frame, &whole) == STATUS_OK) {
        if (!whole) {
            return true;
        }
        ASSERT(frame.n_bytes <= N_MOST);
        switch (frame.id) {
#define FIELD(type, field)
#define MESSAGE(number, name, fields)                                                                                \
    case number: {                                                                                                   \
        struct message_##name message;                                                                               \
        message_decode_##name(frame.body, frame.n_bytes, &message);                                                  \
        break;                                                                                                       \
    }
#include "protocol/wire/messages.def"
#undef MESSAGE
#undef FIELD
        default:
            break;
        }
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct control_decoder decoder;
    control_decoder_init(&decoder, N_MOST);
    size_t cut = n > 0 ? bytes[0] % n : 0;
    feed(&decoder, bytes, cut);
    if (frames_take(&decoder)) {
        feed(&decoder, bytes + cut, n - cut);
        frames_take(&decoder);
    }
    ASSERT(decoder.from <= decoder.to && decoder.to <= decoder.capacity);
    control_decoder_release(&decoder);
    return 0;
}
