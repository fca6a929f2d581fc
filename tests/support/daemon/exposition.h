/* Values in Prometheus' text format, and what promtool says of a text.
 * source  prometheus.io/docs/instrumenting/exposition_formats
 */
#ifndef TESTS_SUPPORT_EXPOSITION_H
#define TESTS_SUPPORT_EXPOSITION_H

/* The value of a series as printed, "trainerd_slots{state=\"used\"}"; NaN when there is none. */
double exposition_value(const char *text, const char *series);

/* The errors that Prometheus' own promtool reports for the text, "" without any; NULL where promtool is not installed. Valid
 * until the next call. */
const char *exposition_promtool(const char *text);

/* The same; NULL without any, and where promtool is not installed. */
const char *exposition_fault(const char *text);

#endif
