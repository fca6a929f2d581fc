/* Waiting in tests: until the event occurs, or until PATIENCE_S seconds have passed, which fails the test.
 *
 * The limit is a time, not a number of tries, and far longer than a loaded machine needs: tests assert events. A test of a
 * duration itself sets a bound that a machine five times slower still meets.
 */
#ifndef TESTS_SUPPORT_PATIENCE_H
#define TESTS_SUPPORT_PATIENCE_H

#include <stdbool.h>
#include <sys/types.h>

#define PATIENCE_S 300

/* Sleep for a millisecond between two tries; false once PATIENCE_S have passed since since_s. */
bool patience_left(double since_s);

/* Wait for the end of a process, a child or not, by its pidfd; false when PATIENCE_S pass first. */
bool process_ends(int pidfd);

/* Called first in a child: the child ends with its parent, so that a failed test leaves no process behind. */
void die_with(pid_t parent);

#endif
