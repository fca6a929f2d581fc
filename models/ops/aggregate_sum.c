/* out_i = [x_i] + Σ_j x_j over in-neighbours j; [x_i] where the own loop is implicit. */
#include "models/ops/ops.h"

static void accumulate(const struct aggregate_call *call)
{
    const struct device_aggregate how = {
        .self = call->first && call->self ? call->own[0] : NULL, .begin = call->first, .finish = call->only};
    call->device->ops->aggregate_sum(call->device, call->block, &how, call->f, call->payload[0], call->to);
}

/* y_i = [x_i] + Σ_{j→i} x_j */
void aggregate_sum_forward(const struct aggregate_call *call)
{
    accumulate(call);
}

/* dx_j = [dy_j] + Σ_{j→i} dy_i */
void aggregate_sum_backward(const struct aggregate_call *call)
{
    accumulate(call);
}
