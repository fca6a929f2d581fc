#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <stdlib.h>

bool sanitized_leaves_out(void)
{
    return SANITIZED && getenv("TEST_THOROUGH") == NULL;
}

bool ways_skip(size_t way, size_t n)
{
    static size_t n_job;
    static size_t first; /* of this test; the next job's is one further */
    const size_t most = SANITIZED ? 5 : 2, stride = n < most ? n : most;
    if (n_job == 0 && way == 0) {
        for (const char *c = criterion_current_test->name; *c != '\0'; c++) {
            first += (unsigned char)*c;
        }
    }
    n_job += way == 0;
    return getenv("TEST_THOROUGH") == NULL && way % stride != (first + n_job) % stride;
}
