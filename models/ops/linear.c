/* out = x · wᵀ + b, x dense rows or the sparse features. */
#include "models/ops/ops.h"

static int64_t width_in(const struct program *program, const struct op *op)
{
    return program->value[op->in[0]].width;
}

static bool is_sparse(const struct program *program, const struct op *op)
{
    return program->value[op->in[0]].is_sparse;
}

static int64_t width_out(const struct program *program, const struct op *op)
{
    return program->value[op->out].width;
}

size_t op_linear_scratch(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n)
{
    int64_t f_in = width_in(program, op), f_out = width_out(program, op);
    size_t weight = is_sparse(program, op) ? ops->csr_linear_scratch(f_in, f_out)
                                                        : ops->linear_scratch(n, f_in, f_out);
    size_t bias = op->param[1] >= 0 ? ops->column_sum_scratch(n, f_out) : 0;
    return weight > bias ? weight : bias;
}

/* y = x wᵀ + b */
void op_linear_forward(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    int64_t f_in = width_in(call->program, call->op), f_out = width_out(call->program, call->op);
    if (is_sparse(call->program, call->op)) {
        ops->csr_linear_forward(call->device, call->csr, call->in[0], f_out, call->param[0], call->param[1],
                                call->scratch, call->out);
    } else {
        ops->linear_forward(call->device, call->n, f_in, f_out, call->in[0], call->param[0], call->param[1], call->out);
    }
}

/* dx = dy w · dw = dyᵀ x · db = Σ dy */
void op_linear_backward(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    int64_t f_in = width_in(call->program, call->op), f_out = width_out(call->program, call->op);
    if (call->grad_param[0] != NULL && is_sparse(call->program, call->op)) {
        ops->csr_linear_backward_weight(call->device, call->csr, call->in[0], f_out, call->grad_out, call->scratch,
                                        call->grad_param[0]);
    } else if (call->grad_param[0] != NULL) {
        ops->linear_backward_weight(call->device, call->n, f_in, f_out, call->in[0], call->grad_out, call->scratch,
                                    call->grad_param[0]);
    }
    if (call->grad_param[1] != NULL) {
        ops->column_sum(call->device, call->n, f_out, call->grad_out, call->scratch, call->grad_param[1]);
    }
    if (call->grad_in[0] != NULL) {
        ops->linear_backward_input(call->device, call->n, f_in, f_out, call->grad_out, call->param[0], call->add[0],
                                   call->grad_in[0]);
    }
}
