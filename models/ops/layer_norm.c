/* out = (x − mean) · rstd · weight + bias over each row's columns. */
#include "models/ops/ops.h"

size_t op_layer_norm_scratch(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n)
{
    return ops->layer_norm_scratch(n, program->value[op->out].width);
}

/* mean and rstd of each row */
int64_t op_layer_norm_aux_width(const struct program *program, const struct op *op)
{
    (void)program;
    (void)op;
    return 2;
}

/* x̂ = (x − mean) / √(var + ε) · y = w x̂ + b.  Ba, Kiros & Hinton 2016, eq. 4 */
void op_layer_norm_forward(const struct op_call *call)
{
    call->device->ops->layer_norm_forward(call->device, call->n, call->program->value[call->op->out].width, call->in[0],
                                          call->param[0], call->param[1], call->aux, call->out);
}

/* g = w dy · dx = rstd (g − mean(g) − x̂ mean(g x̂)) · dw = Σ dy x̂ · db = Σ dy */
void op_layer_norm_backward(const struct op_call *call)
{
    const struct device_norm_backward how = {.n = call->n,
                                             .f = call->program->value[call->op->out].width,
                                             .x = call->in[0],
                                             .weight = call->param[0],
                                             .mean_rstd = call->aux,
                                             .grad_y = call->grad_out,
                                             .add = call->add[0],
                                             .grad_x = call->grad_in[0],
                                             .grad_weight = call->grad_param[0],
                                             .grad_bias = call->grad_param[1],
                                             .scratch = call->scratch};
    call->device->ops->layer_norm_backward(call->device, &how);
}
