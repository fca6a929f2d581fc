/* out = 1 / ‖x‖ of each row: times the row, torch.nn.functional.normalize; times a product of rows, their cosine. */
#include "models/ops/ops.h"

/* y = 1 / max(‖x‖, 1e-12) */
void op_inverse_norm_forward(const struct op_call *call)
{
    call->device->ops->inverse_norm(call->device, call->n, call->program->value[call->op->in[0]].width, call->in[0], call->out);
}

/* dx = -dy y³ x */
void op_inverse_norm_backward(const struct op_call *call)
{
    if (call->grad_in[0] != NULL) {
        call->device->ops->inverse_norm_backward(call->device, call->n, call->program->value[call->op->in[0]].width,
                                                 call->in[0], call->out, call->grad_out, call->add[0], call->grad_in[0]);
    }
}
