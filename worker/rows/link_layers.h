/* Where a decoder's layers keep what they make of some pairs (task.decoder = "mlp"). */
#ifndef WORKER_LINK_LAYERS_H
#define WORKER_LINK_LAYERS_H

#include "models/program/program.h"
#include "protocol/job/job.h"

#include <stdbool.h>
#include <stdint.h>

/* Pairs at a time. */
#define LINK_LAYERS_PAIRS 1024
#define LINK_LAYERS_MOST 8

struct link_layers {
    int n;
    int64_t width[LINK_LAYERS_MOST + 1]; /* columns: products of rows, outputs of layers */
    int64_t at[LINK_LAYERS_MOST + 1];    /* bytes to each of these, LINK_LAYERS_PAIRS rows */
    int64_t grad_at[2];                  /* likewise to gradients of two of them */
    int64_t scratch_at;
    int64_t n_bytes;
};

/* false: the decoder has no layers, and *out has no bytes. */
bool link_layers_of(const struct program *program, const struct job *job, const struct device_ops *ops,
                    struct link_layers *out);

#endif
