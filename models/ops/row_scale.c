/* out = 1 / ‖x‖ of each row: times the row, torch.nn.functional.normalize; times a product of rows, their cosine. And
 * out = each row of x times its own number. */
#include "models/ops/ops.h"

/* y = 1 / max(‖x‖, 1e-12) */
static void inverse_forward(const struct op_call *call)
{
    call->device->ops->inverse_norm(call->device, call->n, call->program->value[call->op->in[0]].width, call->in[0],
                                    call->out);
}

/* dx = -dy y³ x */
static void inverse_backward(const struct op_call *call)
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
                                       .forward = inverse_forward,
                                       .backward = inverse_backward};

/* y_r = s_r x_r */
static void scale_forward(const struct op_call *call)
{
    call->device->ops->rows_multiply(call->device, call->n, op_width(call), call->in[1], call->in[0], false,
                                     call->out);
}

/* dx_r = s_r dy_r · ds_r = ⟨dy_r, x_r⟩ */
static void scale_backward(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    int64_t f = op_width(call);
    if (call->grad_in[1] != NULL) {
        ops->rows_dot(call->device, call->n, f, call->grad_out, call->in[0], call->add[1], call->grad_in[1]);
    }
    if (call->grad_in[0] != NULL) {
        ops->rows_multiply(call->device, call->n, f, call->in[1], call->grad_out, call->add[0], call->grad_in[0]);
    }
}

const struct op_def op_row_scale = {.name = "row_scale",
                                    .title = "row scale",
                                    .backward_reads = OP_ROLES(IN_0) | OP_ROLES(IN_1),
                                    .forward = scale_forward,
                                    .backward = scale_backward};
