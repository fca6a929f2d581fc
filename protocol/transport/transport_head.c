#include "protocol/transport/transport_head.h"

#include "protocol/base/log.h"

#include <string.h>

_Static_assert(sizeof(struct transport_head) == 48, "the head is sent as it is in memory");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "heads are sent as they are in memory, little-endian");

enum status transport_head_read(const void *bytes, size_t n_bytes, const struct transport_reader *reader,
                                struct transport_head *out, bool *is_fresh_out)
{
    if (n_bytes != sizeof *out) {
        return status_fail(STATUS_PEER, "a message has a head of %zu bytes, expected %zu", n_bytes, sizeof *out);
    }
    memcpy(out, bytes, sizeof *out);
    if (out->magic != TRANSPORT_MAGIC) {
        return status_fail(STATUS_PEER, "a message starts with 0x%08x, expected 0x%08x", out->magic, TRANSPORT_MAGIC);
    }
    *is_fresh_out = out->attempt == reader->attempt;
    if (!*is_fresh_out) {
        log_debug("dropped a message of attempt %u in attempt %u", out->attempt, reader->attempt);
        return STATUS_OK;
    }
    if (out->sender >= reader->n_peer || out->sender == reader->self) {
        return status_fail(STATUS_PEER, "a message names peer %u as its sender, expected one of %u others",
                           out->sender, reader->n_peer - 1);
    }
    if (out->kind < TRANSPORT_KIND_COMMAND || out->kind > TRANSPORT_KIND_READ) {
        return status_fail(STATUS_PEER, "peer %u sent a message of kind %u, expected %u to %u", out->sender,
                           out->kind, TRANSPORT_KIND_COMMAND, TRANSPORT_KIND_READ);
    }
    return STATUS_OK;
}
