/* Timing and the one-line report that every benchmark prints: figure | value | reference | ratio | bar. */
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include "protocol/base/clock.h"

#include <stdio.h>
#include <stdlib.h>

static inline void bench_header(void)
{
    printf("%-56s | %12s | %12s | %6s | %s\n", "figure", "value", "reference", "ratio", "bar");
}

/* bar 0: a figure to watch, without a bar */
static inline void bench_line(const char *figure, double value, const char *unit, double reference, double ratio,
                              double bar)
{
    char wanted[32] = "-";
    if (bar > 0.0) {
        snprintf(wanted, sizeof wanted, ">= %.2f%s", bar, ratio >= bar ? "" : "  MISSED");
    }
    printf("%-56s | %7.2f %-4s | %7.2f %-4s | %6.3f | %s\n", figure, value, unit, reference, unit, ratio, wanted);
    fflush(stdout);
}

/* Shortest of several timed runs, in seconds, interleaved by the caller when ratios matter. */
struct bench_time {
    double best;
    double started;
};

static inline void bench_start(struct bench_time *timer)
{
    timer->started = clock_s();
}

static inline void bench_stop(struct bench_time *timer)
{
    double spent = clock_s() - timer->started;
    timer->best = timer->best == 0.0 || spent < timer->best ? spent : timer->best;
}

#endif
