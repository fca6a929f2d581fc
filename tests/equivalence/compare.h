/* Results of a job that is run in different ways, compared bit by bit, and the devices that have the same bits. A difference fails the
 * test, which goes on. */
#ifndef TESTS_EQUIVALENCE_COMPARE_H
#define TESTS_EQUIVALENCE_COMPARE_H

#include "tests/support/cluster/cluster.h"

/* The cpu with as small a cache as the strict device's, so that a part has several windows on either, and sums over them are the same. */
const struct device_ops *compare_narrow_cpu(void);

/* Of n ways in which a job is run, is this one left out, as tests/support/sanitized.h has it? Without the sanitizer two of three of those that
 * are left on the strict device are, too, which protects and opens its memory around each call; none with TEST_THOROUGH. */
bool compare_skips(size_t way, size_t n, bool on_strict);

/* Weights, embeddings, logits, losses, scores, and the guard's errors and back-offs are the same; `other` allocates nothing in its epochs.
 *
 *   format  how `other` was run, for the message
 */
void compare_expect_same(const struct cluster_result *first, const struct cluster_result *other, const char *format,
                         ...) __attribute__((format(printf, 3, 4)));

/* In each category a job in memory takes as many bytes as were planned. */
void compare_expect_planned(const struct cluster_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
