/* out = x1 + (1 + ε)·x0: the node itself beside the sum of its neighbours. Xu et al., ICLR 2019, eq. 4.1 */
#include "models/ops/ops.h"

/* y = x1 + (1 + ε) x0 */
static void forward(const struct op_call *call)
{
    call->device->ops->axpby(call->device, call->n * op_width(call), 1.0F, call->param[0], call->in[0], 1.0F,
                             call->in[1], call->out);
}

/* dε = ⟨dy, x0⟩ · dx0 = (1 + ε) dy · dx1 = dy */
static void backward(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    int64_t f = op_width(call);
    if (call->grad_param[0] != NULL) {
        ops->dot(call->device, call->n, f, call->grad_out, call->in[0], call->workspace, call->add_param[0],
                 call->grad_param[0]);
    }
    if (call->grad_in[0] != NULL) {
        ops->axpby(call->device, call->n * f, 1.0F, call->param[0], call->grad_out, 1.0F,
                   call->add[0] ? call->grad_in[0] : NULL, call->grad_in[0]);
    }
    op_give(call, 1, 1.0F);
}

const struct op_def op_eps_add = {
    .name = "eps_add",
    .title = "(1 + eps) x",
    .backward_reads_of = weight_backward_reads,
    .workspace = op_column_bytes,
    .forward = forward,
    .backward = backward,
};
