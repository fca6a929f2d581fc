/* What a job computes by the layers' definitions, in double on the whole graph: tests/support/model/truth.h over a job's own data. */
#ifndef TESTS_EQUIVALENCE_WORLD_H
#define TESTS_EQUIVALENCE_WORLD_H

#include "partition/graph/dataset.h"
#include "partition/part/partition.h"
#include "protocol/job/job.h"
#include "tests/support/model/truth.h"

/* A job of one data set, with the truth over its graph: initial weights, training. */
struct world {
    struct job job;
    struct dataset dataset;
    struct partition partition;
    struct program program;
    struct truth truth;
};

/* Of a job's text. A failure ends the test. Not before processes are forked: it has threads. */
void world_open(const char *text, struct world *w);
void world_close(struct world *w);

#endif
