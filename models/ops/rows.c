/* out = a tile program of each row of the inputs: what users' texts compute of nodes, and no other op does. */
#include "models/ops/ops.h"

static const struct tile *tile_of(const struct program *program, const struct op *op, bool backward)
{
    return &program->tile[op->tile + backward];
}

static size_t workspace(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n)
{
    size_t most = 0;
    (void)n;
    for (int k = 0; k < 2; k++) {
        const struct tile *tile = tile_of(program, op, k > 0);
        size_t n_bytes = device_tile_bytes(ops, tile, false);
        most = n_bytes > most ? n_bytes : most;
    }
    return most;
}

static struct device_tile how_of(const struct op_call *call, bool backward)
{
    struct device_tile how = {.tile = tile_of(call->program, call->op, backward), .scratch = call->workspace};
    for (int k = 0; k < OP_N_IN; k++) {
        how.rows[TILE_ROWS_IN_0 + k] = call->in[k];
    }
    for (int p = 0; p < OP_N_PARAM; p++) {
        how.param[p] = call->param[p];
    }
    return how;
}

static void forward(const struct op_call *call)
{
    struct device_tile how = how_of(call, false);
    how.to[TILE_TARGET_OUT] = call->out;
    call->device->ops->tile_rows(call->device, call->n, &how);
}

static void backward(const struct op_call *call)
{
    struct device_tile how = how_of(call, true);
    how.rows[TILE_ROWS_GRAD] = call->grad_out;
    for (int k = 0; k < OP_N_IN; k++) {
        how.to[TILE_TARGET_GRAD_IN_0 + k] = call->grad_in[k];
        how.add[TILE_TARGET_GRAD_IN_0 + k] = call->add[k];
    }
    for (int p = 0; p < OP_N_PARAM; p++) {
        how.grad_param[p] = call->grad_param[p];
        how.add_param[p] = call->add_param[p];
    }
    call->device->ops->tile_rows(call->device, call->n, &how);
}

static op_roles backward_reads(const struct program *program, const struct op *op)
{
    op_roles reads = 0;
    for (int k = 0; k < OP_N_IN; k++) {
        reads |= tile_of(program, op, true)->width[TILE_ROWS_IN_0 + k] > 0 ? OP_ROLES(IN_0) << k : 0;
    }
    return reads;
}

const struct op_def op_rows = {
    .name = "rows",
    .title = "rows of a program",
    .backward_reads_of = backward_reads,
    .workspace = workspace,
    .forward = forward,
    .backward = backward,
};

/* --- of pairs: out = the row of a weight that the pair's relation has. NODE has relations --- */

static void relation_forward(const struct op_call *call)
{
    call->device->ops->rows_gather(call->device, call->n, op_width(call), call->node, 1.0F, call->param[0],
                                   call->out);
}

/* dw[r] = Σ dy of the pairs with relation r */
static void relation_backward(const struct op_call *call)
{
    const struct parameter *param = &call->program->param[call->op->param[0]];
    if (call->grad_param[0] != NULL) {
        const struct device_collect how = {
            .n = call->n, .f = param->shape[1], .rows = call->node, .n_row = param->shape[0]};
        call->device->ops->rows_collect(call->device, &how, call->grad_out, call->grad_param[0]);
    }
}

const struct op_def op_relation_row = {
    .name = "relation_row",
    .title = "rows of a weight by relation",
    .also_reads = OP_ROLES(NODE),
    .forward = relation_forward,
    .backward = relation_backward,
};
