#include "protocol/printable.h"

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

Test(printable, bytes_that_are_no_utf_8_are_escaped)
{
    becomes("\x80 \xff \xfe", "\\x80 \\xff \\xfe");
    becomes("cut \xe2\x82", "cut \\xe2\\x82");
    becomes("\xe2\x82"
            "a",
            "\\xe2\\x82"
            "a");
    becomes("\xc0\xaf \xe0\x80\xaf \xf0\x80\x80\xaf", "\\xc0\\xaf \\xe0\\x80\\xaf \\xf0\\x80\\x80\\xaf");
    becomes("\xe0\x9f\xbf \xf0\x8f\xbf\xbf", "\\xe0\\x9f\\xbf \\xf0\\x8f\\xbf\\xbf"); /* U+07FF, U+FFFF a second way */
    becomes("\xed\xa0\x80 \xf4\x90\x80\x80 \xf8\x88\x80\x80\x80",
            "\\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80 \\xf8\\x88\\x80\\x80\\x80");
}

Test(printable, the_room_ends_behind_a_whole_character_or_escape)
{
    static const char *const expected[] = {"", "a", "a", "a\xc3\xa9", "a\xc3\xa9", "a\xc3\xa9", "a\xc3\xa9", "a\xc3\xa9\\xff"};
    for (size_t room = 1; room <= 8; room++) {
        char out[16];
        memset(out, '#', sizeof out);
        printable_copy("a\xc3\xa9\xff", out, room);
        cr_assert_str_eq(out, expected[room - 1], "%zu", room);
        cr_assert_eq(out[room], '#');
    }
}
