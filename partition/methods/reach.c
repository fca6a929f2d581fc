#include "partition/methods/reach.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <string.h>

/* Nodes with an edge to a node of hop `now` and no shorter path to a training node have hop now + 1. */
static int64_t step(const struct dataset *dataset, uint8_t *hop, uint8_t now, const uint32_t *front, int64_t n_front,
                    uint32_t *next)
{
    int64_t n = 0;
    for (int64_t f = 0; f < n_front; f++) {
        int64_t v = front[f];
        for (int64_t i = dataset->indptr[v]; i < dataset->indptr[v + 1]; i++) {
            uint32_t u = dataset->indices[i];
            if (hop[u] > now + 1) {
                hop[u] = (uint8_t)(now + 1);
                next[n++] = u;
            }
        }
    }
    return n;
}

enum status reach_build(const struct dataset *dataset, int32_t n_hop, struct reach *out)
{
    ASSERT(n_hop >= 1 && n_hop <= PART_N_HOP_MOST);
    struct reach reach = {.n_hop = n_hop, .n_all = dataset->n_node};
    uint32_t *queue; /* each node enters it once, hop after hop */
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)reach.n_all, sizeof *reach.hop, &reach.hop);
    status = status == STATUS_OK ? memory_acquire(MEMORY_OTHER, (size_t)reach.n_all, sizeof *queue, &queue) : status;
    if (status != STATUS_OK) {
        reach_release(&reach);
        return status;
    }
    int64_t n_front = 0, begin = 0;
    for (int64_t v = 0; v < reach.n_all; v++) {
        bool trains = dataset->labels.split[v] == DATASET_SPLIT_TRAIN;
        reach.hop[v] = (uint8_t)(trains ? 0 : n_hop);
        if (trains) {
            queue[n_front++] = (uint32_t)v;
        }
    }
    for (int32_t hop = 0; hop < n_hop; hop++) {
        reach.n_node[hop] = begin + n_front;
        reach.n_edge[hop] = hop > 0 ? reach.n_edge[hop - 1] : 0;
        for (int64_t f = begin; f < begin + n_front; f++) {
            reach.n_edge[hop] += dataset->indptr[queue[f] + (int64_t)1] - dataset->indptr[queue[f]];
        }
        const uint32_t *front = queue + begin;
        begin += n_front;
        n_front = hop + 1 < n_hop ? step(dataset, reach.hop, (uint8_t)hop, front, n_front, queue + begin) : 0;
    }
    memory_release(MEMORY_OTHER, queue, (size_t)reach.n_all, sizeof *queue);
    *out = reach;
    return STATUS_OK;
}

void reach_release(struct reach *reach)
{
    memory_release(MEMORY_OTHER, reach->hop, (size_t)reach->n_all, sizeof *reach->hop);
    reach->hop = NULL;
}

enum status reach_order(struct reach *reach, struct partition *partition)
{
    uint32_t *sorted;
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)partition->n_node, sizeof *sorted, &sorted);
    if (status != STATUS_OK) {
        return status;
    }
    for (int32_t part = 0; part < partition->n_part; part++) {
        int64_t begin = partition->part_begin[part], end = partition->part_begin[part + 1];
        int64_t at[PART_N_HOP_MOST + 2] = {0}; /* where the next node of each hop goes */
        for (int64_t i = begin; i < end; i++) {
            at[reach->hop[partition->order[i]] + 1]++;
        }
        for (int32_t h = 0; h <= reach->n_hop; h++) {
            at[h + 1] += at[h];
        }
        for (int64_t i = begin; i < end; i++) {
            uint32_t v = partition->order[i];
            sorted[begin + at[reach->hop[v]]++] = v;
        }
    }
    memcpy(partition->order, sorted, (size_t)partition->n_node * sizeof *sorted);
    memory_release(MEMORY_OTHER, sorted, (size_t)partition->n_node, sizeof *sorted);
    partition->n_hop = reach->n_hop;
    partition->hop = reach->hop;
    reach->hop = NULL;
    return STATUS_OK;
}
