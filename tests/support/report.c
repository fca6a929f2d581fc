/* What test programs say for scripts/run-tests: at the end one line that sums the tests up (Criterion's own leaves skipped ones out), and for
 * each test a line in the file that TEST_TIMES names, where it is set: seconds of processor time, seconds of the clock, suite::name.
 */
#include "protocol/base/clock.h"
#include "tests/support/process/reachable.h"

#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static char name[256];
static pid_t process; /* not those that a test forks */
static double began_s;

/* Seconds of a processor for each process of a test, far more than any takes: one that never ends is ended by the kernel, however loaded the
 * machine is. Limits by the clock (.timeout, PATIENCE_S) are for processes that wait. */
#define PROCESSOR_S 600

void __real_criterion_internal_test_setup(void);
void __wrap_criterion_internal_test_setup(void);

/* Each test is a process of its own, in which Criterion calls no hook: what it calls before the test is wrapped (the linker's --wrap). */
void __wrap_criterion_internal_test_setup(void)
{
    snprintf(name, sizeof name, "%s::%s", criterion_current_suite->name, criterion_current_test->name);
    process = getpid();
    began_s = clock_s();
    setrlimit(RLIMIT_CPU, &(struct rlimit){PROCESSOR_S, PROCESSOR_S});
    __real_criterion_internal_test_setup();
}

__attribute__((constructor)) static void begin(int argc, char **argv)
{
    reachable_begin(argc, argv);
}

static double cpu_s(int of)
{
    struct rusage used;
    getrusage(of, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* The process's own time, and that of the children that it waited for. */
__attribute__((destructor)) static void write_times(void)
{
    const char *path = getenv("TEST_TIMES");
    FILE *times = path != NULL && process == getpid() ? fopen(path, "a") : NULL;
    if (times != NULL) {
        fprintf(times, "%7.2f %7.2f %s\n", cpu_s(RUSAGE_SELF) + cpu_s(RUSAGE_CHILDREN), clock_s() - began_s, name);
        fclose(times);
    }
}

ReportHook(POST_ALL)(struct criterion_global_stats *stats)
{
    size_t n_skipped = 0;
    for (struct criterion_suite_stats *suite = stats->suites; suite != NULL; suite = suite->next) {
        for (struct criterion_test_stats *test = suite->tests; test != NULL; test = test->next) {
            /* A test that --filter leaves out is disabled. */
            if (test->test_status == CR_STATUS_SKIPPED && !test->test->data->disabled) {
                printf("skipped: %s::%s %s\n", suite->suite->name, test->test->name,
                       test->message != NULL ? test->message : "");
                n_skipped++;
            }
        }
    }
    printf("tests: %zu passed, %zu failed, %zu skipped\n", stats->tests_passed, stats->tests_failed, n_skipped);
}
