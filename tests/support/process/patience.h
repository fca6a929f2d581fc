/* Waiting in tests: until the event comes, or until patience ends, which fails the test.
 *
 * Patience is time, not turns, and far more of it than a loaded machine needs: what a test asserts is the event. Where a time
 * is itself what is tested, its bound leaves room for a machine five times slower.
 */
#ifndef TESTS_SUPPORT_PATIENCE_H
#define TESTS_SUPPORT_PATIENCE_H

#include <stdbool.h>
#include <sys/types.h>

#define PATIENCE_S 60

/* A short rest between two looks; false once PATIENCE_S have gone by since then. */
bool patience_left(double since_s);

/* Wait for the end of a process, a child or not, which pidfd_open gave a file for; false when patience ends first. */
bool process_ends(int pidfd);

/* In a child, first of all: it ends with its parent, so that a test that fails leaves nobody behind. */
void die_with(pid_t parent);

#endif
