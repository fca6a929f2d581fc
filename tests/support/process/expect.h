/* Assertions that many tests share. */
#ifndef TESTS_SUPPORT_EXPECT_H
#define TESTS_SUPPORT_EXPECT_H

#include "protocol/base/status.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

/* A text contains these words / the last failure's reason does. */
#define expect_words(text, words) cr_assert_not_null(strstr(text, words), "'%s' is not in: %s", words, text)
#define expect_reason(words) expect_words(status_reason(), words)

/* A call succeeds / fails with this status, and these words in its reason. */
#define expect_done(call) cr_assert_eq(call, STATUS_OK, "%s", status_reason())
#define expect_fails(call, status, words)                                                                            \
    do {                                                                                                             \
        cr_assert_eq(call, status, "%s", status_reason());                                                           \
        expect_reason(words);                                                                                        \
    } while (0)

/* The test acts for several users. */
#define need_root()                                                                                                  \
    do {                                                                                                             \
        if (geteuid() != 0) {                                                                                        \
            cr_skip_test("only root can act for other users");                                                       \
        }                                                                                                            \
    } while (0)

#endif
