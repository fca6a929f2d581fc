/* out = max(in0, in1), element by element; in0 if they are equal. */
#include "models/ops/ops.h"

static void forward(const struct op_call *call)
{
    call->device->ops->max_forward(call->device, call->n * op_width(call), call->in[0], call->in[1], call->out);
}

/* The gradient is the greater's: in0's where in0 is out. */
static void backward(const struct op_call *call)
{
    call->device->ops->max_backward(call->device, call->n * op_width(call), call->in[0], call->out, call->grad_out,
                                    call->add[0], call->grad_in[0], call->add[1], call->grad_in[1]);
}

const struct op_def op_max = {.name = "max",
                              .title = "max",
                              .backward_reads = OP_ROLES(IN_0) | OP_ROLES(OUT),
                              .forward = forward,
                              .backward = backward};
