/* out = dropout(act(x)); on the sparse features dropout of the stored values. */
#include "models/ops/ops.h"

static struct device_activate activate_of(const struct op_call *call)
{
    return (struct device_activate){.activation = call->op->activation,
                                    .p = call->training ? call->op->dropout : 0.0,
                                    .key = call->key,
                                    .now = call->now,
                                    .node = call->node};
}

/* y = m ∘ act(x) / (1 − p), m a mask drawn anew from the key whenever it is needed */
void op_activate_forward(const struct op_call *call)
{
    const struct device_activate activate = activate_of(call);
    if (call->program->value[call->op->in[0]].is_sparse) {
        call->device->ops->csr_dropout(call->device, call->csr, &activate, call->out);
    } else {
        call->device->ops->activate_forward(call->device, call->n, call->program->value[call->op->out].width, &activate,
                                            call->in[0], call->out);
    }
}

/* dx = m ∘ act'(x) ∘ dy / (1 − p) */
void op_activate_backward(const struct op_call *call)
{
    const struct device_activate activate = activate_of(call);
    if (call->grad_in[0] != NULL) {
        call->device->ops->activate_backward(call->device, call->n, call->program->value[call->op->out].width, &activate,
                                             op_keeps_in(call->program, call->op, 0) ? call->in[0] : NULL,
                                             op_keeps_out(call->program, call->op) ? call->out : NULL, call->grad_out,
                                             call->add[0], call->grad_in[0]);
    }
}
