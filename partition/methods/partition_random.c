/* A seeded shuffle in pieces of even size: the worst case for comparisons. */
#include "partition/methods/partition_method.h"
#include "protocol/base/memory.h"
#include "protocol/base/random.h"

enum status partition_random(const struct dataset *dataset, const struct job *job, int32_t n_part, int32_t *owner)
{
    int64_t n = dataset->n_node;
    uint32_t *node;
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)n, sizeof *node, &node);
    if (status != STATUS_OK) {
        return status;
    }
    const struct random_key key = {.seed = (uint64_t)job->partition.seed, .stream = RANDOM_STREAM_PARTITION};
    for (int64_t i = 0; i < n; i++) {
        node[i] = (uint32_t)i;
    }
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t other = (int64_t)((uint64_t)random_u32(&key, (uint64_t)i, 0) * (uint64_t)(i + 1) >> 32);
        uint32_t swap = node[i];
        node[i] = node[other];
        node[other] = swap;
    }
    for (int64_t i = 0; i < n; i++) {
        owner[node[i]] = (int32_t)(i * n_part / n);
    }
    memory_release(MEMORY_OTHER, node, (size_t)n, sizeof *node);
    return STATUS_OK;
}
