/* Is this the build under the address sanitizer? There tests leave out repeats that differ from the others in numbers alone: this build
 * checks the use of memory, which such a repeat does not exercise; the release build checks the results of all of them.
 */
#ifndef TESTS_SUPPORT_SANITIZED_H
#define TESTS_SUPPORT_SANITIZED_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#else
enum { SANITIZED = 0 };
#endif

/* Does this run leave out ways of running a job? Under the sanitizer, but with TEST_THOROUGH. */
bool sanitized_leaves_out(void);

/* Of n ways in which a job is run, is this one left out here? Called once for each way, in order. Under the sanitizer four of five are, in
 * other builds every other one: other ones for each job of a test, so that each way is taken with some of the jobs. With TEST_THOROUGH none is. */
bool ways_skip(size_t way, size_t n);

#endif
