#include "tests/support/graphs/cut_graph.h"
#include "tests/support/graphs/part_encode.h"

#include "partition/methods/reach.h"
#include "protocol/base/memory.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

/* Rows against the order of their numbers, so that no row's columns come sorted. */
static void reverse(struct partition *partition)
{
    for (int32_t p = 0; p < partition->n_part; p++) {
        for (int64_t a = partition->part_begin[p], b = partition->part_begin[p + 1] - 1; a < b; a++, b--) {
            uint32_t swap = partition->order[a];
            partition->order[a] = partition->order[b];
            partition->order[b] = swap;
        }
    }
}

struct part cut_part(const struct dataset *dataset, const struct partition *partition, int32_t p)
{
    void *bytes = NULL;
    size_t n_bytes = 0;
    struct part part = {0};
    cr_assert_eq(part_encode(dataset, partition, p, &bytes, &n_bytes), STATUS_OK, "%s", status_reason());
    cr_assert_eq(part_open(bytes, n_bytes, &part), STATUS_OK, "%s", status_reason());
    return part;
}

void cut_part_close(struct part *part)
{
    memory_release(MEMORY_OTHER, part->bytes, (size_t)part->n_bytes, 1);
    part_release(part);
}

void cut_open(const struct tiny_graph *graph, int n_part, int method, int n_hop, struct cut *cut)
{
    struct job job;
    job_defaults(&job);
    job.partition.parts = n_part;
    job.partition.method = method;
    snprintf(job.partition.cache, sizeof job.partition.cache, "off");
    cut->dataset = tiny_build(graph);
    cr_assert_eq(partition_build(&cut->dataset, &job, &cut->partition), STATUS_OK, "%s", status_reason());
    reverse(&cut->partition);
    bool shared_columns = graph->features != TINY_FEATURES_NONE && graph->features != TINY_FEATURES_TYPED;
    cut->partition.stores = method == JOB_METHOD_RANDOM && shared_columns && graph->n_relation == 0 &&
                            graph->n_edge_feature == 0;
    if (n_hop > 0) {
        struct reach reach;
        cr_assert_eq(reach_build(&cut->dataset, n_hop, &reach), STATUS_OK);
        cr_assert_eq(reach_order(&reach, &cut->partition), STATUS_OK);
    }
    cut->part = calloc((size_t)n_part, sizeof *cut->part);
    for (int p = 0; p < n_part; p++) {
        cut->part[p] = cut_part(&cut->dataset, &cut->partition, p);
    }
}

void cut_close(struct cut *cut)
{
    for (int p = 0; p < cut->partition.n_part; p++) {
        cut_part_close(&cut->part[p]);
    }
    free(cut->part);
    partition_release(&cut->partition);
    tiny_release(&cut->dataset);
}

void cut_every(void (*check)(struct cut *cut))
{
    const int n_parts[] = {1, 2, 3, 7};
    for (int kind = 0; kind < 24; kind++) {
        struct tiny_graph graph = {.n_node = 37,
                                   .n_draw = kind % 4 == 3 ? 700 : 120,
                                   .symmetric = (kind < 16 || kind >= 20) && kind & 1,
                                   .n_relation = kind < 16 || kind >= 20 ? 0 : kind - 12,
                                   .n_edge_feature = kind < 20 ? 0 : kind - 19,
                                   .weighted = kind < 16 && kind % 5 > 2,
                                   .loops = kind & 2,
                                   .multi_label = kind & 4,
                                   .features = (enum tiny_features)(kind / 4 % 4),
                                   .seed = (uint64_t)kind};
        for (int k = 0; k < 4; k++) {
            for (int m = 0; m < 2; m++) {
                struct cut cut;
                cut_open(&graph, n_parts[k], m == 0 ? JOB_METHOD_BLOCK : JOB_METHOD_RANDOM, m * (kind % 4), &cut);
                check(&cut);
                cut_close(&cut);
            }
        }
    }
}
