/* Any bytes as any message: refused, or decoded to a message that encodes to the same bytes. The first byte selects the message. */
#include "protocol/base/log.h"
#include "protocol/wire/message.h"

#include <stdlib.h>
#include <string.h>

#define FIELD(type, name)
#define MESSAGE(id, name, fields)                                                                                    \
    static void try_##name(const uint8_t *bytes, size_t n, uint8_t *buffer)                                          \
    {                                                                                                                \
        struct message_##name message;                                                                               \
        size_t n_again;                                                                                              \
        if (message_decode_##name(bytes, n, &message) != STATUS_OK) {                                                \
            return;                                                                                                  \
        }                                                                                                            \
        ASSERT(message_encode_##name(&message, buffer, n, &n_again) == STATUS_OK);                                   \
        ASSERT(n_again == n && memcmp(buffer, bytes, n) == 0);                                                       \
    }
#include "protocol/wire/messages.def"
#undef MESSAGE

static void (*const tries[])(const uint8_t *, size_t, uint8_t *) = {
#define MESSAGE(id, name, fields) try_##name,
#include "protocol/wire/messages.def"
#undef MESSAGE
#undef FIELD
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n == 0) {
        return 0;
    }
    uint8_t *buffer = malloc(n);
    ASSERT(buffer != NULL);
    tries[bytes[0] % (sizeof tries / sizeof *tries)](bytes + 1, n - 1, buffer);
    free(buffer);
    return 0;
}
