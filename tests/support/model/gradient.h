/* Compares a program in a trainer with the truth in double: an evaluation's logits, training's loss and gradients. */
#ifndef TESTS_SUPPORT_GRADIENT_H
#define TESTS_SUPPORT_GRADIENT_H

#include "models/program/program.h"
#include "tests/support/graphs/tiny_graph.h"
#include "tests/support/model/objective.h"

#include <stdbool.h>

struct gradient_case {
    const char *what; /* named in failures */
    const struct program *program;
    const struct tiny_graph *graph;    /* features and labels are drawn */
    double sampling;                   /* p of a program that samples; 0: none */
    bool zeros;                        /* most features are 0 (for sparse programs) */
    const struct objective *objective; /* NULL: cross entropy, plain */
    double tolerance;                  /* relative, of all that is compared; 0: as usual */
};

/* On every device, for 1, 2, 3 and 5 parts; a failure names what differs and by how much, and ends the test. */
void gradient_check(const struct gradient_case *one);

/* ‖x − truth‖ / ‖truth‖ over n numbers, and ‖truth‖ alone. */
double relative_error(const float *x, const double *truth, int64_t n);
double norm(const double *x, int64_t n);

/* The devices that tests run on; in emulated builds the cuda device alone, as other builds have the others. */
#ifdef CUDA_EMULATED
#define TEST_N_DEVICE 1
#else
#define TEST_N_DEVICE 3
#endif
extern const struct device_ops *const test_devices[TEST_N_DEVICE];

#endif
