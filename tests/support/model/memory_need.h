/* What jobs need by their plans alone, on parts whose sizes are given, and what the vanilla scheme would need there. */
#ifndef TESTS_SUPPORT_MEMORY_NEED_H
#define TESTS_SUPPORT_MEMORY_NEED_H

#include "partition/part/part.h"

#include <stdint.h>

struct memory_parts {
    int32_t n_part;
    const struct part_sizes *sizes; /* n_part; symmetric, dense features */
    int64_t n_feature;              /* 0: nodes have none, but an embedding each */
    int32_t n_class;
};

/* Of the worker that needs most, in bytes. */
struct memory_need {
    int64_t own;        /* activations and payloads */
    int64_t parameters; /* with gradients and what the optimizer keeps */
    int64_t
        vanilla; /* the same where nothing is made again, every layer's halo rows stay until backward, and attention keeps three
                      * arrays of edges × heads: scores, their exponentials, coefficients */
    int64_t n_wire;       /* payload bytes received per training epoch, all workers together … */
    int64_t n_wire_least; /* … and what 2 · halo rows · columns forward are */
};

/* `model` is the job's [model] section and what follows it. Parts are dealt out in order; n_rank divides n_part. */
struct memory_need memory_need(const struct memory_parts *parts, const char *model, int n_rank, int prefetch,
                               const char *recompute);

#endif
