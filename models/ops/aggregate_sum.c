/* out_i = [x_i] + Σ_j x_j over in-neighbours j; [x_i] where the own loop is implicit. */
#include "models/ops/ops.h"

static void accumulate(const struct op_call *call)
{
    const struct device_aggregate how = {
        .self = call->first && call->self ? call->own[0] : NULL, .begin = call->first, .finish = call->only};
    call->device->ops->aggregate_sum(call->device, call->block, &how, call->f, call->payload[0], call->to);
}

/* y_i = [x_i] + Σ_{j→i} x_j */
static void forward(const struct op_call *call)
{
    accumulate(call);
}

/* dx_j = [dy_j] + Σ_{j→i} dy_i */
static void backward(const struct op_call *call)
{
    accumulate(call);
}

const struct aggregate_def aggregate_sum = {
    .name = "sum", .title = "sum of neighbours", .is_linear = true, AGGREGATE_LINEAR_PASSES(forward, backward)};
