/* out_i = max_j x_j over in-neighbours j, column by column; 0 for a node without any. Hamilton et al., NeurIPS 2017 */
#include "models/ops/ops.h"

/* One place per element. */
int64_t aggregate_max_kept_width(const struct program *program, const struct op *op, int k)
{
    return k == 0 ? program->value[op->in[0]].width : 0;
}

static uint32_t *places(const struct aggregate_call *call)
{
    return (uint32_t *)(void *)call->kept[0];
}

/* y_i = max([x_i], max_{j→i} x_j), keeping the place of the first greatest */
void aggregate_max_forward(const struct aggregate_call *call)
{
    const struct device_ops *ops = call->device->ops;
    ops->aggregate_max(call->device, call->block, call->arg_base, call->first, call->first && call->self ? call->own[0] : NULL,
                       call->f, call->payload[0], call->out, places(call));
    if (call->last) {
        ops->aggregate_max_finish(call->device, call->n, call->f, places(call), call->out);
    }
}

/* For the owner of the block's sources: Σ_i dy_i where y_i came from that row */
void aggregate_max_backward_pack(const struct aggregate_call *call)
{
    call->device->ops->aggregate_max_backward(call->device, call->block, call->arg_base, call->f, places(call), call->grad_out,
                                              call->packed);
}

/* dx_j = Σ over the parts that read row j of what they packed */
void aggregate_max_backward(const struct aggregate_call *call)
{
    const struct device_ops *ops = call->device->ops;
    if (call->first) {
        ops->move(call->device, DEVICE_LANE_COMPUTE, call->to, call->payload[0],
                  (size_t)(call->n * call->f) * sizeof *call->to);
    } else {
        ops->rows_add(call->device, call->n_row, call->f, call->rows, call->payload[0], call->to);
    }
}
