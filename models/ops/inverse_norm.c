/* out = 1 / ‖x‖ of each row: times the row, torch.nn.functional.normalize; times a product of rows, their cosine. */
#include "models/ops/ops.h"

/* y = 1 / max(‖x‖, 1e-12) */
static void forward(const struct op_call *call)
{
    call->device->ops->inverse_norm(call->device, call->n, call->program->value[call->op->in[0]].width, call->in[0],
                                    call->out);
}

/* dx = -dy y³ x */
static void backward(const struct op_call *call)
{
    if (call->grad_in[0] != NULL) {
        call->device->ops->inverse_norm_backward(call->device, call->n, call->program->value[call->op->in[0]].width,
                                                 call->in[0], call->out, call->grad_out, call->add[0],
                                                 call->grad_in[0]);
    }
}

const struct op_def op_inverse_norm = {.name = "inverse_norm",
                                       .title = "inverse norm",
                                       .backward_reads = OP_ROLES(IN_0) | OP_ROLES(OUT),
                                       .forward = forward,
                                       .backward = backward};
