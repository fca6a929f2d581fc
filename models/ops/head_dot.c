/* out[r, h] = ⟨x[r, h], w[h]⟩: one number per head, part of GAT's scores. And the mean over heads. */
#include "models/ops/ops.h"

static int64_t width(const struct program *program, const struct op *op)
{
    return program->value[op->in[0]].width;
}

static size_t workspace(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n)
{
    return DEVICE_BYTES(ops, COLUMN_SUM, n, width(program, op));
}

/* y_rh = Σ_c x_rhc w_hc */
static void forward(const struct op_call *call)
{
    int64_t n_head = call->op->n_head;
    call->device->ops->head_dot(call->device, call->n, n_head, width(call->program, call->op) / n_head, call->in[0],
                                call->param[0], call->out);
}

/* dx_rhc = dy_rh w_hc · dw_hc = Σ_r dy_rh x_rhc */
static void backward(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    int64_t n_head = call->op->n_head, n_column = width(call->program, call->op) / n_head;
    if (call->grad_param[0] != NULL) {
        ops->column_sum(call->device,
                        &(struct device_column_sum){call->n, n_head * n_column, call->in[0], .n_head = n_head,
                                                    .factor = call->grad_out, .add = call->add_param[0],
                                                    .scratch = call->workspace},
                        call->grad_param[0]);
    }
    if (call->grad_in[0] != NULL) {
        ops->head_dot_backward_input(call->device, call->n, n_head, n_column, call->param[0], call->grad_out,
                                     call->add[0], call->grad_in[0]);
    }
}

const struct op_def op_head_dot = {
    .name = "head_dot",
    .title = "attention scores",
    .backward_reads_of = weight_backward_reads,
    .workspace = workspace,
    .forward = forward,
    .backward = backward,
};

/* y_rc = (1/H) Σ_h x_rhc */
static void mean_forward(const struct op_call *call)
{
    call->device->ops->head_mean(call->device, call->n, call->op->n_head, op_width(call), false, call->in[0], false,
                                 call->out);
}

/* dx_rhc = dy_rc / H */
static void mean_backward(const struct op_call *call)
{
    call->device->ops->head_mean(call->device, call->n, call->op->n_head, op_width(call), true, call->grad_out,
                                 call->add[0], call->grad_in[0]);
}

const struct op_def op_head_mean = {
    .name = "head_mean", .title = "mean of heads", .forward = mean_forward, .backward = mean_backward};
