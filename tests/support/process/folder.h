/* A test's files: a folder of its own, and the programs beside the test program.
 *
 * A test runs in a process of its own, so one folder each is enough: TestSuite(x, .init = folder_make, .fini = folder_remove).
 * A failure here ends the test.
 */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

extern char folder[64]; /* the folder's path; "" before folder_make */

/* Make the folder, empty / remove it with all its contents; no effect where it was not made. */
void folder_make(void);
void folder_remove(void);

/* The path of a file in the folder: valid until the eighth call from now. */
const char *folder_path(const char *name);

/* Does the folder have an entry of that name? A dangling link counts. */
bool folder_has(const char *name);

/* Write, or read, a file of the folder as text; reading stops after n_out - 1 characters. */
void folder_write(const char *name, const char *text);
void folder_read(const char *name, char *out, size_t n_out);

/* A suite whose tests begin with a folder that has this job.toml, and take at most so many seconds. */
#define JOB_SUITE(suite, limit_s, text)                                                                              \
    static void suite##_begin(void)                                                                                  \
    {                                                                                                                \
        folder_make();                                                                                               \
        folder_write("job.toml", text);                                                                              \
    }                                                                                                                \
    TestSuite(suite, .init = suite##_begin, .fini = folder_remove, .timeout = limit_s)

/* The path of a program that was built with this test. */
void program_find(const char *name, char *out, size_t n_out);

#endif
