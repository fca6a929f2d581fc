/* Holds a program on a device against the truth in double: loss, every value, every gradient. */
#ifndef TESTS_SUPPORT_GRADIENT_H
#define TESTS_SUPPORT_GRADIENT_H

#include "models/program.h"
#include "tests/support/graphs/graph.h"

#include <stdbool.h>

struct gradient_case {
    const char *what; /* named in failures */
    const struct program *program;
    const struct test_graph *graph;
    bool training; /* as an epoch trains; else as one evaluates, backward all the same */
    bool zeros;    /* most features are 0 (for sparse programs) */
};

/* On every device, for 1, 2, 3 and 5 parts; fails the running test with what differs and by how much. */
void gradient_check(const struct gradient_case *one);

/* ‖x − truth‖ / ‖truth‖ over n numbers, and ‖truth‖ alone. */
double relative_error(const float *x, const double *truth, int64_t n);
double norm(const double *x, int64_t n);

/* Both devices that tests run on. */
extern const struct device_ops *const test_devices[2];

#endif
