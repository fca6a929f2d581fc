#include "protocol/wire/message.h"
#include "tests/support/process/expect.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static size_t encoded_hello(uint8_t *room, size_t capacity)
{
    struct message_hello hello = {
        .version = MESSAGE_VERSION,
        .nonce = message_text("0123456789abcdef"),
        .host = message_text("node-7"),
        .at = message_text("10.0.0.1"),
        .pid = 4711,
        .n_core = 96,
        .address = {"\x00\xff\x10", 3},
    };
    size_t n;
    cr_assert_eq(message_encode_hello(&hello, room, capacity, &n), STATUS_OK);
    return n;
}

static size_t encoded_report(uint8_t *room, size_t capacity)
{
    struct message_report report = {
        .epoch = 12,
        .loss = -0.125,
        .scores = {"12345678", 8},
        .compute_s = 1e-300,
        .pack_s = 0.5,
        .wait_s = 0.0,
        .bytes_sent = UINT64_MAX,
        .bytes_received = 1,
        .n_call = 0,
        .epoch_s = 3.5,
        .evaluate_s = 0.75,
    };
    size_t n;
    cr_assert_eq(message_encode_report(&report, room, capacity, &n), STATUS_OK);
    return n;
}

Test(message, every_field_comes_back_as_it_was_sent)
{
    uint8_t room[256];
    struct message_hello hello;
    cr_assert_eq(message_decode_hello(room, encoded_hello(room, sizeof room), &hello), STATUS_OK);
    cr_assert_eq(hello.version, MESSAGE_VERSION);
    cr_assert_eq(hello.nonce.n_bytes, 16u);
    cr_assert_eq(memcmp(hello.nonce.at, "0123456789abcdef", 16), 0);
    cr_assert_eq(memcmp(hello.host.at, "node-7", 6), 0);
    cr_assert_eq(hello.namespaces.n_bytes, 0u);
    cr_assert_eq(memcmp(hello.at.at, "10.0.0.1", 8), 0);
    cr_assert_eq(hello.pid, 4711u);
    cr_assert_eq(hello.n_core, 96u);
    cr_assert_eq(hello.address.n_bytes, 3u);
    cr_assert_eq(memcmp(hello.address.at, "\x00\xff\x10", 3), 0);

    struct message_report report;
    cr_assert_eq(message_decode_report(room, encoded_report(room, sizeof room), &report), STATUS_OK);
    cr_assert_eq(report.epoch, 12u);
    cr_assert_eq(report.loss, -0.125);
    cr_assert_eq(report.compute_s, 1e-300);
    cr_assert_eq(report.pack_s, 0.5);
    cr_assert_eq(report.bytes_sent, UINT64_MAX);
    cr_assert_eq(report.epoch_s, 3.5);
    cr_assert_eq(report.evaluate_s, 0.75);
}

Test(message, numbers_are_little_endian_on_the_wire)
{
    uint8_t room[16];
    size_t n;
    struct message_failed failed = {.status = -5, .reason = message_text("x")};
    cr_assert_eq(message_encode_failed(&failed, room, sizeof room, &n), STATUS_OK);
    cr_assert_eq(n, 9u);
    cr_assert_eq(memcmp(room, "\xfb\xff\xff\xff\x01\x00\x00\x00x", 9), 0);
    cr_assert_eq(message_decode_failed(room, n, &failed), STATUS_OK);
    cr_assert_eq(failed.status, -5);
}

Test(message, a_message_cut_anywhere_is_refused_with_its_name_and_a_field)
{
    uint8_t room[256];
    size_t n = encoded_hello(room, sizeof room);
    for (size_t cut = 0; cut < n; cut++) {
        uint8_t *exact = malloc(cut + 1); /* so that a sanitizer sees one byte too far */
        memcpy(exact + 1, room, cut);
        struct message_hello hello;
        cr_assert_eq(message_decode_hello(exact + 1, cut, &hello), STATUS_PEER, "cut at %zu", cut);
        expect_reason("message 'hello'");
        expect_reason("ends inside field '");
        free(exact);
    }
    n = encoded_report(room, sizeof room);
    for (size_t cut = 0; cut < n; cut++) {
        struct message_report report;
        cr_assert_eq(message_decode_report(room, cut, &report), STATUS_PEER, "cut at %zu", cut);
    }
}

Test(message, the_field_that_is_cut_is_named)
{
    uint8_t room[256];
    struct message_hello hello;
    expect_fails(message_decode_hello(room, encoded_hello(room, sizeof room) - 1, &hello), STATUS_PEER, "'proof'");
    expect_fails(message_decode_hello(room, 3, &hello), STATUS_PEER, "'version'");
}

Test(message, a_length_beyond_the_message_is_refused)
{
    uint8_t room[256];
    size_t n = encoded_hello(room, sizeof room);
    memset(room + 4, 0xff, 4); /* nonce: 4 GiB - 1 bytes */
    struct message_hello hello;
    expect_fails(message_decode_hello(room, n, &hello), STATUS_PEER, "'nonce'");
}

Test(message, bytes_behind_the_last_field_are_refused)
{
    uint8_t room[256] = {0};
    size_t n = encoded_hello(room, sizeof room);
    struct message_hello hello;
    expect_fails(message_decode_hello(room, n + 2, &hello), STATUS_PEER, "2 bytes behind its last field");
}

Test(message, an_encoder_without_room_writes_nothing_beyond_it)
{
    uint8_t whole[256];
    size_t n_statistics = encoded_hello(whole, sizeof whole);
    struct message_hello hello;
    cr_assert_eq(message_decode_hello(whole, n_statistics, &hello), STATUS_OK);
    for (size_t capacity = 0; capacity < n_statistics; capacity++) {
        uint8_t room[256];
        memset(room, 0xa5, sizeof room);
        size_t n;
        cr_assert_eq(message_encode_hello(&hello, room, capacity, &n), STATUS_BUG);
        for (size_t i = capacity; i < sizeof room; i++) {
            cr_assert_eq(room[i], 0xa5, "room of %zu, byte %zu", capacity, i);
        }
    }
}

Test(message, names_follow_ids)
{
    cr_assert_str_eq(message_name(MESSAGE_ID_hello), "hello");
    cr_assert_str_eq(message_name(MESSAGE_ID_keep_best), "keep_best");
    cr_assert_str_eq(message_name(0), "unknown");
    cr_assert_str_eq(message_name(65535), "unknown");
}
