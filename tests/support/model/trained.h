/* A program in the real trainer: a dataset cut into K parts, all of one process. */
#ifndef TESTS_SUPPORT_TRAINED_H
#define TESTS_SUPPORT_TRAINED_H

#include "partition/part/part.h"
#include "tests/support/model/objective.h"

#include <stdint.h>

struct trained_setup {
    const struct program *program;
    /* the same without embeddings, every weight whole: as weights come and gradients go */
    const struct program *plain;
    const struct dataset *dataset;
    const struct objective *objective; /* NULL: cross entropy, plain */
    int64_t seed;                      /* of all that is random */
    uint32_t epoch;
    double sampling; /* where the program samples: p */
};

struct trained {
    struct trained_setup setup;
    struct job job;
    struct partition partition; /* at random; owner: the part of each node */
    struct part *opened, **parts;
    uint32_t *rank_of_part;
};

/* Cut the graph into n_part parts. A failure ends the test. */
void trained_open(const struct trained_setup *setup, int n_part, struct trained *out);
void trained_close(struct trained *t);

/* An even number of parts recomputes all that can be; devices with memory of their own store all that can be on the host where there are
 * several parts. From these weights (plain->n_weight): the logits of an evaluation (n_node × n_class), then an epoch's loss and the
 * gradients of all weights (plain->n_weight). */
double trained_run(const struct trained *t, const struct device_ops *ops, const float *weights, float *logits_out,
                   float *grad_out);

#endif
