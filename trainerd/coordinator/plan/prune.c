#include "trainerd/coordinator/plan/prune.h"

#include "models/program/op.h"
#include "partition/methods/reach.h"

/* Attention over pruned rows goes block by block, not over merged blocks, which takes up to 1.5 times as long. */
#define LEFT_OUT_LEAST 0.1
#define LEFT_OUT_LEAST_ATTENTION 0.25

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

/* What the copies of transposed edges, one for each hop of an aggregate's output (part_hop.h), add to the memory of a
 * worker with all parts, as a share of it. Half of the program's arrays are taken to be alive at once. */
static double memory_added(const struct dataset *dataset, const struct program *program, const struct prune *prune)
{
    const double edge = sizeof(uint32_t) + (dataset->facts.weighted ? sizeof(float) : 0.0);
    const double n_node = (double)dataset->n_node, edges = edge * (double)dataset->n_edge; /* of one direction */
    double all = edges * (dataset->facts.symmetric ? 2.0 : 4.0), added = dataset->facts.symmetric ? 0.0 : -edges;
    for (int v = 0; v < program->n_value; v++) {
        double width = program->value[v].is_sparse ? 0.0 : sizeof(float) * (double)program->value[v].width;
        all += n_node * width * (v == 0 ? 1.0 : 0.5);
    }
    for (int32_t hop = 0; hop < prune->n_hop; hop++) {
        bool copied = false;
        for (int i = 0; i < program->n_op; i++) {
            const struct value *out = &program->value[program->op[i].out];
            copied = copied || (program->op[i].kind == OP_KIND_AGGREGATE && out->needs_grad && out->hop == hop);
        }
        double rows = (double)prune->n_row[hop + 1] * (sizeof(int64_t) + sizeof(uint32_t));
        added += copied ? edge * (double)prune->n_edge[hop] + rows : 0.0;
    }
    return added / all;
}

static double least_of(const struct program *program)
{
    bool attends = false;
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        attends = attends || (op->kind == OP_KIND_AGGREGATE && aggregate_defs[op->aggregate]->attends);
    }
    return attends ? LEFT_OUT_LEAST_ATTENTION : LEFT_OUT_LEAST;
}

enum status prune_build(const struct job *job, const struct dataset *dataset, const struct program *program,
                        struct partition *partition, struct prune *out)
{
    const struct prune all = counts_of(dataset, NULL);
    int32_t n_hop = program_n_hop(program);
    *out = all;
    if (job->train.prune == JOB_PRUNE_NEVER || n_hop == 0 || dataset->labels.n_split[DATASET_SPLIT_TRAIN] == 0) {
        return STATUS_OK;
    }
    struct reach reach;
    enum status status = reach_build(dataset, n_hop < PART_N_HOP_MOST ? n_hop : PART_N_HOP_MOST, &reach);
    if (status != STATUS_OK) {
        return status;
    }
    struct prune pruned = counts_of(dataset, &reach);
    pruned.left_out = 1.0 - work_of(program, &pruned) / work_of(program, &all);
    bool pays = pruned.left_out > least_of(program) && pruned.left_out > memory_added(dataset, program, &pruned);
    if (job->train.prune == JOB_PRUNE_ALWAYS || pays) {
        status = reach_order(&reach, partition);
        *out = pruned;
    }
    reach_release(&reach);
    return status;
}
