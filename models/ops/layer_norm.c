/* out = (x − mean) · rstd · weight + bias over each row's columns. */
#include "models/ops/ops.h"

static size_t workspace(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n)
{
    return DEVICE_BYTES(ops, LAYER_NORM, n, program->value[op->out].width);
}

/* mean and rstd of each row */
static int64_t saved_width(const struct program *program, const struct op *op)
{
    (void)program;
    (void)op;
    return 2;
}

/* x̂ = (x − mean) / √(var + ε) · y = w x̂ + b.  Ba, Kiros & Hinton 2016, eq. 4 */
static void forward(const struct op_call *call)
{
    call->device->ops->layer_norm_forward(call->device, call->n, op_width(call), call->in[0], call->param[0],
                                          call->param[1], call->saved[0], call->out);
}

/* g = w dy · dx = rstd (g − mean(g) − x̂ mean(g x̂)) · dw = Σ dy x̂ · db = Σ dy */
static void backward(const struct op_call *call)
{
    const struct device_norm_backward how = {.n = call->n,
                                             .f = op_width(call),
                                             .x = call->in[0],
                                             .weight = call->param[0],
                                             .mean_rstd = call->saved[0],
                                             .grad_y = call->grad_out,
                                             .add = call->add[0],
                                             .add_weight = call->add_param[0],
                                             .add_bias = call->add_param[1],
                                             .grad_x = call->grad_in[0],
                                             .grad_weight = call->grad_param[0],
                                             .grad_bias = call->grad_param[1],
                                             .scratch = call->workspace};
    call->device->ops->layer_norm_backward(call->device, &how);
}

const struct op_def op_layer_norm = {
    .name = "layer_norm",
    .title = "LayerNorm",
    .backward_reads = OP_ROLES(IN_0),
    .saved_width = saved_width,
    .workspace = workspace,
    .forward = forward,
    .backward = backward,
};
