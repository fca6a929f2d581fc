/* One folder of float64 reference results: graph, weights, logits, losses; the script that made the folders defines them. */
#ifndef TESTS_GOLDEN_GOLDEN_CASE_H
#define TESTS_GOLDEN_GOLDEN_CASE_H

#include "models/program/program.h"

#include <stdint.h>

#define GOLDEN_N_LOSS 11

struct golden_case {
    char folder[4096];
    int64_t n_node, n_feature;
    int32_t n_class, n_relation;     /* 0: edges have no types */
    double *logits;                  /* n_node × n_class, of the initial weights */
    double adam_loss[GOLDEN_N_LOSS]; /* before each of ten Adam steps, and after the last */
};

/* Open case `name`. Without the reference data the calling test is skipped, with the reason; any other error fails it. */
void golden_open(const char *name, struct golden_case *out);
void golden_close(struct golden_case *golden);

/* A weight file, by path or of the case, in the program's layout (n_weight floats). */
void golden_weights_file(const char *path, const struct program *program, float *out);
void golden_weights(const struct golden_case *golden, const char *file, const struct program *program, float *out);

#endif
