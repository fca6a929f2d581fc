/* out[r, h] = ⟨x[r, h], w[h]⟩: one number per head, what GAT scores are made of. */
#include "models/ops/ops.h"

static int64_t width(const struct program *program, const struct op *op)
{
    return program->value[op->in[0]].width;
}

size_t op_head_dot_scratch(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n)
{
    return ops->column_sum_scratch(n, width(program, op));
}

/* y_rh = Σ_c x_rhc w_hc */
void op_head_dot_forward(const struct op_call *call)
{
    int64_t n_head = call->op->n_head;
    call->device->ops->head_dot(call->device, call->n, n_head, width(call->program, call->op) / n_head, call->in[0],
                                call->param[0], call->out);
}

/* dx_rhc = dy_rh w_hc · dw_hc = Σ_r dy_rh x_rhc */
void op_head_dot_backward(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    int64_t n_head = call->op->n_head, n_column = width(call->program, call->op) / n_head;
    if (call->grad_param[0] != NULL) {
        ops->head_dot_backward_weight(call->device, call->n, n_head, n_column, call->in[0], call->grad_out, call->scratch,
                                      call->grad_param[0]);
    }
    if (call->grad_in[0] != NULL) {
        ops->head_dot_backward_input(call->device, call->n, n_head, n_column, call->param[0], call->grad_out, call->add[0],
                                     call->grad_in[0]);
    }
}
