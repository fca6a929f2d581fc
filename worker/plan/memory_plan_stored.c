/* Inputs stored once (program_store): when they are, and the memory that passes take which make halo rows' gradients
 * for themselves. */
#include "worker/plan/memory_plan.h"

/* Halo rows of all parts together, at most so many times the nodes: their features, and rows of the first layer, come
 * to the parts' own. A dense linear map costs as much for a halo row as for an own one. */
#define HALO_MOST_SPARSE 2.0
#define HALO_MOST_DENSE 0.5

bool memory_plan_stores(const struct job *job, const struct program *program, bool is_embedded, int64_t n_node,
                        int64_t n_halo, uint32_t n_rank)
{
    bool inputs = false, maps = false, sparse = program->value[0].is_sparse;
    for (int i = 0; i < program->n_op; i++) {
        enum program_stored stored = program_stored(program, &program->op[i]);
        inputs = inputs || stored == PROGRAM_STORED_INPUT;
        maps = maps || stored == PROGRAM_STORED_MAP;
    }
    double ratio = (double)n_halo / (double)n_node;
    bool others = inputs && (n_rank > 1 || program_is_lossy(program));
    return job->exchange.store_inputs && !is_embedded && n_halo > 0 && (maps || others) &&
           ratio <= (sparse ? HALO_MOST_SPARSE : HALO_MOST_DENSE);
}

bool memory_plan_maps_own(const struct job *job, const struct program *program, uint32_t n_rank)
{
    bool maps = n_rank == 1 && !memory_plan_spills(job) && !program_is_lossy(program) && program->value[0].is_sparse;
    for (int i = 0; i < program->n_op && maps; i++) {
        const struct op *op = &program->op[i];
        maps = !program_reads_stored(program, op) || !aggregate_defs[op->aggregate]->attends;
    }
    return maps;
}

/* Schedules are of all rows, and of those up to each hop that stored passes walk. */
int64_t memory_plan_stored_schedules(const struct memory_plan_input *in, const struct memory_plan_part *own)
{
    const struct part_pairs *pairs = &own->halo->pairs[PART_DIRECTION_IN];
    const struct part_pair all = part_pair_off_diagonal(pairs, pairs->n_pair);
    if (!program_stores(in->program) || memory_plan_remap(in, own, PART_DIRECTION_IN) == 0) {
        return 0;
    }
    int32_t n_walked = 1;
    for (int32_t hop = 0; hop < own->halo->n_hop; hop++) {
        n_walked += program_stores_at(in->program, hop);
    }
    return n_walked * (int64_t)DEVICE_BYTES(in->ops, BLOCKS, pairs->n_pair, all.row, all.edge);
}
