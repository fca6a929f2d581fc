/* Programs of this build, run to their end in the test's folder, and their output: for tests of command lines. */
#ifndef TESTS_SUPPORT_COMMAND_H
#define TESTS_SUPPORT_COMMAND_H

#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>
#include <sys/types.h>

#define COMMAND_BYTES (1 << 17)

extern char printed[COMMAND_BYTES];    /* standard output of the program that ended last */
extern char output[2 * COMMAND_BYTES]; /* its standard output, then its standard error */

/* Start a program of this build by its name, or one at a path, with its streams in the folder's files out and err. It
 * ends with the test.
 *
 *   arguments  at most 30, then NULL
 */
pid_t command_start(const char *program, const char *const arguments[]);
/* The same with the streams of these bits closed, and no others. */
pid_t command_start_closed(const char *program, unsigned closed, const char *const arguments[]);

/* Wait for the program's end; its exit code, or 1000 + the signal that ended it. */
int command_finish(pid_t child);

/* The one JSON value on its standard output. owns  the caller has the reference */
json_t *command_json(void);

/* start(arguments) is the test's: #define start(...) command_start("trainctl", __VA_ARGS__) */
#define RUN(...) command_finish(start((const char *const[]){__VA_ARGS__, NULL}))
#define EXPECT(code, part, ...)                                                                                      \
    do {                                                                                                             \
        int got = RUN(__VA_ARGS__);                                                                                  \
        cr_assert_eq(got, code, "exit %d: %s", got, output);                                                         \
        cr_assert_not_null(strstr(output, part), "'%s' is not in: %s", part, output);                                \
    } while (0)

#endif
