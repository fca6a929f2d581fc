/* A strict reader of Prometheus' text format, version 0.0.4, for what we print ourselves: gauges and counters.
 * source  prometheus.io/docs/instrumenting/exposition_formats
 */
#ifndef TESTS_SUPPORT_EXPOSITION_H
#define TESTS_SUPPORT_EXPOSITION_H

/* Every line is as it should be: HELP and TYPE once before the values of their metric, which stand together; names, labels and
 * escapes by the rules; counters, and nothing else, end in _total; no series twice. Else the first thing wrong. NULL: all well */
const char *exposition_fault(const char *text);

/* The value of a series as printed, "trainerd_slots{state=\"used\"}"; NaN when there is none. */
double exposition_value(const char *text, const char *series);

/* Is the program that Prometheus brings there? Then what it says of the text; "" when it is content. NULL: it is not there. The
 * answer is valid until the next call. */
const char *exposition_promtool(const char *text);

#endif
