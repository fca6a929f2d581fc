/* The table of aggregates, and what follows from a row. The rows are in models/ops/aggregate_*.c. */
#include "models/ops/ops.h"

const struct aggregate_def *const aggregate_defs[AGGREGATE_KIND_N] = {
    [AGGREGATE_KIND_SUM] = &aggregate_sum,           [AGGREGATE_KIND_MEAN] = &aggregate_mean,
    [AGGREGATE_KIND_GCN] = &aggregate_gcn,           [AGGREGATE_KIND_MAX] = &aggregate_max,
    [AGGREGATE_KIND_GAT] = &aggregate_gat,           [AGGREGATE_KIND_GATV2] = &aggregate_gatv2,
    [AGGREGATE_KIND_DOT] = &aggregate_dot,           [AGGREGATE_KIND_COSINE] = &aggregate_cosine,
    [AGGREGATE_KIND_RELATION] = &aggregate_relation,
};

bool aggregate_returns(enum aggregate_kind kind)
{
    return aggregate_defs[kind]->backward[0].direction == HALO_DIRECTION_RETURN;
}

int32_t halo_pass_hop(const struct program *program, const struct op *op, const struct halo_pass *pass)
{
    int32_t hop = program->value[op->out].hop;
    return pass->direction == HALO_DIRECTION_OUT ? hop : program_hop_before(hop);
}

int64_t halo_piece_width(const struct program *program, const struct op *op, const struct halo_pass *pass, int k)
{
    if (pass->direction == HALO_DIRECTION_RETURN) {
        return k == 0 ? program->value[op->in[0]].width : 0;
    }
    if (k >= pass->n_piece) {
        return 0;
    }
    enum op_role role = pass->piece[k];
    switch (role) {
    case OP_ROLE_IN_0:
    case OP_ROLE_IN_1:
    case OP_ROLE_IN_2: {
        int in = op->in[role - OP_ROLE_IN_0];
        return in >= 0 ? program->value[in].width : 0;
    }
    case OP_ROLE_GRAD_OUT:
        return program->value[op->out].width;
    default:
        return op_saved_width(program, op, (int)role - OP_ROLE_SAVED_0);
    }
}

int64_t halo_payload_width(const struct program *program, const struct op *op, const struct halo_pass *pass)
{
    int64_t width = 0;
    for (int k = 0; k < HALO_N_PIECE; k++) {
        width += halo_piece_width(program, op, pass, k);
    }
    return width;
}
