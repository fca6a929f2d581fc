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
static void forward(const struct op_call *call)
{
    const struct device_activate activate = activate_of(call);
    if (call->program->value[call->op->in[0]].is_sparse) {
        call->device->ops->csr_dropout(call->device, call->csr, &activate, call->out);
    } else {
        call->device->ops->activate_forward(call->device, call->n, op_width(call), &activate, call->in[0], call->out);
    }
    if (call->program->value[call->op->out].is_rounded) {
        call->device->ops->rows_round(call->device, call->n, op_width(call), call->out, NULL);
    }
}

/* dx = m ∘ act'(x) ∘ dy / (1 − p) */
static void backward(const struct op_call *call)
{
    const struct device_activate activate = activate_of(call);
    if (call->grad_in[0] != NULL && !(op_is_cast(call->op) && call->grad_in[0] == call->grad_out)) {
        call->device->ops->activate_backward(call->device, call->n, op_width(call), &activate, call->in[0], call->out,
                                             call->grad_out, call->add[0], call->grad_in[0]);
    }
}

/* The slope is known from the output, but gelu's. */
static op_roles backward_reads(const struct program *program, const struct op *op)
{
    (void)program;
    switch (op->activation) {
    case DEVICE_ACTIVATION_NONE:
        return 0;
    case DEVICE_ACTIVATION_GELU:
        return OP_ROLES(IN_0);
    default:
        return OP_ROLES(OUT);
    }
}

const struct op_def op_activate = {
    .name = "activate",
    .title = "activation",
    .in_place = true,
    .also_reads = OP_ROLES(NODE),
    .takes_bf16 = true,
    .backward_reads_of = backward_reads,
    .forward = forward,
    .backward = backward,
};
