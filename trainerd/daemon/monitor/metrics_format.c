/* The text format of Prometheus. */
#include "trainerd/daemon/monitor/metrics.h"

#include <math.h>

void metrics_print_head(FILE *file, const char *name, const char *type, const char *help)
{
    fprintf(file, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_print_value(FILE *file, const char *name, const char *labels, double value)
{
    const char *open = labels[0] != '\0' ? "{" : "", *close = labels[0] != '\0' ? "}" : "";
    bool is_whole = value == floor(value) && fabs(value) < 1e15;
    fprintf(file, is_whole ? "%s%s%s%s %.0f\n" : "%s%s%s%s %.10g\n", name, open, labels, close, value);
}
