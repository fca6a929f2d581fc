/* Programs that are run as an unprivileged user on hostile input, within limits of time and memory, and what each of
 * their ends must be like. */
#ifndef TESTS_SYSTEM_ATTACK_INVOCATION_H
#define TESTS_SYSTEM_ATTACK_INVOCATION_H

#include <stdbool.h>

enum { INVOCATION_ENDED_BY = 1000 }; /* and the signal */

/* Run a program of this build as the first user, in that user's home, to its end; its exit code. A program that does
 * not end fails the test.
 *
 *   arguments  the program's name first, NULL last
 *   ready      a text of its standard error after which it is sent TERM; NULL: none
 */
int invocation_run(const char *const arguments[], const char *ready);

/* Its standard error. */
extern char invocation_said[1 << 16];

/* How many ends had another exit code than 0: most hostile inputs are to be noticed. */
int invocation_n_refused(void);

/* The end is a documented one: an exit code of this list (ended by -1), and with another than 0 a last line that says
 * what is wrong, in printable UTF-8, and has one of the texts of `where`, between '|'. */
void invocation_expect(int code, const int allowed[], const char *where);

#endif
