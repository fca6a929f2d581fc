/* Which blocks are merged into one for sums over neighbours (worker/route/merged.h), and the bytes of that. */
#include "models/steps/epilogue.h"
#include "protocol/base/amounts.h"
#include "worker/plan/liveness.h"
#include "worker/plan/memory_plan.h"
#include "worker/rows/part_hop.h"

/* Has the aggregate a pass in this direction whose sums go edge after edge? */
static bool joins(const struct aggregate_def *def, enum part_direction d)
{
    bool any = d == PART_DIRECTION_IN && def->forward.joins;
    for (int k = 0; k < OP_N_BACKWARD; k++) {
        any = any || (def->backward[k].joins &&
                      (def->backward[k].direction == HALO_DIRECTION_OUT) == (d == PART_DIRECTION_OUT));
    }
    return any;
}

/* Does the op add up neighbours edge after edge, in a pass that walks this direction, over rows that lie in the
 * arena? An attention's lie in arrays of several hops where rows are left out, and then come block by block. */
static bool is_arena_sum(const struct memory_plan *plan, const struct program *program, const struct op *op,
                         enum part_direction d)
{
    if (op->kind != OP_KIND_AGGREGATE || !joins(aggregate_defs[op->aggregate], d)) {
        return false;
    }
    bool can = plan->merged.attention || !aggregate_defs[op->aggregate]->attends;
    bool stored = program->value[op->in[0]].hop == PROGRAM_HOP_HALO; /* whose rows lie apart */
    return can && !stored && !op->is_static && op->in[0] != 0 &&
           (d == PART_DIRECTION_IN || program->value[op->out].needs_grad);
}

/* Does such a sum have an output of this hop? The plan's n_hop: of any that all rows have. */
static bool has_sum(const struct memory_plan *plan, const struct program *program, enum part_direction d, int32_t hop)
{
    bool any = false;
    for (int i = 0; i < program->n_op && !any; i++) {
        int32_t of = program->value[program->op[i].out].hop;
        any = is_arena_sum(plan, program, &program->op[i], d) && (of < plan->n_hop ? of : plan->n_hop) == hop;
    }
    return any;
}

/* Does an attention over merged blocks drop coefficients by the ids of nodes, or a program read these? */
static bool reads_nodes(const struct memory_plan *plan, const struct program *program)
{
    bool any = false;
    for (int i = 0; i < program->n_op; i++) {
        const struct op *op = &program->op[i];
        bool reads = op->kind == OP_KIND_AGGREGATE && (op->dropout > 0.0 || op->aggregate >= AGGREGATE_KIND_EDGES);
        any = any || (reads && is_arena_sum(plan, program, op, PART_DIRECTION_IN));
    }
    return any;
}

/* Does some other aggregate with an output of this hop walk transposed blocks? */
static bool has_other(const struct memory_plan *plan, const struct program *program, int32_t hop)
{
    bool any = false;
    for (int i = 0; i < program->n_op && !any; i++) {
        const struct op *op = &program->op[i];
        any = part_hop_walks(program, op, PART_DIRECTION_OUT, hop) &&
              !is_arena_sum(plan, program, op, PART_DIRECTION_OUT);
    }
    return any;
}

/* Evaluations sum all rows, whatever training does. */
static bool is_walked(const struct memory_plan *plan, const struct program *program, enum part_direction d,
                      int32_t hop)
{
    bool any = false;
    if (program->forward_only && hop < plan->n_hop) {
        return false;
    }
    for (int32_t h = 0; h <= plan->n_hop && d == PART_DIRECTION_IN && hop == plan->n_hop; h++) {
        any = any || has_sum(plan, program, d, h);
    }
    return any || has_sum(plan, program, d, hop);
}

/* Are there blocks between own parts, and none with others'? Under a spill, all count as others'. */
static bool is_local(const struct memory_plan_input *in, enum part_direction d)
{
    bool any = false, remote = false;
    for (int32_t i = 0; i < in->n_own_part; i++) {
        any = any || memory_plan_has_pair(in, &in->own[i], d, true);
        remote = remote || memory_plan_has_pair(in, &in->own[i], d, false);
    }
    return any && !remote;
}

/* Have rows of blocks few edges? */
static bool is_sparse(const struct memory_plan_input *in, enum part_direction d)
{
    int64_t n_edge = 0, n_block_row = 0;
    for (int32_t i = 0; i < in->n_own_part; i++) {
        const struct part_pairs *pairs = &in->own[i].halo->pairs[d];
        n_edge += pairs->pair[pairs->n_pair].edge;
        n_block_row += pairs->n_pair * in->own[i].n_own;
    }
    return n_edge <= MEMORY_MERGED_ROW_EDGES * n_block_row;
}

/* Edges of the merged block of a hop; of transposed ones with the loops that are picked out with them. */
static int64_t edges_of(const struct memory_plan_input *in, enum part_direction d, int32_t hop)
{
    int64_t n = 0;
    for (int32_t i = 0; i < in->n_own_part; i++) {
        const struct memory_plan_part *own = &in->own[i];
        const struct part_pairs *pairs = &own->halo->pairs[d];
        int64_t n_edge = hop < own->halo->n_hop ? own->halo->n_edge_hop[d][hop] : pairs->pair[pairs->n_pair].edge;
        bool loops = own->implied_loops && d == PART_DIRECTION_OUT && hop < own->halo->n_hop;
        n += part_hop_edges(in->program, loops, n_edge, memory_plan_rows_own(own, hop));
    }
    return n;
}

static bool merges_any(const struct memory_plan *plan)
{
    bool any = false;
    for (int32_t hop = 0; hop <= plan->n_hop; hop++) {
        any = any || plan->merged.n_edge[PART_DIRECTION_IN][hop] > 0 ||
              plan->merged.n_edge[PART_DIRECTION_OUT][hop] > 0;
    }
    return any;
}

void memory_plan_merge(const struct memory_plan_input *in, struct memory_plan *plan)
{
    plan->merged.n_row[0] = plan->n_hop == 0 ? plan->rows.n_row : 0;
    for (int32_t hop = 0; hop <= plan->n_hop && plan->n_hop > 0; hop++) {
        for (int32_t i = 0; i < in->n_own_part; i++) {
            plan->merged.n_row[hop] += memory_plan_rows_own(&in->own[i], hop);
        }
    }
    /* A library's sums are those of a block. */
    bool own = in->job->model.kernel == JOB_KERNEL_OWN;
    bool can = own && in->ops->merged_edges > 0 && plan->rows.n_row < DEVICE_BACK;
    plan->merged.attention = can && in->ops->merges_attention && plan->n_hop == 0 && in->program->n_edge_feature == 0;
    for (int d = 0; d < PART_DIRECTION_N && can; d++) {
        enum part_direction of = (enum part_direction)d;
        bool merges = is_local(in, of) && is_sparse(in, of);
        for (int32_t hop = 0; hop <= plan->n_hop && merges; hop++) {
            bool shared = d == PART_DIRECTION_OUT && in->own[0].halo->symmetric && hop == plan->n_hop;
            bool walked = !shared && is_walked(plan, in->program, of, hop);
            plan->merged.n_edge[d][hop] = walked ? edges_of(in, of, hop) : 0;
        }
    }
    for (int32_t hop = 0; hop < plan->n_hop; hop++) {
        bool alone = plan->merged.n_edge[PART_DIRECTION_OUT][hop] > 0 && !has_other(plan, in->program, hop);
        plan->merged.alone |= alone ? UINT32_C(1) << hop : 0;
    }
    plan->merged.nodes = merges_any(plan) && (in->ops->takes_epilogue || reads_nodes(plan, in->program));
}

bool memory_plan_merges(const struct memory_plan *plan, const struct program *program, const struct op *op)
{
    return merges_any(plan) && is_arena_sum(plan, program, op, PART_DIRECTION_IN);
}

/* One block, and the device's schedule of it. Those of in-edges at a hop are the first rows of all. */
static int64_t block_bytes(const struct memory_plan_input *in, enum part_direction d, int32_t hop,
                           struct memory_plan *plan)
{
    int64_t n_edge = plan->merged.n_edge[d][hop];
    if (n_edge == 0) {
        return 0;
    }
    bool first = d == PART_DIRECTION_IN && hop < plan->n_hop;
    int64_t n_row = memory_merged_rows(plan, part_hop_rows(d, hop));
    int64_t made = first ? 0 : memory_merged_bytes(n_row, n_edge, in->own[0].weighted);
    return memory_plan_put(plan, MEMORY_SITE_LENT, MEMORY_STRUCTURE, made) +
           (int64_t)DEVICE_BYTES(in->ops, BLOCKS, 1, n_row, n_edge);
}

int64_t memory_plan_merged(const struct memory_plan_input *in, bool scaled, struct memory_plan *plan)
{
    int64_t n_bytes = 0, lists = 0;
    if (!merges_any(plan)) {
        return 0;
    }
    lists += plan->merged.nodes ? plan->rows.n_row * (int64_t)sizeof(uint32_t) : 0;
    for (int32_t hop = 0; hop <= plan->n_hop; hop++) {
        n_bytes += block_bytes(in, PART_DIRECTION_IN, hop, plan) + block_bytes(in, PART_DIRECTION_OUT, hop, plan);
        lists += hop > 0 ? plan->merged.n_row[hop] * (int64_t)sizeof(uint32_t) : 0;
        lists += scaled ? memory_plan_rows(plan, hop) * (int64_t)sizeof(float) : 0;
    }
    return n_bytes + memory_plan_put(plan, MEMORY_SITE_LENT, MEMORY_STRUCTURE, lists);
}

int64_t memory_merged_rows(const struct memory_plan *plan, int32_t hop)
{
    return plan->merged.n_row[hop < plan->n_hop ? hop : plan->n_hop];
}

int64_t memory_merged_bytes(int64_t n_row, int64_t n_edge, bool weighted)
{
    return (n_row + 1) * (int64_t)sizeof(int64_t) +
           n_edge * (int64_t)(sizeof(uint32_t) + (weighted ? sizeof(float) : 0));
}

/* Is the op a sum over neighbours of training, and ends a row's in one block? */
static bool ends_at_once(const struct memory_plan_input *in, const struct memory_plan *plan, const struct op *op)
{
    const int64_t *n_edge = plan->merged.n_edge[PART_DIRECTION_IN];
    int64_t hop = smaller(in->program->value[op->out].hop, plan->n_hop);
    bool merges = memory_plan_merges(plan, in->program, op) && n_edge[hop] > 0 && n_edge[plan->n_hop] > 0;
    return op->kind == OP_KIND_AGGREGATE && aggregate_defs[op->aggregate]->is_linear && !op->is_static &&
           (in->n_part == 1 || merges);
}

void memory_plan_epilogues(const struct memory_plan_input *in, struct memory_plan *plan)
{
    if (!in->ops->takes_epilogue || in->job->model.kernel != JOB_KERNEL_OWN) {
        return;
    }
    for (int i = 0; i < in->program->n_op; i++) {
        if (ends_at_once(in, plan, &in->program->op[i])) {
            epilogue_take(in->program, &plan->steps, i);
        }
    }
    step_lists_finish(in->program, &plan->steps);
    bool back = in->own[0].halo->symmetric || plan->merged.n_edge[PART_DIRECTION_OUT][0] > 0; /* edges are merged */
    bool rounds = in->job->train.products == JOB_PRODUCTS_BF16 && (in->n_part == 1 || (plan->n_hop == 0 && back));
    for (int i = 0; i < in->program->n_op && rounds; i++) {
        if (ends_at_once(in, plan, &in->program->op[i])) {
            epilogue_round(in->program, &plan->steps, i);
        }
    }
    liveness_place(in->program, plan);
}
