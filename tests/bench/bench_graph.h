/* What benchmarks over graphs share: memory of a device, and a graph loaded and ordered the way a job's is. */
#ifndef TESTS_BENCH_BENCH_GRAPH_H
#define TESTS_BENCH_BENCH_GRAPH_H

#include "models/device/device.h"
#include "partition/part/part.h"
#include "tests/support/graphs/part_encode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void *bench_take(struct device *device, size_t n_bytes)
{
    void *block = NULL;
    if (device->ops->acquire(device, DEVICE_PLACE_DEVICE, MEMORY_OTHER, n_bytes, &block) != STATUS_OK) {
        fprintf(stderr, "%s\n", status_reason());
        exit(status_exit_code(STATUS_NOMEM));
    }
    return block;
}

/* Load, order and encode a graph the way a job does, as one part; its diagonal block is the graph. */
static inline struct device_block bench_graph_open(const char *name, const char *job_text)
{
    static struct job job;
    struct dataset dataset;
    struct partition partition;
    static struct part part;
    void *bytes = NULL;
    size_t n_bytes = 0;
    enum status status = job_load_text(job_text, strlen(job_text), name, NULL, 0, &job);
    status = status == STATUS_OK ? dataset_load(&job, &dataset) : status;
    status = status == STATUS_OK ? partition_build(&dataset, &job, &partition) : status;
    status = status == STATUS_OK ? part_encode(&dataset, &partition, 0, &bytes, &n_bytes) : status;
    status = status == STATUS_OK ? part_open(bytes, n_bytes, &part) : status;
    if (status != STATUS_OK) {
        fprintf(stderr, "%s\n", status_reason());
        exit(status_exit_code(status));
    }
    const struct part_block block = part_block(&part, PART_DIRECTION_IN, 0);
    struct device_block graph = {.n_row = block.n_row,
                                 .n_col = block.n_col,
                                 .n_edge = block.n_edge,
                                 .indptr = block.indptr,
                                 .cols = block.cols};
    partition_release(&partition);
    dataset_release(&dataset);
    return graph;
}

#endif
