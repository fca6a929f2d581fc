/* out_i = max_j x_j over in-neighbours j, column by column; 0 for a node without any. Hamilton et al., NeurIPS
 * 2017 */
#include "models/ops/ops.h"

/* One place per element. */
static int64_t saved_width(const struct program *program, const struct op *op, int k)
{
    return k == 0 ? program->value[op->in[0]].width : 0;
}

static uint32_t *places(const struct op_call *call)
{
    return (uint32_t *)(void *)call->saved[0];
}

/* y_i = max([x_i], max_{j→i} x_j), keeping the place of the first greatest */
static void forward(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    const struct device_max how = {.arg_base = call->pass.arg_base,
                                   .begin = call->pass.order.first,
                                   .self = call->pass.order.first && call->pass.self ? call->pass.own[0] : NULL,
                                   .n_finish = call->pass.order.last ? call->n : 0};
    ops->aggregate_max(call->device, call->pass.block, &how, call->f, call->pass.payload[0], call->out, places(call));
}

/* For the owner of the block's sources: Σ_i dy_i where y_i came from that row */
static void backward_pack(const struct op_call *call)
{
    call->device->ops->aggregate_max_backward(call->device, call->pass.block, call->pass.arg_base, call->f,
                                              places(call), call->grad_out, call->pass.back.packed);
}

/* dx_j = Σ over the parts that read row j of what they packed */
static void backward(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    if (call->pass.order.first) {
        ops->move(call->device, DEVICE_LANE_COMPUTE, call->pass.to, call->pass.payload[0],
                  (size_t)(call->n * call->f) * sizeof *call->pass.to);
    } else {
        ops->rows_add(call->device, call->pass.back.n_row, call->f, call->pass.back.rows, call->pass.back.factor,
                      call->pass.payload[0], call->pass.to);
    }
}

const struct aggregate_def aggregate_max = {
    .name = "max",
    .title = "max of neighbours",
    .saved_width = saved_width,
    .forward = {.direction = HALO_DIRECTION_IN,
                .n_piece = 1,
                .piece = {OP_ROLE_IN_0},
                .access = {.writes = OP_ROLES(OUT) | OP_ROLES(SAVED_0)},
                .run = forward},
    .sampled = AGGREGATE_SAMPLED_PLAIN,
    .backward = {{.direction = HALO_DIRECTION_RETURN,
                  .n_piece = 1,
                  .piece = {OP_ROLE_GRAD_IN_0},
                  .access = {.writes = OP_ROLES(GRAD_IN_0)},
                  .run = backward,
                  .pack = backward_pack,
                  .pack_reads = OP_ROLES(SAVED_0) | OP_ROLES(GRAD_OUT)}},
};
