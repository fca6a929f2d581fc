#include "trainerd/ctl/draw/curves.h"

#include "protocol/memory.h"
#include "trainerd/ctl/text.h"

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

void curves_add(struct curves *curves, const json_t *event)
{
    double at = number_of(event, "epoch");
    if (!isfinite(at)) {
        return;
    }
    while (curves->n > 0 && curves->at[curves->n - 1] >= at) {
        curves->n--;
    }
    if (curves->n == curves->capacity) {
        curves->capacity = curves->capacity == 0 ? 256 : 2 * curves->capacity;
        grow(&curves->at, curves->n, curves->capacity);
        for (int i = 0; i < CURVE_N; i++) {
            grow(&curves->value[i], curves->n, curves->capacity);
        }
    }
    curves->at[curves->n] = at;
    for (int i = 0; i < CURVE_N; i++) {
        curves->value[i][curves->n] = number_of(event, names[i].key);
    }
    curves->n++;
}

bool curves_range(const struct curves *curves, enum curve curve, double *least_io, double *most_io)
{
    bool found = false;
    for (size_t i = 0; i < curves->n; i++) {
        double value = curves->value[curve][i];
        if (isfinite(value)) {
            found = true;
            *least_io = value < *least_io ? value : *least_io;
            *most_io = value > *most_io ? value : *most_io;
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
