/* Row filters: which boundary rows travel in a training epoch.
 *
 * A filter decides by node and epoch. Both ends of a route apply it to their own list, so no list travels, and
 * results do not depend on where parts lie. It applies to every pair of parts and to deduplicated rows, forward and
 * backward. A sum over neighbours multiplies the rows that travel by 1/share; attention shifts their scores by
 * -log(share). Evaluations, and epochs of share 1, filter nothing.
 *
 * To add one: a key in protocol/job/job_keys.def, a file with a struct row_filter, and its name in row_filters.def.
 */
#ifndef MODELS_ROW_FILTER_H
#define MODELS_ROW_FILTER_H

#include "protocol/base/random.h"
#include "protocol/job/job.h"

#include <stdbool.h>
#include <stdint.h>

/* One epoch's. */
struct row_filter_epoch {
    struct random_key key; /* seed and epoch; stream RANDOM_STREAM_SAMPLE */
    uint64_t threshold;    /* share · 2³² */
};

struct row_filter {
    /* The share of rows that the job lets travel, from 0 to 1; 1: all, the filter is not used. */
    double (*share)(const struct job *job);
    /* Does the row of this node travel? Only asked where the epoch's share is below 1. */
    bool (*keeps)(const struct row_filter_epoch *epoch, uint32_t node);
};

/* The job's filter: the first one of the list with a share below 1; NULL: all rows travel. */
const struct row_filter *row_filter_of(const struct job *job);

/* Its share; 1 without one. */
double row_filter_share(const struct job *job);

#endif
