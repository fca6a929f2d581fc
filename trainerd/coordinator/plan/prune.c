#include "trainerd/coordinator/plan/prune.h"

#include "partition/part/reach.h"
#include "worker/plan/memory_plan.h"

#define LEFT_OUT_LEAST 0.1

/* What it costs to walk blocks one by one: each row of a block as so many edges, and each block. Measured with SAGE
 * of 2 × 64 and 32 edges a node: 8 parts 1.5 times the merged epoch, 1024 parts 8 times. */
#define BLOCK_ROW_EDGES 2.0
#define BLOCK_EDGES 20.0

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

/* Are blocks merged where one worker has all parts, and all rows count (worker/route/merged.h)? */
static bool would_merge(const struct program *program, const struct dataset *dataset, int32_t n_part)
{
    double n_block_row = (double)dataset->n_node * n_part;
    return n_part > 1 && dataset->n_edge > 0 && (double)dataset->n_edge <= MEMORY_MERGED_ROW_EDGES * n_block_row &&
           memory_plan_has_sums(program, PART_DIRECTION_IN);
}

/* The time of sums block by block over that of merged ones of all rows, from counts alone. */
static double walk_of(const struct dataset *dataset, int32_t n_part, double left_out)
{
    double n_edge = (double)dataset->n_edge, n_block_row = (double)dataset->n_node * n_part;
    double rows = n_block_row < n_edge ? n_block_row : n_edge; /* that have edges */
    return (1.0 - left_out) * (1.0 + BLOCK_ROW_EDGES * rows / n_edge) + BLOCK_EDGES * n_part * n_part / n_edge;
}

/* Blocks of pruned rows are not merged. So several workers, which never merge, gain by pruning what one may lose:
 * auto prunes where the gain is at least the loss. */
static bool pays(const struct program *program, const struct dataset *dataset, int32_t n_part, double left_out)
{
    if (left_out <= LEFT_OUT_LEAST || !would_merge(program, dataset, n_part)) {
        return left_out > LEFT_OUT_LEAST;
    }
    double loss = walk_of(dataset, n_part, left_out), gain = walk_of(dataset, n_part, 0.0) / loss;
    return gain >= loss;
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
    if (job->train.prune == JOB_PRUNE_ALWAYS || pays(program, dataset, partition->n_part, pruned.left_out)) {
        status = reach_order(&reach, partition);
        *out = pruned;
    }
    reach_release(&reach);
    return status;
}

int64_t prune_rows(const struct prune *prune, int32_t hop)
{
    return prune->n_row[hop < prune->n_hop ? hop : prune->n_hop];
}

int64_t prune_edges(const struct prune *prune, int32_t hop)
{
    return prune->n_edge[hop < prune->n_hop ? hop : prune->n_hop];
}
