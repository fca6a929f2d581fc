/* out = x + b, where a linear map's bias must wait until after the aggregate. */
#include "models/ops/ops.h"

static size_t workspace(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n)
{
    return DEVICE_BYTES(ops, COLUMN_SUM, n, program->value[op->out].width);
}

/* y = x + b */
static void forward(const struct op_call *call)
{
    call->device->ops->bias_add(call->device, call->n, call->program->value[call->op->out].width, call->in[0],
                                call->param[0], call->out);
}

/* db = Σ dy · dx = dy */
static void backward(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    int64_t f = call->program->value[call->op->out].width;
    if (call->grad_param[0] != NULL) {
        ops->column_sum(call->device,
                        &(struct device_column_sum){call->n, f, call->grad_out, .add = call->add_param[0],
                                                    .scratch = call->workspace},
                        call->grad_param[0]);
    }
    if (call->grad_in[0] != NULL && call->grad_in[0] != call->grad_out) {
        ops->axpby(call->device, call->n * f, 1.0f, NULL, call->grad_out, call->add[0] ? 1.0f : 0.0f,
                   call->add[0] ? call->grad_in[0] : NULL, call->grad_in[0]);
    }
}

const struct op_def op_bias = {.name = "bias",
                               .title = "bias",
                               .in_place = true,
                               .workspace = workspace,
                               .takes_bf16 = true,
                               .forward = forward,
                               .backward = backward};
