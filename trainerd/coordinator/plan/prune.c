#include "trainerd/coordinator/plan/prune.h"

#include "partition/methods/reach.h"

#define LEFT_OUT_LEAST 0.1

/* The counts of a job, and of one that leaves out nothing. */
static struct prune counts_of(const struct dataset *dataset, const struct reach *reach)
{
    struct prune prune = {.n_hop = reach != NULL ? reach->n_hop : 0};
    for (int32_t l = 0; l < prune.n_hop; l++) {
        prune.n_row[l] = reach->n_node[l];
        prune.n_edge[l] = reach->n_edge[l];
    }
    prune.n_row[prune.n_hop] = dataset->n_node;
    prune.n_edge[prune.n_hop] = dataset->n_edge;
    return prune;
}

static double work_of(const struct program *program, const struct prune *prune)
{
    return program_work(program, prune->n_hop, prune->n_row, prune->n_edge);
}

enum status prune_build(const struct job *job, const struct dataset *dataset, const struct program *program,
                        struct partition *partition, struct prune *out)
{
    const struct prune all = counts_of(dataset, NULL);
    int32_t n_hop = program_n_hop(program);
    *out = all;
    if (job->train.prune == JOB_PRUNE_NEVER || n_hop == 0 || dataset->n_split[DATASET_SPLIT_TRAIN] == 0) {
        return STATUS_OK;
    }
    struct reach reach;
    enum status status = reach_build(dataset, n_hop < PART_N_HOP_MOST ? n_hop : PART_N_HOP_MOST, &reach);
    if (status != STATUS_OK) {
        return status;
    }
    struct prune pruned = counts_of(dataset, &reach);
    pruned.left_out = 1.0 - work_of(program, &pruned) / work_of(program, &all);
    if (job->train.prune == JOB_PRUNE_ALWAYS || pruned.left_out > LEFT_OUT_LEAST) {
        status = reach_order(&reach, partition);
        *out = pruned;
    }
    reach_release(&reach);
    return status;
}
