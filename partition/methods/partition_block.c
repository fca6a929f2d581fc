/* Contiguous ranges of nodes: for graphs with meaningful numbers, and for graphs past METIS's limit. */
#include "partition/methods/partition_method.h"

int64_t partition_weight(const struct dataset *dataset, int balance, int64_t node)
{
    int64_t degree = dataset->indptr[node + 1] - dataset->indptr[node];
    switch (balance) {
    case JOB_BALANCE_NODES:
        return 1;
    case JOB_BALANCE_EDGES:
        return degree + 1;
    default:
        return degree + 1 + (dataset->n_edge + dataset->n_node) / dataset->n_node;
    }
}

enum status partition_block(const struct dataset *dataset, const struct job *job, int32_t n_part, int32_t *owner)
{
    int balance = job->partition.balance;
    int64_t total = 0, sum = 0;
    for (int64_t v = 0; v < dataset->n_node; v++) {
        total += partition_weight(dataset, balance, v);
    }
    int32_t part = 0;
    for (int64_t v = 0; v < dataset->n_node; v++) {
        owner[v] = part;
        sum += partition_weight(dataset, balance, v);
        int64_t n_node_left = dataset->n_node - 1 - v;
        int32_t n_part_left = n_part - 1 - part;
        /* The last parts get one node each if a heavy range leaves no more than that. */
        if (n_part_left > 0 && (sum * n_part >= total * (part + 1) || n_node_left == n_part_left)) {
            part++;
        }
    }
    return STATUS_OK;
}
