/* Programs of ours run to their end in the test's folder, and what they said: for tests of command lines. */
#ifndef TESTS_SUPPORT_SPOKEN_H
#define TESTS_SUPPORT_SPOKEN_H

#include <criterion/criterion.h>
#include <string.h>
#include <sys/types.h>

#define SPOKEN_BYTES (1 << 17)

extern char printed[SPOKEN_BYTES];  /* standard output of the last that ended */
extern char said[2 * SPOKEN_BYTES]; /* that and then standard error */

/* Start a program, by its path; its streams go to the folder's files out and err. It ends with the test. arguments  end in NULL, 30 at
 * most */
pid_t spoken_start(const char *program, const char *const arguments[]);

/* Wait for it; its exit code, or 1000 + the signal that ended it. */
int spoken_finish(pid_t child);

#define RUN(...) spoken_finish(start((const char *const[]){__VA_ARGS__, NULL}))
#define EXPECT(code, part, ...)                                                                                                \
    do {                                                                                                                       \
        int got = RUN(__VA_ARGS__);                                                                                            \
        cr_assert_eq(got, code, "exit %d: %s", got, said);                                                                     \
        cr_assert_not_null(strstr(said, part), "'%s' is not in: %s", part, said);                                              \
    } while (0)

#endif
