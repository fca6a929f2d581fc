/* From a dataset to the owners of its nodes: the table of methods, the order, the cache around them, and the
 * figures. */
#include "partition/part/partition.h"

#include "partition/methods/order.h"
#include "partition/methods/partition_cache.h"
#include "partition/methods/partition_method.h"
#include "partition/part/part_side.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

typedef enum status partition_method(const struct dataset *dataset, const struct job *job, int32_t n_part,
                                     int32_t *owner);

static partition_method *const methods[JOB_METHOD_N] = {
    [JOB_METHOD_METIS] = partition_metis,
    [JOB_METHOD_BLOCK] = partition_block,
    [JOB_METHOD_RANDOM] = partition_random,
    [JOB_METHOD_FILE] = partition_file,
};

static void count_parts(struct partition *partition)
{
    for (int64_t v = 0; v < partition->n_node; v++) {
        partition->part_begin[partition->owner[v] + 1]++;
    }
    for (int32_t p = 0; p < partition->n_part; p++) {
        partition->part_begin[p + 1] += partition->part_begin[p];
    }
}

static enum status acquire(int32_t n_part, int64_t n_node, struct partition *out)
{
    *out = (struct partition){.n_part = n_part, .n_node = n_node};
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)n_node, sizeof *out->owner, &out->owner);
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, (size_t)n_part + 1, sizeof *out->part_begin, &out->part_begin);
    }
    if (status == STATUS_OK) {
        status = memory_acquire(MEMORY_OTHER, (size_t)n_node, sizeof *out->order, &out->order);
    }
    return status;
}

/* Owners by the job's method (unless `given`), then the order. */
static enum status cut(const struct dataset *dataset, const struct job *job, bool given, struct partition *partition)
{
    enum status status = STATUS_OK;
    if (partition->n_part == 1) {
        memset(partition->owner, 0, (size_t)partition->n_node * sizeof *partition->owner);
    } else if (!given) {
        status = methods[job->partition.method](dataset, job, partition->n_part, partition->owner);
    }
    if (status != STATUS_OK) {
        return status;
    }
    count_parts(partition);
    return order_build(dataset, partition->owner, partition->n_part, partition->part_begin, partition->order);
}

static bool is_cut_by_metis(const struct job *job)
{
    return job->partition.method == JOB_METHOD_METIS && job->partition.parts > 1;
}

int64_t partition_metis_bytes(const struct dataset *dataset, const struct job *job)
{
    return is_cut_by_metis(job) ? metis_bytes(dataset, job) : 0;
}

bool partition_is_kept(const struct dataset *dataset, const struct job *job)
{
    struct partition_cache cache;
    if (!is_cut_by_metis(job)) {
        return false;
    }
    partition_cache_find(dataset, job, (int32_t)job->partition.parts, NULL, &cache);
    return cache.folder[0] != '\0' && access(cache.path, R_OK) == 0;
}

enum status partition_build(const struct dataset *dataset, const struct job *job, struct partition *out)
{
    int32_t n_part = (int32_t)job->partition.parts;
    ASSERT(n_part > 0);
    if (n_part > dataset->n_node) {
        return status_fail(STATUS_CONFIG, "partition.parts = %d, expected at most the graph's %lld nodes", n_part,
                           (long long)dataset->n_node);
    }
    struct partition partition;
    struct partition_cache cache;
    /* A partition that came with the job is part of the key, so it is read first. */
    bool given = n_part > 1 && job->partition.method == JOB_METHOD_FILE;
    enum status status = acquire(n_part, dataset->n_node, &partition);
    if (status == STATUS_OK && given) {
        status = partition_file(dataset, job, n_part, partition.owner);
    }
    if (status == STATUS_OK) {
        partition_cache_find(dataset, job, n_part, given ? partition.owner : NULL, &cache);
        if (!partition_cache_load(&cache, &partition)) {
            status = cut(dataset, job, given, &partition);
            if (status == STATUS_OK) {
                partition_cache_save(&cache, &partition);
            }
        }
    }
    if (status != STATUS_OK) {
        partition_release(&partition);
        return status;
    }
    *out = partition;
    return STATUS_OK;
}

void partition_release(struct partition *partition)
{
    memory_release(MEMORY_OTHER, partition->hop, (size_t)partition->n_node, sizeof *partition->hop);
    memory_release(MEMORY_OTHER, partition->order, (size_t)partition->n_node, sizeof *partition->order);
    memory_release(MEMORY_OTHER, partition->part_begin, (size_t)partition->n_part + 1, sizeof *partition->part_begin);
    memory_release(MEMORY_OTHER, partition->owner, (size_t)partition->n_node, sizeof *partition->owner);
    *partition = (struct partition){0};
}

/* The largest and the sum of a figure of every part. */
struct spread {
    int64_t most, sum;
};

static void spread_add(struct spread *spread, int64_t value)
{
    spread->most = value > spread->most ? value : spread->most;
    spread->sum += value;
}

/* Largest over mean; 1 without entries. */
static double imbalance(const struct spread *spread, int32_t n)
{
    return spread->sum == 0 ? 1.0 : (double)spread->most * n / (double)spread->sum;
}

/* Stored edges of a node with itself. */
static int64_t loops_of(const struct dataset *dataset, uint32_t v)
{
    int64_t n = 0;
    for (int64_t i = dataset->indptr[v]; i < dataset->indptr[v + (int64_t)1]; i++) {
        n += dataset->indices[i] == v;
    }
    return n;
}

enum status partition_measure(const struct dataset *dataset, const struct partition *partition,
                              struct partition_quality *out)
{
    struct side_tables tables;
    struct spread node = {0}, edge = {0}, halo = {0};
    int64_t n_cut = 0;
    enum status status = side_tables_open(dataset, partition, &tables);
    for (int32_t p = 0; p < partition->n_part && status == STATUS_OK; p++) {
        struct side side;
        int64_t n_edge = 0, n_halo = 0;
        status = side_count(&tables, PART_DIRECTION_IN, p, NULL, false, &side);
        for (int32_t b = 0; b < side.n_block; b++) {
            bool own = side.block[b].part == p;
            n_edge += side.block[b].counts.n_edge;
            n_cut += own ? 0 : side.block[b].counts.n_edge;
            n_halo += own ? 0 : side.block[b].counts.n_col;
        }
        for (int64_t r = 0; r < side.n_own; r++) {
            n_edge -= loops_of(dataset, side.node[r]);
        }
        spread_add(&node, side.n_own);
        spread_add(&edge, n_edge);
        spread_add(&halo, n_halo);
        side_release(&side);
    }
    side_tables_close(&tables);
    if (status == STATUS_OK) {
        *out = (struct partition_quality){.n_cut = n_cut,
                                          .n_halo = halo.sum,
                                          .halo_ratio = (double)halo.sum / (double)dataset->n_node,
                                          .imbalance_node = imbalance(&node, partition->n_part),
                                          .imbalance_edge = imbalance(&edge, partition->n_part),
                                          .imbalance_halo = imbalance(&halo, partition->n_part)};
    }
    return status;
}
