/* Any bytes to the receivers of sealed messages and frames, and any changes of a good one: what comes through is what its sender sealed, once.
 *
 * Input: a byte that chooses, then bytes that are taken as they are, or laid over a good message by exclusive or.
 */
#include "protocol/base/log.h"
#include "protocol/transport/transport_seal.h"
#include "protocol/wire/control_seal.h"

#include <string.h>

enum { ATTEMPT = 7, N_PEER = 3, SELF = 0, OTHER = 1, N_BODY = 40 };

static const uint8_t near[N_PEER] = {1, 0, 0};

static struct seal_secret secret_of(uint8_t choice)
{
    return (struct seal_secret){.cipher = (choice & 1) != 0 ? seal_cipher_choose(seal_ciphers())
                                                            : SEAL_CHACHA20POLY1305,
                                .token = "token",
                                .attempt = ATTEMPT};
}

static bool any(const uint8_t *bytes, size_t n)
{
    bool found = false;
    for (size_t i = 0; i < n; i++) {
        found = found || bytes[i] != 0;
    }
    return found;
}

static void lay_over(void *to, size_t n_to, const uint8_t **from, size_t *n_from)
{
    size_t n = *n_from < n_to ? *n_from : n_to;
    for (size_t i = 0; i < n; i++) {
        ((uint8_t *)to)[i] ^= (*from)[i];
    }
    *from += n;
    *n_from -= n;
}

static void message_try(uint8_t choice, const uint8_t *bytes, size_t n)
{
    static struct sealing *receivers[2], *senders[2];
    struct sealing **receiver = &receivers[choice & 1], **sender = &senders[choice & 1];
    const struct seal_secret secret = secret_of(choice);
    if (*receiver == NULL) {
        ASSERT(sealing_open(&secret, SELF, N_PEER, near, receiver) == STATUS_OK);
        ASSERT(sealing_open(&secret, OTHER, N_PEER, near, sender) == STATUS_OK);
    }
    struct sealed_head good = {.head = {.magic = TRANSPORT_MAGIC,
                                        .attempt = ATTEMPT,
                                        .sender = OTHER,
                                        .kind = TRANSPORT_KIND_PAYLOAD,
                                        .total = n}},
                       head;
    uint8_t plain[N_BODY] = {5}, body[N_BODY], out[N_BODY] = {0};
    uint8_t *buffer = sealing_buffer(*sender);
    sealing_close_message(*sender, SELF, &good, plain, sizeof plain, buffer);
    memcpy(body, buffer, sizeof body);
    sealing_buffer_return(*sender, buffer);
    bool is_fresh, changes_head = any(bytes, n < sizeof good ? n : sizeof good), raw = (choice & 2) != 0;
    if (raw) {
        if (sealing_read_head(*receiver, bytes, n, sizeof body, ATTEMPT, &head, &is_fresh) == STATUS_OK && is_fresh) {
            ASSERT(false); /* nobody who lacks the token makes a head */
        }
        return;
    }
    lay_over(&good, sizeof good, &bytes, &n);
    bool changes_body = any(bytes, n < sizeof body ? n : sizeof body);
    lay_over(body, sizeof body, &bytes, &n);
    enum status status = sealing_read_head(*receiver, &good, sizeof good, sizeof body, ATTEMPT, &head, &is_fresh);
    ASSERT((status == STATUS_OK && is_fresh) == !changes_head);
    if (status == STATUS_OK && is_fresh) {
        ASSERT((sealing_open_body(*receiver, &head, body, out) == STATUS_OK) == !changes_body);
        ASSERT(changes_body || memcmp(out, plain, sizeof out) == 0);
        ASSERT(sealing_read_head(*receiver, &good, sizeof good, sizeof body, ATTEMPT, &head, &is_fresh) ==
                   STATUS_OK &&
               !is_fresh);
    }
}

static void frame_try(uint8_t choice, const uint8_t *bytes, size_t n)
{
    const struct seal_secret secret = secret_of(choice);
    struct control_seal worker = {0}, coordinator = {0};
    uint8_t frame[CONTROL_HEAD_BYTES + 8 + SEAL_TAG_BYTES] = {0};
    control_seal_start(&worker, &secret, 1, true);
    control_seal_start(&coordinator, &secret, 1, false);
    control_head(frame, MESSAGE_ID_heartbeat, 8);
    size_t n_frame = control_seal_frame(&worker, frame, CONTROL_HEAD_BYTES + 8);
    ASSERT(n_frame == sizeof frame);
    uint8_t *body = frame + CONTROL_HEAD_BYTES;
    size_t n_body = n_frame - CONTROL_HEAD_BYTES;
    bool changes = any(bytes, n < n_body ? n : n_body);
    lay_over(body, n_body, &bytes, &n);
    struct control_frame came = {MESSAGE_ID_heartbeat, body, (uint32_t)(n_body - (n > 0 && n <= n_body ? n : 0))};
    changes = changes || came.n_bytes != n_body;
    ASSERT((control_seal_take(&coordinator, &came) == STATUS_OK) == !changes);
    ASSERT(changes || came.n_bytes == 8);
    control_seal_release(&worker);
    control_seal_release(&coordinator);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n > 0) {
        ((bytes[0] & 4) != 0 ? frame_try : message_try)(bytes[0], bytes + 1, n - 1);
    }
    return 0;
}
