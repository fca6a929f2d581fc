#include "tests/support/control_feed.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* Two frames, one behind the other. */
static uint8_t *two_frames(size_t *n_out)
{
    struct message_heartbeat beat = {.epoch = 12, .step = 34};
    struct message_failed failed = {.status = STATUS_NOMEM, .reason = message_text("too large")};
    size_t n_beat, n_failed;
    void *one = control_frame_heartbeat(&beat, &n_beat);
    void *other = control_frame_failed(&failed, &n_failed);
    uint8_t *both = malloc(n_beat + n_failed);
    memcpy(both, one, n_beat);
    memcpy(both + n_beat, other, n_failed);
    free(one);
    free(other);
    *n_out = n_beat + n_failed;
    return both;
}

static void check_two(const struct control_frame *frames)
{
    struct message_heartbeat beat;
    struct message_failed failed;
    cr_assert_eq(frames[0].id, MESSAGE_ID_heartbeat);
    cr_assert_eq(frames[1].id, MESSAGE_ID_failed);
    cr_assert_eq(message_decode_heartbeat(frames[0].body, frames[0].n_bytes, &beat), STATUS_OK);
    cr_assert_eq(beat.step, 34u);
    cr_assert_eq(message_decode_failed(frames[1].body, frames[1].n_bytes, &failed), STATUS_OK);
    cr_assert_eq(failed.status, STATUS_NOMEM);
    cr_assert_eq(memcmp(failed.reason.at, "too large", 9), 0);
}

Test(control, frames_come_out_as_they_went_in)
{
    struct control_decoder decoder;
    struct control_frame frames[2];
    bool whole;
    size_t n;
    uint8_t *both = two_frames(&n);
    control_decoder_init(&decoder, MESSAGE_FRAME_MOST_BYTES);
    feed(&decoder, both, n);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(control_decoder_next(&decoder, &frames[i], &whole), STATUS_OK);
        cr_assert(whole);
    }
    check_two(frames);
    struct control_frame none;
    cr_assert_eq(control_decoder_next(&decoder, &none, &whole), STATUS_OK);
    cr_assert_not(whole);
    control_decoder_release(&decoder);
    free(both);
}

Test(control, frames_come_out_whole_however_they_are_cut)
{
    size_t n;
    uint8_t *both = two_frames(&n);
    for (size_t cut = 0; cut <= n; cut++) {
        struct control_decoder decoder;
        int n_frame = 0;
        control_decoder_init(&decoder, MESSAGE_FRAME_MOST_BYTES);
        for (int half = 0; half < 2; half++) {
            feed(&decoder, half == 0 ? both : both + cut, half == 0 ? cut : n - cut);
            struct control_frame frame;
            bool whole = true;
            while (control_decoder_next(&decoder, &frame, &whole) == STATUS_OK && whole) {
                cr_assert_eq(frame.id, n_frame == 0 ? MESSAGE_ID_heartbeat : MESSAGE_ID_failed);
                n_frame++;
            }
        }
        cr_assert_eq(n_frame, 2, "cut at %zu", cut);
        control_decoder_release(&decoder);
    }
    free(both);
}

Test(control, a_length_beyond_the_limit_is_refused_with_both_numbers)
{
    struct control_decoder decoder;
    struct control_frame frame;
    bool whole;
    control_decoder_init(&decoder, 100);
    feed(&decoder, (const uint8_t *)"\x65\x00\x00\x00\x05\x00", 6);
    cr_assert_eq(control_decoder_next(&decoder, &frame, &whole), STATUS_PEER);
    cr_assert(strstr(status_reason(), "101 bytes") != NULL && strstr(status_reason(), "at most 100") != NULL, "%s",
              status_reason());
    control_decoder_release(&decoder);
}

Test(control, an_announced_length_reserves_nothing)
{
    struct control_decoder decoder;
    struct control_frame frame;
    bool whole;
    control_decoder_init(&decoder, MESSAGE_FRAME_MOST_BYTES);
    feed(&decoder, (const uint8_t *)"\x00\x00\x00\x01\x05\x00", 6); /* 16 MiB to come */
    cr_assert_eq(control_decoder_next(&decoder, &frame, &whole), STATUS_OK);
    cr_assert_not(whole);
    size_t capacity;
    control_decoder_buffer(&decoder, &capacity);
    cr_assert_leq(capacity, 4096u);
    static const uint8_t some[5000];
    feed(&decoder, some, sizeof some);
    control_decoder_buffer(&decoder, &capacity);
    cr_assert_leq(capacity, 8192u);
    control_decoder_release(&decoder);
}

Test(control, a_frame_larger_than_the_first_room_comes_out_whole)
{
    struct control_decoder decoder;
    struct control_frame frame;
    bool whole;
    uint8_t *address = malloc(100000);
    memset(address, 7, 100000);
    struct message_peer peer = {.rank = 3, .address = {address, 100000}};
    size_t n;
    uint8_t *bytes = control_frame_peer(&peer, &n);
    control_decoder_init(&decoder, MESSAGE_FRAME_MOST_BYTES);
    feed(&decoder, bytes, n);
    cr_assert_eq(control_decoder_next(&decoder, &frame, &whole), STATUS_OK);
    cr_assert(whole);
    cr_assert_eq(message_decode_peer(frame.body, frame.n_bytes, &peer), STATUS_OK);
    cr_assert_eq(peer.address.n_bytes, 100000u);
    cr_assert_eq(memcmp(peer.address.at, address, 100000), 0);
    control_decoder_release(&decoder);
    free(bytes);
    free(address);
}
