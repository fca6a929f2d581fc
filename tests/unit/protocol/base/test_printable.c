#include "protocol/base/printable.h"

#include <criterion/criterion.h>
#include <string.h>

static void becomes(const char *text, const char *expected)
{
    char out[256];
    printable_copy(text, out, sizeof out);
    cr_assert_str_eq(out, expected);
}

Test(printable, characters_of_one_to_four_bytes_stay)
{
    becomes("a~ \\ \xc3\xa9 \xe2\x82\xac \xf0\x9f\x8d\x87 \xf4\x8f\xbf\xbf",
            "a~ \\ \xc3\xa9 \xe2\x82\xac \xf0\x9f\x8d\x87 \xf4\x8f\xbf\xbf");
}

Test(printable, control_characters_of_both_sets_are_escaped)
{
    becomes("a\tb\x1b[2J\x7f", "a\\x09b\\x1b[2J\\x7f");
    becomes("\xc2\x9b"
            "2J \xc2\xa0",
            "\\xc2\\x9b"
            "2J \xc2\xa0");
}

Test(printable, characters_that_are_not_seen_or_turn_others_round_are_escaped)
{
    static const char *const not_seen[] = {
        "\xe2\x80\xaa",     "\xe2\x80\xae",     "\xe2\x81\xa6",
        "\xe2\x81\xa9",     "\xd8\x9c", /* U+202A, 202E, 2066, 2069, 061C: bidi */
        "\xe2\x80\x8b",     "\xe2\x80\x8d",     "\xe2\x80\x8f",
        "\xe2\x81\xa0",     "\xef\xbb\xbf", /* 200B, 200D, 200F, 2060, FEFF */
        "\xc2\xad",         "\xe1\xa0\x8e",     "\xe3\x85\xa4",
        "\xf3\xa0\x81\x81", "\xf0\x9d\x85\xb3", /* 00AD, 180E, 3164, E0041, 1D173 */
        "\xe2\x80\xa8",     "\xe2\x80\xa9",     "\xc2\x85",
        "\xc2\x80",         "\xc2\x9f"}; /* 2028, 2029; NEL and C1 */
    for (size_t i = 0; i < sizeof not_seen / sizeof *not_seen; i++) {
        char out[64];
        cr_assert_eq(printable_length(not_seen[i]), 0, "%zu", i);
        cr_assert_eq(printable_character(not_seen[i]), strlen(not_seen[i]), "%zu", i);
        cr_assert_not(printable_is(not_seen[i]));
        printable_copy(not_seen[i], out, sizeof out);
        cr_assert_eq(strlen(out), 4 * strlen(not_seen[i]), "%s", out);
    }
    becomes("run\xe2\x80\xaegnp.exe", "run\\xe2\\x80\\xaegnp.exe");
    /* Their neighbours, accents that are joined to a letter, other scripts and emoji with a variation stay. */
    static const char stay[] =
        "\xe2\x80\x8a \xe2\x80\x90 \xe2\x80\xaf \xe2\x81\xb0 \xc2\xac e\xcc\x81 \xd7\xa9 \xe2\x9d\xa4\xef\xb8\x8f";
    becomes(stay, stay);
    cr_assert(printable_is(stay));
}

Test(printable, bytes_that_are_no_utf_8_are_escaped)
{
    becomes("\x80 \xff \xfe", "\\x80 \\xff \\xfe");
    becomes("cut \xe2\x82", "cut \\xe2\\x82");
    becomes("\xe2\x82"
            "a",
            "\\xe2\\x82"
            "a");
    becomes("\xc0\xaf \xe0\x80\xaf \xf0\x80\x80\xaf", "\\xc0\\xaf \\xe0\\x80\\xaf \\xf0\\x80\\x80\\xaf");
    becomes("\xe0\x9f\xbf \xf0\x8f\xbf\xbf",
            "\\xe0\\x9f\\xbf \\xf0\\x8f\\xbf\\xbf"); /* U+07FF, U+FFFF a second way */
    becomes("\xed\xa0\x80 \xf4\x90\x80\x80 \xf8\x88\x80\x80\x80",
            "\\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80 \\xf8\\x88\\x80\\x80\\x80");
}

Test(printable, the_room_ends_behind_a_whole_character_or_escape)
{
    static const char *const expected[] = {"",          "a",         "a",         "a\xc3\xa9",
                                           "a\xc3\xa9", "a\xc3\xa9", "a\xc3\xa9", "a\xc3\xa9\\xff"};
    for (size_t room = 1; room <= 8; room++) {
        char out[16];
        memset(out, '#', sizeof out);
        printable_copy("a\xc3\xa9\xff", out, room);
        cr_assert_str_eq(out, expected[room - 1], "%zu", room);
        cr_assert_eq(out[room], '#');
    }
}
