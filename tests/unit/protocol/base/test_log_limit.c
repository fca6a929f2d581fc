#include "protocol/base/log_limit.h"

#include <criterion/criterion.h>

Test(log_limit, ten_lines_a_minute_pass_and_the_next_minute_says_how_many_did_not)
{
    struct log_limit limit = {0};
    char note[LOG_LIMIT_NOTE_BYTES];
    int n_passed = 0;
    for (int i = 0; i < 35; i++) {
        n_passed += log_limit_passes(&limit, 1000 + (uint64_t)i, note);
        cr_assert_str_eq(note, "");
    }
    cr_assert_eq(n_passed, LOG_LIMIT_MOST);
    cr_assert_not(log_limit_passes(&limit, 60999, note));
    cr_assert(log_limit_passes(&limit, 61000, note));
    cr_assert_str_eq(note, " (26 more were left out)");
    cr_assert(log_limit_passes(&limit, 61001, note));
    cr_assert_str_eq(note, "");
    cr_assert(log_limit_passes(&limit, 200000, note));
    cr_assert_str_eq(note, "", "none was left out");
}
