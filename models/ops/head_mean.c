/* out[r] = mean of x[r, h] over heads: the last layer of an attention model, where heads are averaged. */
#include "models/ops/ops.h"

/* y_rc = (1/H) Σ_h x_rhc */
static void forward(const struct op_call *call)
{
    call->device->ops->head_mean(call->device, call->n, call->op->n_head, call->program->value[call->op->out].width,
                                 false, call->in[0], false, call->out);
}

/* dx_rhc = dy_rc / H */
static void backward(const struct op_call *call)
{
    call->device->ops->head_mean(call->device, call->n, call->op->n_head, call->program->value[call->op->out].width,
                                 true, call->grad_out, call->add[0], call->grad_in[0]);
}

const struct op_def op_head_mean = {
    .name = "head_mean", .title = "mean of heads", .forward = forward, .backward = backward};
