#include "protocol/base/status.h"

#include <criterion/criterion.h>
#include <string.h>

Test(status, every_exit_code_of_the_contract_belongs_to_one_status)
{
    const int codes[] = {0, 1, 2, 65, 66, 69, 70, 71, 73, 74, 75, 78};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        cr_assert_eq(status_exit_code(status_from_exit_code(codes[i])), codes[i]);
    }
    cr_assert_eq(status_from_exit_code(99), STATUS_BUG);
}

Test(status, a_reason_is_kept_word_for_word_with_what_is_not_printable_escaped)
{
    cr_assert_eq(status_fail(STATUS_DATA, "cannot read '%s': line %d", "a\nb", 7), STATUS_DATA);
    cr_assert_str_eq(status_reason(), "cannot read 'a\\x0ab': line 7");
    cr_assert_eq(status_fail(STATUS_IO, "again: %s", status_reason()), STATUS_IO);
    cr_assert_str_eq(status_reason(), "again: cannot read 'a\\x0ab': line 7");
    char long_text[2000];
    memset(long_text, '\xff', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    status_fail(STATUS_DATA, "%s", long_text);
    cr_assert_eq(strlen(status_reason()), 1020);
    cr_assert_str_eq(status_reason() + 1016, "\\xff");
}

Test(status, lines_of_a_reason_stay_lines)
{
    cr_assert_eq(status_fail_lines(STATUS_CONFIG, "a\x01\nb\n"), STATUS_CONFIG);
    cr_assert_str_eq(status_reason(), "a\\x01\nb");
    cr_assert_eq(status_fail_lines(STATUS_CONFIG, status_reason()), STATUS_CONFIG);
    cr_assert_str_eq(status_reason(), "a\\x01\nb");
    static char text[3 * STATUS_REASON_BYTES];
    memset(text, '\xff', sizeof text - 1);
    status_fail_lines(STATUS_DATA, text);
    cr_assert_lt(strlen(status_reason()), STATUS_REASON_BYTES);
    cr_assert_str_eq(status_reason() + strlen(status_reason()) - 4, "\\xff");
}
