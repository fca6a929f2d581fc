/* The memory and traffic that jobs need by their plans, on parts of given sizes, and the memory that the vanilla scheme needs. */
#ifndef TESTS_SUPPORT_MEMORY_NEED_H
#define TESTS_SUPPORT_MEMORY_NEED_H

#include "partition/part/part.h"

#include <stdint.h>

struct memory_parts {
    int32_t n_part;
    const struct part_sizes *sizes; /* n_part; symmetric, dense features */
    int64_t n_feature;              /* 0: nodes have no features, but an embedding each */
    int32_t n_class;
    int64_t n_edge_feature;
    int32_t n_relation;
};

/* Bytes, of the worker that needs most. */
struct memory_need {
    int64_t own;          /* activations and payloads */
    int64_t parameters;   /* with gradients and the optimizer's state */
    int64_t vanilla;      /* `own` of the vanilla scheme, below */
    int64_t n_wire;       /* payload bytes received per training epoch, all workers together … */
    int64_t n_wire_least; /* … and 2 · halo rows · columns forward */
};

/* `model` is the job's [model] section and the text after it. Rank 0 has the first n_part / n_rank parts, and so on; n_rank divides
 * n_part. The vanilla scheme recomputes nothing, saves every layer's halo rows until backward, and for attention saves three arrays of
 * edges × heads: scores, their exponentials, coefficients.
 */
struct memory_need memory_need(const struct memory_parts *parts, const char *model, int n_rank, int prefetch,
                               const char *recompute);

#endif
