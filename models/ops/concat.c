/* out = up to three inputs' columns side by side. */
#include "models/ops/ops.h"

static void forward(const struct op_call *call)
{
    int64_t width = op_width(call), at = 0;
    for (int k = 0; k < OP_N_IN && call->op->in[k] >= 0; k++) {
        int64_t f = call->program->value[call->op->in[k]].width;
        call->device->ops->columns_copy(call->device, call->n, f, call->in[k], f, call->out + at, width, false);
        at += f;
    }
}

static void backward(const struct op_call *call)
{
    int64_t width = op_width(call), at = 0;
    for (int k = 0; k < OP_N_IN && call->op->in[k] >= 0; k++) {
        int64_t f = call->program->value[call->op->in[k]].width;
        if (call->grad_in[k] != NULL) {
            call->device->ops->columns_copy(call->device, call->n, f, call->grad_out + at, width, call->grad_in[k], f,
                                            call->add[k]);
        }
        at += f;
    }
}

const struct op_def op_concat = {.name = "concat", .title = "concat", .forward = forward, .backward = backward};
