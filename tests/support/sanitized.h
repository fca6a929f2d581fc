/* What tests leave out of their repeats. The build under the address sanitizer checks the use of memory, which a repeat that differs from
 * the others in numbers alone does not exercise; the release leaves out some ways of running a job, which make check-all takes.
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

/* Of n ways in which a job is run, is this one left out here? Called once for each way, in order. Under the sanitizer 31 of 32 are, in
 * other builds three of four, with TEST_THOROUGH=1, where jobs are more, seven of eight: other ones for each job of a test, so that each way is
 * taken with some of the jobs. With TEST_THOROUGH=all none is. */
bool ways_skip(size_t way, size_t n);
void ways_each(void (*expect)(const char *way), const char *const *ways, size_t n); /* of those that are not */

/* A number that the test's name gives: where turns of its ways begin. */
size_t ways_first(void);

#endif
