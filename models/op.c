/* The table of ops: names, what backward keeps, functions. The functions are in models/ops/, one file per op. */
#include "models/op.h"

#include "models/ops/ops.h"

const struct op_def op_defs[OP_KIND_N] = {
    [OP_KIND_LINEAR] = {.name = "linear",
                        .keeps_in = true,
                        .scratch = op_linear_scratch,
                        .forward = op_linear_forward,
                        .backward = op_linear_backward},
    [OP_KIND_BIAS] = {.name = "bias",
                      .in_place = true,
                      .scratch = op_bias_scratch,
                      .forward = op_bias_forward,
                      .backward = op_bias_backward},
    [OP_KIND_ACTIVATE] = {.name = "activate",
                          .keeps_in = true,
                          .keeps_out = true,
                          .in_place = true,
                          .forward = op_activate_forward,
                          .backward = op_activate_backward},
    [OP_KIND_LAYER_NORM] = {.name = "layer_norm",
                            .keeps_in = true,
                            .aux_width = op_layer_norm_aux_width,
                            .scratch = op_layer_norm_scratch,
                            .forward = op_layer_norm_forward,
                            .backward = op_layer_norm_backward},
    [OP_KIND_BATCH_NORM] = {.name = "batch_norm",
                            .keeps_in = true,
                            .in_place = true,
                            .scratch = op_batch_norm_scratch,
                            .forward = op_batch_norm_forward,
                            .backward = op_batch_norm_backward,
                            .global = &op_batch_norm_global},
    [OP_KIND_ADD] = {.name = "add", .in_place = true, .forward = op_add_forward, .backward = op_add_backward},
    [OP_KIND_LABELS] = {.name = "labels",
                        .forward = op_labels_forward,
                        .backward = op_labels_backward,
                        .global = &op_labels_global},
    [OP_KIND_CONCAT] = {.name = "concat", .forward = op_concat_forward, .backward = op_concat_backward},
    [OP_KIND_MAX] =
        {.name = "max", .keeps_in = true, .keeps_out = true, .forward = op_max_forward, .backward = op_max_backward},
    [OP_KIND_EPS_ADD] = {.name = "eps_add",
                         .keeps_in = true,
                         .scratch = op_eps_add_scratch,
                         .forward = op_eps_add_forward,
                         .backward = op_eps_add_backward},
    [OP_KIND_INVERSE_NORM] = {.name = "inverse_norm",
                              .keeps_in = true,
                              .keeps_out = true,
                              .forward = op_inverse_norm_forward,
                              .backward = op_inverse_norm_backward},
    [OP_KIND_ROW_SCALE] = {.name = "row_scale",
                           .keeps_in = true,
                           .forward = op_row_scale_forward,
                           .backward = op_row_scale_backward},
    [OP_KIND_HEAD_DOT] = {.name = "head_dot",
                          .keeps_in = true,
                          .scratch = op_head_dot_scratch,
                          .forward = op_head_dot_forward,
                          .backward = op_head_dot_backward},
    [OP_KIND_HEAD_MEAN] = {.name = "head_mean", .forward = op_head_mean_forward, .backward = op_head_mean_backward},
    [OP_KIND_AGGREGATE] = {.name = "aggregate"},
};

/* An input or output is read for a parameter's gradient, or where the activation's slope is known from it. */
bool op_keeps_in(const struct program *program, const struct op *op, int k)
{
    if (op->kind == OP_KIND_AGGREGATE) {
        return aggregate_defs[op->aggregate].keeps_in && op->in[k] >= 0 && program->value[op->out].needs_grad;
    }
    if (!op_defs[op->kind].keeps_in || !program->value[op->out].needs_grad || op->in[k] < 0) {
        return false;
    }
    if (k > 0) {
        return op->kind == OP_KIND_ROW_SCALE;
    }
    switch (op->kind) {
    case OP_KIND_LINEAR:
    case OP_KIND_HEAD_DOT:
    case OP_KIND_EPS_ADD:
        return program->param[op->param[0]].trains;
    case OP_KIND_ACTIVATE:
        return op->activation == DEVICE_ACTIVATION_GELU;
    default:
        return true;
    }
}

bool op_keeps_out(const struct program *program, const struct op *op)
{
    if (op->kind == OP_KIND_AGGREGATE) {
        return aggregate_defs[op->aggregate].keeps_out && program->value[op->out].needs_grad;
    }
    bool is_read = op->kind != OP_KIND_ACTIVATE ||
                   (op->activation != DEVICE_ACTIVATION_GELU && op->activation != DEVICE_ACTIVATION_NONE);
    return is_read && op_defs[op->kind].keeps_out && program->value[op->out].needs_grad;
}

bool op_passes_grad(const struct op *op, int k)
{
    switch (op->kind) {
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

int64_t op_kept_width(const struct program *program, const struct op *op, int k)
{
    if (op->kind == OP_KIND_AGGREGATE) {
        const struct aggregate_def *def = &aggregate_defs[op->aggregate];
        return def->kept_width != NULL ? def->kept_width(program, op, k) : 0;
    }
    const struct op_def *def = &op_defs[op->kind];
    return k == 0 && def->aux_width != NULL ? def->aux_width(program, op) : 0;
}
