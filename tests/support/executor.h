/* The trainer's role in one process and without exchange: interprets a program's lists of steps over K parts.
 * Every value keeps its own memory, so a plan's mistakes cannot hide an op's.
 */
#ifndef TESTS_SUPPORT_EXECUTOR_H
#define TESTS_SUPPORT_EXECUTOR_H

#include "models/steps/step.h"
#include "tests/support/graphs/graph.h"
#include "tests/support/model/objective.h"

#include <stdbool.h>
#include <stdint.h>

struct executor_setup {
    const struct program *program;
    /* the same without embeddings, every weight whole: as weights come and gradients go */
    const struct program *plain;
    const struct device_ops *ops;
    const struct test_graph *graph;
    int n_part;
    const int32_t *owner;              /* n_node: the part of each node; NULL: drawn at random */
    const float *features;             /* n_node × width of value 0, also when the program takes them sparse */
    const int32_t *labels;             /* n_node */
    const uint8_t *split;              /* n_node */
    const struct objective *objective; /* NULL: cross entropy, plain */
    uint64_t seed;                     /* of dropout */
    uint32_t epoch;
    bool training;   /* dropout is on */
    double sampling; /* where the program samples: p */
};

struct executor;

struct executor *executor_open(const struct executor_setup *setup);
void executor_close(struct executor *executor);

/* Forward from these weights (plain->n_weight); returns the mean loss over the training rows. */
double executor_forward(struct executor *executor, const float *weights);

/* After executor_forward: gradients of all weights, summed over parts (plain->n_weight). */
void executor_backward(struct executor *executor, float *grad_out);

/* Draw the rows of this epoch's sample, and all else that is random, as of another epoch. */
void executor_epoch(struct executor *executor, uint32_t epoch);

/* A value in the order of nodes: n_node × width. */
void executor_value(struct executor *executor, int value, float *out);

#endif
