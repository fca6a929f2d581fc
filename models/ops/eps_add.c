/* out = x1 + (1 + ε)·x0: the node itself beside the sum of its neighbours. Xu et al., ICLR 2019, eq. 4.1 */
#include "models/ops/ops.h"

size_t op_eps_add_scratch(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n)
{
    return ops->column_sum_scratch(n, program->value[op->out].width);
}

/* y = x1 + (1 + ε) x0 */
void op_eps_add_forward(const struct op_call *call)
{
    call->device->ops->eps_add(call->device, call->n * call->program->value[call->op->out].width, call->param[0], call->in[0],
                               call->in[1], call->out);
}

/* dε = ⟨dy, x0⟩ · dx0 = (1 + ε) dy · dx1 = dy */
void op_eps_add_backward(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    int64_t f = call->program->value[call->op->out].width;
    if (call->grad_param[0] != NULL) {
        ops->dot(call->device, call->n, f, call->grad_out, call->in[0], call->scratch, call->grad_param[0]);
    }
    if (call->grad_in[0] != NULL) {
        ops->eps_add(call->device, call->n * f, call->param[0], call->grad_out, call->add[0] ? call->grad_in[0] : NULL,
                     call->grad_in[0]);
    }
    if (call->grad_in[1] != NULL && call->grad_in[1] != call->grad_out) {
        ops->axpby(call->device, call->n * f, 1.0f, call->grad_out, call->add[1] ? 1.0f : 0.0f,
                   call->add[1] ? call->grad_in[1] : NULL, call->grad_in[1]);
    }
}
