/* out = a·x0 + b·x1: residuals, a layer's two branches, teleports. */
#include "models/ops/ops.h"

static int64_t n_value(const struct op_call *call)
{
    return call->n * call->program->value[call->op->out].width;
}

/* y = a x0 + b x1 */
static void forward(const struct op_call *call)
{
    call->device->ops->axpby(call->device, n_value(call), call->op->a, NULL, call->in[0], call->op->b, call->in[1],
                             call->out);
}

/* dx1 = b dy · dx0 = a dy, last: it may lie on dy */
static void backward(const struct op_call *call)
{
    const float factor[2] = {call->op->a, call->op->b};
    for (int k = 1; k >= 0; k--) {
        bool passed = call->grad_in[k] == call->grad_out && op_passes_grad(call->op, k);
        if (call->grad_in[k] != NULL && !passed) {
            call->device->ops->axpby(call->device, n_value(call), factor[k], NULL, call->grad_out,
                                     call->add[k] ? 1.0f : 0.0f, call->add[k] ? call->grad_in[k] : NULL,
                                     call->grad_in[k]);
        }
    }
}

const struct op_def op_add = {
    .name = "add", .title = "add", .in_place = true, .takes_bf16 = true, .forward = forward, .backward = backward};
