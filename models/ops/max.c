/* out = max(in0, in1), element by element; of equals the first counts. */
#include "models/ops/ops.h"

static int64_t n_value(const struct op_call *call)
{
    return call->n * call->program->value[call->op->out].width;
}

void op_max_forward(const struct op_call *call)
{
    call->device->ops->max_forward(call->device, n_value(call), call->in[0], call->in[1], call->out);
}

/* The gradient is the greater's: in0's where in0 is out. */
void op_max_backward(const struct op_call *call)
{
    call->device->ops->max_backward(call->device, n_value(call), call->in[0], call->out, call->grad_out, call->add[0],
                                    call->grad_in[0], call->add[1], call->grad_in[1]);
}
