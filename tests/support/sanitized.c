#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <stdlib.h>

size_t ways_first(void)
{
    size_t sum = 0;
    for (const char *c = criterion_current_test->name; *c != '\0'; c++) {
        sum += (unsigned char)*c;
    }
    return sum;
}

bool ways_skip(size_t way, size_t n)
{
    static size_t n_job; /* each begins one way further */
    const size_t most = SANITIZED ? 5 : 4, stride = n < most ? n : most;
    n_job += way == 0;
    return getenv("TEST_THOROUGH") == NULL && way % stride != (ways_first() + n_job) % stride;
}

void ways_each(void (*expect)(const char *way), const char *const *ways, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!ways_skip(i, n)) {
            expect(ways[i]);
        }
    }
}
