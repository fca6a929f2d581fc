#include "protocol/transport/seal.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define MOST_BYTES 5000

static struct seal_secret secret_of(enum seal_cipher cipher)
{
    return (struct seal_secret){.cipher = cipher, .token = TOKEN, .session = {1, 2, 3}, .attempt = 7};
}

static struct seal_message message_of(uint64_t sequence)
{
    return (struct seal_message){.to = 3, .sequence = sequence, .beside = "head", .n_beside = 4};
}

static bool is_here(enum seal_cipher cipher)
{
    return (seal_ciphers() >> cipher & 1) != 0;
}

static void pattern(uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)(i * 37 + i / 256);
    }
}

Test(seal, bytes_sealed_by_a_key_are_opened_by_the_same_one_in_place_and_beside)
{
    uint8_t plain[MOST_BYTES], sealed[MOST_BYTES], opened[MOST_BYTES], tag[SEAL_TAG_BYTES];
    pattern(plain, sizeof plain);
    for (int cipher = SEAL_NONE + 1; cipher < SEAL_N; cipher++) {
        if (!is_here((enum seal_cipher)cipher)) {
            continue;
        }
        struct seal_secret secret = secret_of((enum seal_cipher)cipher);
        struct seal_key *key = seal_key_make(&secret, SEAL_MESSAGES, 5);
        const size_t sizes[] = {0, 1, 15, 16, 17, 4096, MOST_BYTES};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const struct seal_message message = message_of(i);
            size_t n = sizes[i];
            seal_close(key, &message, plain, n, sealed, tag);
            cr_assert(n < 16 || memcmp(sealed, plain, n) != 0);
            memset(opened, 0, sizeof opened);
            cr_assert(seal_open(key, &message, sealed, n, tag, opened));
            cr_assert_eq(memcmp(opened, plain, n), 0);
            cr_assert(seal_open(key, &message, sealed, n, tag, sealed), "in place");
            cr_assert_eq(memcmp(sealed, plain, n), 0);
        }
        const struct seal_message empty = message_of(100);
        seal_close(key, &empty, NULL, 0, NULL, tag);
        cr_assert(seal_open(key, &empty, NULL, 0, tag, NULL), "what is beside alone");
        seal_key_free(key);
    }
}

Test(seal, a_change_of_any_byte_is_found)
{
    for (int cipher = SEAL_NONE + 1; cipher < SEAL_N; cipher++) {
        if (!is_here((enum seal_cipher)cipher)) {
            continue;
        }
        struct seal_secret secret = secret_of((enum seal_cipher)cipher);
        struct seal_key *key = seal_key_make(&secret, SEAL_MESSAGES, 5);
        uint8_t plain[40], sealed[40], opened[40], tag[SEAL_TAG_BYTES], head[4] = "head";
        pattern(plain, sizeof plain);
        struct seal_message message = {.to = 3, .sequence = 9, .beside = head, .n_beside = sizeof head};
        seal_close(key, &message, plain, sizeof plain, sealed, tag);
        uint8_t *const parts[] = {sealed, tag, head};
        const size_t sizes[] = {sizeof sealed, sizeof tag, sizeof head};
        for (int p = 0; p < 3; p++) {
            for (size_t i = 0; i < 8 * sizes[p]; i++) {
                parts[p][i / 8] ^= (uint8_t)(1 << i % 8);
                cr_assert_not(seal_open(key, &message, sealed, sizeof sealed, tag, opened), "part %d, bit %zu", p, i);
                parts[p][i / 8] ^= (uint8_t)(1 << i % 8);
            }
        }
        cr_assert_not(seal_open(key, &message, sealed, sizeof sealed - 1, tag, opened), "a byte less");
        message.sequence++;
        cr_assert_not(seal_open(key, &message, sealed, sizeof sealed, tag, opened), "as another number");
        message.sequence--, message.to++;
        cr_assert_not(seal_open(key, &message, sealed, sizeof sealed, tag, opened), "by another receiver");
        message.to--;
        cr_assert(seal_open(key, &message, sealed, sizeof sealed, tag, opened));
        seal_key_free(key);
    }
}

Test(seal, keys_differ_by_token_session_attempt_purpose_sender_and_cipher)
{
    uint8_t plain[32] = {0}, first[32], sealed[32], tag[SEAL_TAG_BYTES];
    const struct seal_message message = message_of(0);
    for (int change = 0; change < 7; change++) {
        struct seal_secret secret = secret_of(SEAL_CHACHA20POLY1305);
        secret.token = change == 1 ? "another" : secret.token;
        secret.session[31] = change == 2;
        secret.attempt += change == 3;
        struct seal_key *key = seal_key_make(&secret, change == 4 ? SEAL_TO_WORKER : SEAL_MESSAGES,
                                             change == 5 ? 6 : 5);
        seal_close(key, &message, plain, sizeof plain, change == 0 ? first : sealed, tag);
        cr_assert(change == 0 || (memcmp(first, sealed, sizeof first) == 0) == (change == 6), "change %d", change);
        seal_key_free(key);
    }
}

Test(seal, the_fastest_cipher_that_all_have_is_chosen)
{
    cr_assert_eq(seal_cipher_choose(1u << SEAL_AES256GCM | 1u << SEAL_CHACHA20POLY1305), SEAL_AES256GCM);
    cr_assert_eq(seal_cipher_choose(1u << SEAL_CHACHA20POLY1305), SEAL_CHACHA20POLY1305);
    cr_assert_eq(seal_cipher_choose(0), SEAL_NONE);
    cr_assert_eq(seal_cipher_choose(1u << SEAL_NONE | 1u << SEAL_N), SEAL_NONE, "of others none");
    cr_assert(is_here(SEAL_CHACHA20POLY1305));
}

Test(seal, each_number_is_admitted_once_and_late_by_less_than_the_window)
{
    struct seal_window window = {0};
    cr_assert(seal_window_admit(&window, 5));
    cr_assert_not(seal_window_admit(&window, 5));
    cr_assert(seal_window_admit(&window, 0), "overtaken");
    cr_assert_not(seal_window_admit(&window, 0));
    cr_assert(seal_window_admit(&window, SEAL_WINDOW + 4));
    cr_assert_not(seal_window_admit(&window, 4), "too late");
    cr_assert_not(seal_window_admit(&window, 5), "it came, and is just within the window");
    cr_assert(seal_window_admit(&window, 6));
    cr_assert(seal_window_admit(&window, 1000000));
    cr_assert_not(seal_window_admit(&window, SEAL_WINDOW + 5));
    cr_assert(seal_window_admit(&window, 1000000 - SEAL_WINDOW + 1));
    cr_assert_not(seal_window_admit(&window, UINT64_MAX));
    cr_assert(seal_window_admit(&window, UINT64_MAX - 1), "however far ahead");
    cr_assert_not(seal_window_admit(&window, UINT64_MAX - 1));
}

/* Against a list of all that came. */
Test(seal, the_window_is_that_of_a_list_for_any_order)
{
    enum { N = 20000 };
    struct seal_window window = {0};
    bool *came = calloc(N, sizeof *came);
    uint64_t end = 0;
    uint32_t x = 1;
    for (int i = 0; i < 60000; i++) {
        x = x * 1664525u + 1013904223u;
        uint64_t at = (uint64_t)(i / 4) + (x >> 16) % 3000;
        bool fresh = at < N && !came[at] && (at >= end || end - at <= SEAL_WINDOW);
        if (at >= N) {
            continue;
        }
        cr_assert_eq(seal_window_admit(&window, at), fresh, "%llu behind %llu", (unsigned long long)at,
                     (unsigned long long)end);
        came[at] = came[at] || fresh;
        end = at + 1 > end ? at + 1 : end;
    }
    free(came);
}
