#include "trainerd/ctl/draw/curves.h"

#include "protocol/base/memory.h"
#include "trainerd/ctl/base/text.h"
#include "trainerd/ctl/experiments/settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *key, *text;
} names[CURVE_N] = {
#define X(name, key, text) {key, text},
    CURVE_LIST(X)
#undef X
};

const char *curve_key(enum curve curve)
{
    return names[curve].key;
}

const char *curve_text(enum curve curve)
{
    return names[curve].text;
}

void curves_init(struct curves *curves)
{
    *curves = (struct curves){0};
}

void curves_release(struct curves *curves)
{
    free(curves->at);
    for (int i = 0; i < CURVE_N; i++) {
        free(curves->value[i]);
        free(curves->low[i]);
        free(curves->high[i]);
    }
    *curves = (struct curves){0};
}

static void grow(double **array, size_t n, size_t capacity)
{
    double *more = memory_alloc(capacity, sizeof *more);
    if (n > 0) {
        memcpy(more, *array, n * sizeof *more);
    }
    free(*array);
    *array = more;
}

/* One more epoch; its values are to be set, there are no deviations. */
static void add_epoch(struct curves *curves, double at)
{
    if (curves->n == curves->capacity) {
        curves->capacity = curves->capacity == 0 ? 256 : 2 * curves->capacity;
        grow(&curves->at, curves->n, curves->capacity);
        for (int i = 0; i < CURVE_N; i++) {
            grow(&curves->value[i], curves->n, curves->capacity);
            grow(&curves->low[i], curves->n, curves->capacity);
            grow(&curves->high[i], curves->n, curves->capacity);
        }
    }
    for (int i = 0; i < CURVE_N; i++) {
        curves->low[i][curves->n] = curves->high[i][curves->n] = NAN;
    }
    curves->at[curves->n++] = at;
}

void curves_add(struct curves *curves, const json_t *event)
{
    double at = number_of(event, "epoch");
    if (!isfinite(at)) {
        return;
    }
    while (curves->n > 0 && curves->at[curves->n - 1] >= at) {
        curves->n--;
    }
    add_epoch(curves, at);
    job_metric_find(text_of(event, "metric"), &curves->metric);
    for (int i = 0; i < CURVE_N; i++) {
        curves->value[i][curves->n - 1] = number_of(event, names[i].key);
    }
}

/* The first epoch at or behind this one that some job has; INFINITY: no job has one. next: each job's place */
static double next_epoch(const struct curves *of, const size_t *next, size_t n)
{
    double at = INFINITY;
    for (size_t j = 0; j < n; j++) {
        at = next[j] < of[j].n ? fmin(at, of[j].at[next[j]]) : at;
    }
    return at;
}

/* The mean of the curve's n values as its last, and where they deviate. A fraction stays one. */
static void set_mean(struct curves *out, enum curve curve, const double *values, size_t n)
{
    struct sample sample = sample_of(values, n);
    bool is_fraction = curve >= CURVE_TRAIN && curve <= CURVE_TEST && job_metric_is_fraction(out->metric);
    double low = sample.mean - sample.std, high = sample.mean + sample.std;
    size_t at = out->n - 1;
    out->value[curve][at] = sample.mean;
    out->low[curve][at] = is_fraction && low < 0 ? 0 : low;
    out->high[curve][at] = is_fraction && high > 1 ? 1 : high;
}

void curves_mean(struct curves *out, const struct curves *of, size_t n)
{
    size_t *next = memory_alloc(n + 1, sizeof *next);
    double *values = memory_alloc(n + 1, sizeof *values);
    for (size_t j = 0; j < n; j++) {
        out->metric = of[j].n > 0 ? of[j].metric : out->metric;
    }
    for (double at; isfinite(at = next_epoch(of, next, n));) {
        add_epoch(out, at);
        for (int i = 0; i < CURVE_N; i++) {
            size_t n_value = 0;
            for (size_t j = 0; j < n; j++) {
                if (next[j] < of[j].n && of[j].at[next[j]] == at) {
                    values[n_value++] = of[j].value[i][next[j]];
                }
            }
            set_mean(out, (enum curve)i, values, n_value);
        }
        for (size_t j = 0; j < n; j++) {
            next[j] += next[j] < of[j].n && of[j].at[next[j]] == at;
        }
    }
    free(values);
    free(next);
}

size_t curves_best(const struct curves *curves)
{
    const double *valid = curves->value[CURVE_VALID];
    size_t best = curves->n;
    bool falls = job_metric_falls(curves->metric);
    for (size_t i = 0; i < curves->n; i++) {
        if (isfinite(valid[i]) && (best == curves->n || (falls ? valid[i] < valid[best] : valid[i] > valid[best]))) {
            best = i;
        }
    }
    return best;
}

enum curves_axis curves_axis_of(const char *name)
{
    static const char *const axes[CURVES_AXIS_N] = {"epoch", "bytes", "time"};
    int axis = 0;
    while (axis < CURVES_AXIS_N && strcmp(name, axes[axis]) != 0) {
        axis++;
    }
    return (enum curves_axis)axis;
}

static double known(double value)
{
    return isfinite(value) ? value : 0;
}

void curves_lay(struct curves *curves, enum curves_axis axis)
{
    double sum = 0;
    curves->axis = axis;
    for (size_t i = 0; i < curves->n && axis != CURVES_AXIS_EPOCH; i++) {
        sum += axis == CURVES_AXIS_TIME
                   ? known(curves->value[CURVE_EPOCH][i])
                   : known(curves->value[CURVE_RECEIVED][i]) - known(curves->value[CURVE_EVALUATE][i]);
        curves->at[i] = sum;
    }
}

bool curves_range(const struct curves *curves, enum curve curve, double *least_io, double *most_io)
{
    bool found = false;
    for (size_t i = 0; i < curves->n; i++) {
        double value = curves->value[curve][i];
        if (isfinite(value)) {
            found = true;
            *least_io = fmin(*least_io, fmin(value, curves->low[curve][i])); /* NaN is no bound */
            *most_io = fmax(*most_io, fmax(value, curves->high[curve][i]));
        }
    }
    return found;
}

double curves_step(double least, double most, int n_tick)
{
    double rough = (most - least) / n_tick;
    if (!(rough > 0) || !isfinite(rough)) {
        return 1;
    }
    double power = pow(10, floor(log10(rough))), times = rough / power;
    return power * (times < 1.5 ? 1 : times < 3.5 ? 2 : times < 7.5 ? 5 : 10);
}
