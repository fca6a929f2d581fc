/* The table of ops. Their rows are in models/ops/, one file per op. */
#include "models/program/op.h"

#include "models/ops/ops.h"

const struct op_def *const op_defs[OP_KIND_N] = {
    [OP_KIND_LINEAR] = &op_linear,
    [OP_KIND_BIAS] = &op_bias,
    [OP_KIND_ACTIVATE] = &op_activate,
    [OP_KIND_LAYER_NORM] = &op_layer_norm,
    [OP_KIND_BATCH_NORM] = &op_batch_norm,
    [OP_KIND_ADD] = &op_add,
    [OP_KIND_LABELS] = &op_labels,
    [OP_KIND_CONCAT] = &op_concat,
    [OP_KIND_MAX] = &op_max,
    [OP_KIND_EPS_ADD] = &op_eps_add,
    [OP_KIND_INVERSE_NORM] = &op_inverse_norm,
    [OP_KIND_ROW_SCALE] = &op_row_scale,
    [OP_KIND_HEAD_DOT] = &op_head_dot,
    [OP_KIND_HEAD_MEAN] = &op_head_mean,
    [OP_KIND_HEAD_WIDEN] = &op_head_widen,
    [OP_KIND_HEAD_NARROW] = &op_head_narrow,
    [OP_KIND_RELATION_ROW] = &op_relation_row,
    [OP_KIND_ROWS] = &op_rows,
    [OP_KIND_AGGREGATE] = &(const struct op_def){.name = "aggregate"},
};

bool op_is_row_local(const struct program *program, const struct op *op)
{
    bool sparse = program->value[op->in[0]].is_sparse || program->value[op->out].is_sparse;
    bool labels = op_defs[op->kind]->also_reads & OP_ROLES(LABELS);
    bool halo = program->value[op->out].hop == PROGRAM_HOP_HALO;
    return op->kind != OP_KIND_AGGREGATE && !labels && !sparse && !halo;
}

bool op_is_cast(const struct op *op)
{
    return op->kind == OP_KIND_ACTIVATE && op->activation == DEVICE_ACTIVATION_NONE && op->dropout == 0.0;
}

bool op_passes_grad(const struct op *op, int k)
{
    switch (op->kind) {
    case OP_KIND_ACTIVATE:
        return k == 0 && op_is_cast(op);
    case OP_KIND_BIAS:
        return k == 0;
    case OP_KIND_ADD:
        return k < 2 && (k == 0 ? op->a : op->b) == 1.0f;
    case OP_KIND_EPS_ADD:
        return k == 1;
    default:
        return false;
    }
}

void op_give(const struct op_call *call, int k, float factor)
{
    bool passed = call->grad_in[k] == call->grad_out && op_passes_grad(call->op, k);
    if (call->grad_in[k] != NULL && !passed) {
        call->device->ops->axpby(call->device, call->n * op_width(call), factor, NULL, call->grad_out,
                                 call->add[k] ? 1.0f : 0.0f, call->add[k] ? call->grad_in[k] : NULL,
                                 call->grad_in[k]);
    }
}

int64_t op_saved_width(const struct program *program, const struct op *op, int k)
{
    if (op->kind == OP_KIND_AGGREGATE) {
        const struct aggregate_def *def = aggregate_defs[op->aggregate];
        return def->saved_width != NULL ? def->saved_width(program, op, k) : 0;
    }
    const struct op_def *def = op_defs[op->kind];
    return k == 0 && def->saved_width != NULL ? def->saved_width(program, op) : 0;
}

size_t op_workspace(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n)
{
    size_t (*workspace)(const struct program *, const struct op *, const struct device_ops *, int64_t) =
        op->kind == OP_KIND_AGGREGATE ? aggregate_defs[op->aggregate]->workspace : op_defs[op->kind]->workspace;
    return workspace != NULL ? workspace(program, op, ops, n) : 0;
}

size_t op_column_bytes(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n)
{
    return DEVICE_BYTES(ops, COLUMN_SUM, n, program->value[op->out].width);
}

/* An aggregate's: for all its backward passes. */
static op_roles aggregate_backward_reads(const struct program *program, const struct op *op)
{
    op_roles reads = aggregate_defs[op->aggregate]->begin_access.reads;
    for (int k = 0; k < OP_N_BACKWARD; k++) {
        const struct halo_pass *pass = &aggregate_backward(program, op->aggregate)[k];
        reads |= pass->access.reads | pass->pack_reads;
        for (int piece = 0; piece < pass->n_piece; piece++) {
            reads |= (op_roles)1 << pass->piece[piece];
        }
    }
    return reads;
}

bool op_keeps_statistics(const struct op *op)
{
    const struct global_def *global = op_defs[op->kind]->global;
    return global != NULL && (global->forward.total_changes & OP_ROLES(STATE_0)) != 0;
}

op_roles op_backward_reads(const struct program *program, const struct op *op)
{
    if (!program->value[op->out].needs_grad) {
        return 0;
    }
    const struct op_def *def = op_defs[op->kind];
    op_roles reads = op->kind == OP_KIND_AGGREGATE    ? aggregate_backward_reads(program, op)
                     : def->backward_reads_of != NULL ? def->backward_reads_of(program, op)
                                                      : def->backward_reads;
    for (int k = 0; k < OP_N_IN; k++) {
        if (op->in[k] < 0) {
            reads &= ~(OP_ROLES(IN_0) << k);
        }
    }
    return reads & (OP_ROLES_IN | OP_ROLES(OUT));
}
