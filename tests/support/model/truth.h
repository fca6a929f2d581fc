/* The truth for values and gradients: a program evaluated in double on the whole graph, forward only, by plain loops.
 * Shares no code with ops or devices except the random numbers that define dropout.
 */
#ifndef TESTS_SUPPORT_TRUTH_H
#define TESTS_SUPPORT_TRUTH_H

#include "models/program/program.h"
#include "partition/graph/dataset.h"
#include "partition/part/partition.h"
#include "tests/support/model/objective.h"

#include <stdbool.h>
#include <stdint.h>

struct truth {
    const struct program *program;
    const struct dataset *graph;
    const float *features;             /* n_node × width of value 0 */
    const int32_t *labels;             /* n_node */
    const uint8_t *split;              /* n_node: the loss is over DATASET_SPLIT_TRAIN */
    const struct objective *objective; /* NULL: cross entropy, plain */
    uint64_t seed;
    uint32_t epoch;
    bool training;
    /* of edges between parts those from sampled nodes count, each 1/sampling times; 0: all of them */
    double sampling;
    const struct partition *partition; /* read of links, whose pairs are drawn by parts */
    const int32_t *owner;              /* n_node: parts; read with sampling, and with held */
    double **value;                    /* n_value: n_node × width, by truth_loss */
    /* n_value: what edges between parts read of their sources in place of the value; NULL: the value */
    double **held;
    double **returned; /* n_value: gradients that values have from elsewhere; NULL entries: none. NULL: none at all */
    double *weights;   /* n_weight, set by the caller */
};

void truth_open(const struct program *program, const struct dataset *graph, struct truth *out);
void truth_release(struct truth *truth);

/* Mean loss over the training rows, after filling `value`. */
double truth_loss(struct truth *truth);

/* d objective / d held of one value, by central differences; out n_node × width. */
void truth_gradient_held(struct truth *truth, int value, double *out);

/* d objective / d weights by central differences; out n_weight, 0 for parameters that are not trained. */
void truth_gradient(struct truth *truth, double *out);

#endif
