/* Where a test's files lie: a folder of its own, and the programs beside the test program.
 *
 * A test runs in a process of its own, so one folder each is enough: TestSuite(x, .init = folder_make, .fini = folder_remove).
 * What fails here ends the test.
 */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

extern char folder[64]; /* its path; "" before it is made */

/* Make it, empty / remove it and all that is in it; nothing if it was not made. */
void folder_make(void);
void folder_remove(void);

/* The path of a file in it: valid until the eighth call from now. */
const char *folder_path(const char *name);

/* Something of that name is there, a dangling link too. */
bool folder_has(const char *name);

/* Write, or read, a file of it as text; what does not fit in n_room - 1 characters is left out. */
void folder_write(const char *name, const char *text);
void folder_read(const char *name, char *out, size_t n_room);

/* The path of a program that was built with this test. */
void program_find(const char *name, char *out, size_t n_room);

#endif
