#include "tests/support/sanitized.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

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
    const char *thorough = getenv("TEST_THOROUGH");
    const size_t most = thorough != NULL ? (strcmp(thorough, "all") == 0 ? 1 : 8) : SANITIZED ? 32 : 4;
    const size_t stride = n < most ? n : most;
    n_job += way == 0;
    return way % stride != (ways_first() + n_job) % stride;
}

void ways_each(void (*expect)(const char *way), const char *const *ways, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!ways_skip(i, n)) {
            expect(ways[i]);
        }
    }
}
