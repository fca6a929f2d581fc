/* A strict reader of Prometheus' text format, version 0.0.4, for the daemon's own metrics: gauges and counters.
 * source  prometheus.io/docs/instrumenting/exposition_formats
 */
#ifndef TESTS_SUPPORT_EXPOSITION_H
#define TESTS_SUPPORT_EXPOSITION_H

/* The first violation in the text, NULL without one. The rules: HELP and TYPE once, before the values of their metric, which are
 * consecutive; names, labels and escapes by the grammar; counters, and no gauges, end in _total; no series twice. */
const char *exposition_fault(const char *text);

/* The value of a series as printed, "trainerd_slots{state=\"used\"}"; NaN when there is none. */
double exposition_value(const char *text, const char *series);

/* The errors that Prometheus' own promtool reports for the text, "" without any; NULL where promtool is not installed. Valid
 * until the next call. */
const char *exposition_promtool(const char *text);

#endif
