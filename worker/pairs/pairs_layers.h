/* Where a decoder's layers keep what they make of some pairs (task.decoder = "mlp"). */
#ifndef WORKER_PAIRS_LAYERS_H
#define WORKER_PAIRS_LAYERS_H

#include "models/program/program.h"
#include "protocol/job/job.h"

#include <stdbool.h>
#include <stdint.h>

/* Pairs at a time. */
#define PAIRS_LAYERS_PAIRS 1024
#define PAIRS_LAYERS_MOST 8

struct pairs_layers {
    int n;
    int64_t width[PAIRS_LAYERS_MOST + 1]; /* columns: products of rows, outputs of layers */
    int64_t at[PAIRS_LAYERS_MOST + 1];    /* bytes to each of these, PAIRS_LAYERS_PAIRS rows */
    int64_t grad_at[2];                   /* likewise to gradients of two of them */
    int64_t scratch_at;
    int64_t n_bytes;
};

/* false: the decoder has no layers, and *out has no bytes. */
bool pairs_layers_of(const struct program *program, const struct job *job, const struct device_ops *ops,
                     struct pairs_layers *out);

#endif
