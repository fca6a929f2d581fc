#include "trainerd/base/figure.h"

#include <math.h>
#include <stdio.h>

struct figure figure_bytes(double n_bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    struct figure out = {"-"};
    size_t unit = 0;
    if (!isfinite(n_bytes)) {
        return out;
    }
    for (; n_bytes >= 999.5 && unit + 1 < sizeof units / sizeof *units; unit++) {
        n_bytes /= 1000.0;
    }
    snprintf(out.text, sizeof out.text, "%.*f %s", unit > 0 && n_bytes < 99.95 ? 1 : 0, n_bytes, units[unit]);
    return out;
}

struct figure figure_seconds(double seconds)
{
    struct figure out = {"-"};
    long long s = isfinite(seconds) && fabs(seconds) < 1e15 ? (long long)(seconds + 0.5) : 0;
    if (!isfinite(seconds)) {
        return out;
    }
    if (seconds < 10.0) {
        snprintf(out.text, sizeof out.text, "%.*f s", seconds < 0.01 ? 4 : seconds < 1.0 ? 3 : 1, seconds);
    } else if (s < 120) {
        snprintf(out.text, sizeof out.text, "%lld s", s);
    } else if (s < 7200) {
        snprintf(out.text, sizeof out.text, "%lld min %lld s", s / 60, s % 60);
    } else if (s < 172800) {
        snprintf(out.text, sizeof out.text, "%lld h %02lld min", s / 3600, s / 60 % 60);
    } else {
        snprintf(out.text, sizeof out.text, "%lld d %lld h", s / 86400, s / 3600 % 24);
    }
    return out;
}

struct figure figure_number(double value)
{
    struct figure out;
    snprintf(out.text, sizeof out.text, isfinite(value) ? "%.4g" : "-", value);
    return out;
}

struct figure figure_whole(double value)
{
    struct figure out;
    snprintf(out.text, sizeof out.text, isfinite(value) && fabs(value) < 1e16 ? "%.0f" : "-", value);
    return out;
}

struct figure figure_fraction(double fraction)
{
    struct figure out;
    if (fabs(fraction) > 1.0) {
        return figure_number(fraction);
    }
    snprintf(out.text, sizeof out.text, isfinite(fraction) ? "%.2f %%" : "-", 100.0 * fraction);
    return out;
}

struct figure figure_count(int64_t n, const char *noun)
{
    struct figure out;
    snprintf(out.text, sizeof out.text, "%lld %s%s", (long long)n, noun, n == 1 ? "" : "s");
    return out;
}
