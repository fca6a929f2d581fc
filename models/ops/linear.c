/* out = x · wᵀ + b, x dense rows or the sparse features; or x · w + b, for weights that are stored in × out.
 * A row of sparse features with a column of its own takes that column of w from its part's embeddings. */
#include "models/ops/ops.h"

#define FLOATS_ALIGN 16

static bool is_sparse(const struct program *program, const struct op *op)
{
    return program->value[op->in[0]].is_sparse;
}

/* Columns of x that the weight in the arena has. */
static int64_t width_in(const struct program *program, const struct op *op)
{
    return is_sparse(program, op) ? program_n_shared(program) : program->value[op->in[0]].width;
}

static int64_t width_out(const struct program *program, const struct op *op)
{
    return program->value[op->out].width;
}

/* Floats of workspace that one turned weight takes. */
static int64_t turned_size(const struct program *program, const struct op *op)
{
    int64_t n = width_in(program, op) * width_out(program, op);
    return op->by_column ? (n + FLOATS_ALIGN - 1) / FLOATS_ALIGN * FLOATS_ALIGN : 0;
}

static size_t workspace(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n)
{
    int64_t f_in = width_in(program, op), f_out = width_out(program, op);
    size_t weight = is_sparse(program, op) ? ops->csr_linear_scratch(f_in, f_out) : ops->linear_scratch(n, f_in, f_out);
    size_t bias = op->param[1] >= 0 ? ops->column_sum_scratch(n, f_out) : 0;
    return (size_t)(2 * turned_size(program, op)) * sizeof(float) + (weight > bias ? weight : bias);
}

/* The weight as out × in. */
static const float *weight_of(const struct op_call *call)
{
    if (!call->op->by_column) {
        return call->param[0];
    }
    call->device->ops->swap_axes(call->device, width_in(call->program, call->op), width_out(call->program, call->op), 1,
                                 call->param[0], call->workspace);
    return call->workspace;
}

/* y = x wᵀ + b */
static void forward(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    int64_t f_in = width_in(call->program, call->op), f_out = width_out(call->program, call->op);
    if (is_sparse(call->program, call->op)) {
        ops->csr_linear_forward(call->device, call->csr, call->in[0], f_out, call->param[0], call->param[1], call->workspace,
                                call->out);
        if (call->embeddings != NULL) {
            ops->csr_embed_forward(call->device, call->csr, call->in[0], f_out, call->embeddings, call->out);
        }
    } else {
        ops->linear_forward(call->device, call->n, f_in, f_out, call->in[0], weight_of(call), call->param[1], call->out);
    }
}

/* dw = dyᵀ x, turned where the weight is */
static void weight_backward(const struct op_call *call, int64_t f_in, int64_t f_out, float *rest)
{
    const struct device_ops *ops = call->device->ops;
    float *turned = (float *)call->workspace + turned_size(call->program, call->op);
    float *to = call->op->by_column ? turned : call->grad_param[0];
    ops->linear_backward_weight(call->device, call->n, f_in, f_out, call->in[0], call->grad_out, rest, call->add_param, to);
    if (call->op->by_column) {
        ops->swap_axes(call->device, f_out, f_in, 1, turned, call->grad_param[0]);
    }
}

/* dx = dy w · dw = dyᵀ x · db = Σ dy */
static void backward(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    int64_t f_in = width_in(call->program, call->op), f_out = width_out(call->program, call->op);
    float *rest = (float *)call->workspace + 2 * turned_size(call->program, call->op);
    if (call->grad_param[0] != NULL && is_sparse(call->program, call->op)) {
        ops->csr_linear_backward_weight(call->device, call->csr, call->in[0], f_out, call->grad_out, rest, call->grad_param[0]);
    } else if (call->grad_param[0] != NULL) {
        weight_backward(call, f_in, f_out, rest);
    }
    if (call->grad_embeddings != NULL) {
        ops->csr_embed_backward(call->device, call->csr, call->in[0], f_out, call->grad_out, call->grad_embeddings);
    }
    if (call->grad_param[1] != NULL) {
        ops->column_sum(call->device, call->n, f_out, call->grad_out, rest, call->add_param, call->grad_param[1]);
    }
    if (call->grad_in[0] != NULL) {
        ops->linear_backward_input(call->device, call->n, f_in, f_out, call->grad_out, weight_of(call), call->add[0],
                                   call->grad_in[0]);
    }
}

/* The weight's gradient alone reads the input. */
static op_roles backward_reads(const struct program *program, const struct op *op)
{
    return program->param[op->param[0]].trains ? OP_ROLES(IN_0) : 0;
}

const struct op_def op_linear = {
    .name = "linear",
    .backward_reads_of = backward_reads,
    .workspace = workspace,
    .forward = forward,
    .backward = backward,
};
