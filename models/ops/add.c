/* out = a·x0 + b·x1: residuals, a layer's two branches, teleports. */
#include "models/ops/ops.h"

/* y = a x0 + b x1 */
static void forward(const struct op_call *call)
{
    call->device->ops->axpby(call->device, call->n * op_width(call), call->op->a, NULL, call->in[0], call->op->b,
                             call->in[1], call->out);
}

/* dx1 = b dy · dx0 = a dy, last: it may lie on dy */
static void backward(const struct op_call *call)
{
    op_give(call, 1, call->op->b);
    op_give(call, 0, call->op->a);
}

const struct op_def op_add = {
    .name = "add", .title = "add", .in_place = true, .takes_bf16 = true, .forward = forward, .backward = backward};
