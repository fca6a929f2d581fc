/* One line at the end of every test program that scripts/run-tests sums up: Criterion's own leaves skipped tests out. */
#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <stdio.h>

ReportHook(POST_ALL)(struct criterion_global_stats *stats)
{
    for (struct criterion_suite_stats *suite = stats->suites; suite != NULL; suite = suite->next) {
        for (struct criterion_test_stats *test = suite->tests; test != NULL; test = test->next) {
            /* A test that --filter leaves out is disabled. */
            if (test->test_status == CR_STATUS_SKIPPED && !test->test->data->disabled) {
                printf("skipped: %s::%s %s\n", suite->suite->name, test->test->name,
                       test->message != NULL ? test->message : "");
            }
        }
    }
    printf("tests: %zu passed, %zu failed, %zu skipped\n", stats->tests_passed, stats->tests_failed, stats->tests_skipped);
}
