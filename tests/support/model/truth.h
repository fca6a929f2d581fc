/* The truth of gradients: a program evaluated in double on the whole graph, forward only, with loops of its own.
 * Shares no code with the ops or devices, but for the random numbers that dropout is defined by.
 */
#ifndef TESTS_SUPPORT_TRUTH_H
#define TESTS_SUPPORT_TRUTH_H

#include "models/program.h"
#include "tests/support/graphs/graph.h"

#include <stdbool.h>
#include <stdint.h>

struct truth {
    const struct program *program;
    const struct test_graph *graph;
    const float *features; /* n_node × width of value 0 */
    const int32_t *labels; /* n_node */
    const uint8_t *split;  /* n_node: the loss is over DATASET_SPLIT_TRAIN */
    uint64_t seed;
    uint32_t epoch;
    bool training;
    double **value;  /* n_value: n_node × width, by truth_loss */
    double *weights; /* n_weight; the caller sets them */
};

void truth_open(const struct program *program, const struct test_graph *graph, struct truth *out);
void truth_release(struct truth *truth);

/* Mean cross-entropy over the training rows, after filling `value`. */
double truth_loss(struct truth *truth);

/* d loss / d weights by central differences; out n_weight, 0 where nothing trains. */
void truth_gradient(struct truth *truth, double *out);

#endif
