#include "protocol/base/memory.h"
#include "protocol/wire/control_seal.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const struct seal_secret secret = {
    .cipher = SEAL_CHACHA20POLY1305, .token = "token", .session = {9}, .attempt = 1};

/* The two ends of worker 2's socket. */
struct ends {
    struct control_seal worker, coordinator;
};

static struct ends ends_make(void)
{
    struct ends ends = {0};
    control_seal_start(&ends.worker, &secret, 2, true);
    control_seal_start(&ends.coordinator, &secret, 2, false);
    return ends;
}

static void ends_release(struct ends *ends)
{
    control_seal_release(&ends->worker);
    control_seal_release(&ends->coordinator);
}

/* A sealed heartbeat of epoch `epoch`. owns  the caller frees it */
static uint8_t *beat(struct control_seal *from, uint32_t epoch, size_t *n_out)
{
    const struct message_heartbeat message = {.epoch = epoch, .step = 3};
    uint8_t *frame = control_frame_heartbeat(&message, n_out);
    frame = memory_grow(frame, *n_out + SEAL_TAG_BYTES);
    *n_out = control_seal_frame(from, frame, *n_out);
    return frame;
}

/* Decode and open one frame; -1: refused, else its epoch. */
static int64_t take(struct control_seal *to, const uint8_t *bytes, size_t n)
{
    struct control_decoder decoder;
    struct control_frame frame;
    struct message_heartbeat message;
    size_t capacity;
    bool whole;
    control_decoder_init(&decoder, MESSAGE_FRAME_MOST_BYTES);
    memcpy(control_decoder_buffer(&decoder, &capacity), bytes, n);
    control_decoder_fill(&decoder, n);
    int64_t epoch = -1;
    if (control_decoder_next(&decoder, &frame, &whole) == STATUS_OK && whole &&
        control_seal_take(to, &frame) == STATUS_OK) {
        cr_assert_eq(message_decode_heartbeat(frame.body, frame.n_bytes, &message), STATUS_OK, "%s", status_reason());
        epoch = message.epoch;
    }
    control_decoder_release(&decoder);
    return epoch;
}

Test(control_seal, frames_are_opened_in_the_order_in_which_they_were_sealed)
{
    struct ends ends = ends_make();
    for (uint32_t epoch = 0; epoch < 5; epoch++) {
        size_t n;
        uint8_t *frame = beat(&ends.worker, epoch, &n);
        cr_assert_eq(n, CONTROL_HEAD_BYTES + 8 + SEAL_TAG_BYTES);
        cr_assert_eq(take(&ends.coordinator, frame, n), epoch);
        free(frame);
        frame = beat(&ends.coordinator, epoch + 100, &n);
        cr_assert_eq(take(&ends.worker, frame, n), epoch + 100);
        free(frame);
    }
    ends_release(&ends);
}

Test(control_seal, a_frame_that_is_changed_left_out_sent_again_or_sent_back_is_refused)
{
    struct ends ends = ends_make();
    size_t n;
    uint8_t *first = beat(&ends.worker, 1, &n), *second = beat(&ends.worker, 2, &n);
    for (size_t i = 4; i < n; i++) { /* lengths are seen by the decoder */
        first[i] ^= 1;
        cr_assert_eq(take(&ends.coordinator, first, n), -1, "byte %zu", i);
        first[i] ^= 1;
    }
    cr_assert_eq(take(&ends.coordinator, second, n), -1, "the first is left out");
    cr_assert_eq(take(&ends.worker, first, n), -1, "to its own sender");
    cr_assert_eq(take(&ends.coordinator, first, n), 1);
    cr_assert_eq(take(&ends.coordinator, first, n), -1, "again");
    cr_assert_eq(take(&ends.coordinator, second, n), 2);
    free(first);
    free(second);
    ends_release(&ends);
}

Test(control_seal, plain_and_short_frames_are_refused_where_frames_are_sealed)
{
    struct ends ends = ends_make();
    struct control_seal plain = {0};
    size_t n;
    uint8_t *frame = beat(&plain, 1, &n);
    cr_assert_eq(n, CONTROL_HEAD_BYTES + 8);
    cr_assert_eq(take(&ends.coordinator, frame, n), -1);
    cr_assert(strstr(status_reason(), "is not sealed") != NULL, "%s", status_reason());
    cr_assert_eq(take(&plain, frame, n), 1, "and taken where they are plain");
    free(frame);
    ends_release(&ends);
}
