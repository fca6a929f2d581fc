#include "tests/support/operations/results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct operation_results operation_results(struct device *device, const struct operation_case *c, int64_t shift)
{
    static struct operation_run run;
    struct operation_results out = {0};
    run = (struct operation_run){.device = device, .ops = device->ops, .seed = 100, .shift = shift};
    c->run(&run, c->shape);
    if (device_sync(run.device) != STATUS_OK) {
        operation_give_up(status_reason());
    }
    for (out.n = 0; out.n < run.n_result; out.n++) {
        out.array[out.n] = run.result[out.n];
        out.array[out.n].at = malloc(run.result[out.n].n_bytes + 1);
        if (out.array[out.n].at == NULL) {
            operation_give_up("out of memory");
        }
        run.ops->copy(run.device, out.array[out.n].at, run.result[out.n].at, run.result[out.n].n_bytes);
    }
    for (int i = 0; i < run.n_taken; i++) {
        run.ops->release(run.device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, run.taken[i].at, run.taken[i].n_bytes);
    }
    if (device_sync(run.device) != STATUS_OK) {
        operation_give_up(status_reason());
    }
    return out;
}

void operation_results_free(struct operation_results *results)
{
    for (int i = 0; i < results->n; i++) {
        free(results->array[i].at);
    }
}

static double element(const struct operation_array *a, size_t i)
{
    return a->type == OPERATION_FLOATS ? (double)((const float *)a->at)[i] : ((const double *)a->at)[i];
}

/* The first element that is too far from the expected one; -1: none. */
static int64_t far_element(const struct operation_array *got, const struct operation_array *expected,
                           double tolerance)
{
    size_t n = got->n_bytes / (got->type == OPERATION_FLOATS ? sizeof(float) : sizeof(double));
    double largest = 0.0;
    for (size_t i = 0; i < n; i++) {
        double y = element(expected, i);
        largest = fmax(largest, isfinite(y) ? fabs(y) : 0.0);
    }
    for (size_t i = 0; i < n; i++) {
        double x = element(got, i), y = element(expected, i);
        if (x != y && !(isnan(x) && isnan(y)) && !(fabs(x - y) <= tolerance * largest)) {
            return (int64_t)i;
        }
    }
    return -1;
}

const char *operation_compare(const struct operation_results *got, const struct operation_results *expected,
                              double floats, double doubles)
{
    static char text[128];
    for (int k = 0; k < got->n || k < expected->n; k++) {
        const struct operation_array *a = &got->array[k], *b = &expected->array[k];
        double tolerance = a->type == OPERATION_FLOATS ? floats : doubles;
        if (k >= got->n || k >= expected->n || a->n_bytes != b->n_bytes) {
            snprintf(text, sizeof text, "result %d is of another size", k);
            return text;
        }
        if (memcmp(a->at, b->at, a->n_bytes) == 0) {
            continue;
        }
        if (tolerance == 0.0 || a->type == OPERATION_BYTES) {
            snprintf(text, sizeof text, "result %d has other bits", k);
            return text;
        }
        int64_t i = far_element(a, b, tolerance);
        if (i >= 0) {
            snprintf(text, sizeof text, "result %d, element %lld is %.9g, expected %.9g", k, (long long)i,
                     element(a, (size_t)i), element(b, (size_t)i));
            return text;
        }
    }
    return NULL;
}
