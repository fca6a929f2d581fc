/* What a run of a case gave, in host memory, and how it compares with another run's. */
#ifndef TESTS_SUPPORT_OPERATION_RESULTS_H
#define TESTS_SUPPORT_OPERATION_RESULTS_H

#include "tests/support/operations/operation.h"

struct operation_results {
    int n;
    struct operation_array array[OPERATION_RESULTS_MOST];
};

/* Run a case on an open device, with random inputs so many floats behind an aligned place; the caller frees what it gave. Ends the process where the device fails. */
struct operation_results operation_results(struct device *device, const struct operation_case *c, int64_t shift);
void operation_results_free(struct operation_results *results);

/* What is wrong with `got`, until the next call; NULL: nothing. Differences may be so large over the largest expected
 * element of an array, in floats and in doubles; 0: the same bits. Bytes are always the same. */
const char *operation_compare(const struct operation_results *got, const struct operation_results *expected,
                              double floats, double doubles);

#endif
