/* out = x + b, where a linear map's bias must wait until after the aggregate. */
#include "models/ops/ops.h"

/* y = x + b */
static void forward(const struct op_call *call)
{
    call->device->ops->bias_add(call->device, call->n, op_width(call), call->in[0], call->param[0], call->out);
}

/* db = Σ dy · dx = dy */
static void backward(const struct op_call *call)
{
    if (call->grad_param[0] != NULL) {
        call->device->ops->column_sum(call->device,
                                      &(struct device_column_sum){call->n, op_width(call), call->grad_out,
                                                                  .add = call->add_param[0],
                                                                  .scratch = call->workspace},
                                      call->grad_param[0]);
    }
    op_give(call, 0, 1.0f);
}

const struct op_def op_bias = {.name = "bias",
                               .title = "bias",
                               .in_place = true,
                               .workspace = op_column_bytes,
                               .takes_bf16 = true,
                               .forward = forward,
                               .backward = backward};
