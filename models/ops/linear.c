/* out = x · wᵀ + b, x dense rows or the sparse features; or x · w + b, for weights that are stored in × out.
 * A row of sparse features with a column of its own takes that column of w from its part's embeddings. */
#include "models/ops/ops.h"

static bool is_sparse(const struct program *program, const struct op *op)
{
    return program->value[op->in[0]].is_sparse;
}

/* Columns of x that the arena's weight has. */
static int64_t width_in(const struct program *program, const struct op *op)
{
    return is_sparse(program, op) ? program_n_shared(program) : program->value[op->in[0]].width;
}

static int64_t width_out(const struct program *program, const struct op *op)
{
    return program->value[op->out].width;
}

static size_t workspace(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n)
{
    int64_t f_in = width_in(program, op), f_out = width_out(program, op);
    size_t weight = is_sparse(program, op) ? DEVICE_BYTES(ops, CSR_LINEAR, f_in, f_out)
                                           : DEVICE_BYTES(ops, LINEAR, n, f_in, f_out);
    size_t bias = op->param[1] >= 0 ? DEVICE_BYTES(ops, COLUMN_SUM, n, f_out) : 0;
    return weight > bias ? weight : bias;
}

static struct device_csr_linear sparse_map(const struct op_call *call)
{
    return (struct device_csr_linear){.values = call->in[0],
                                      .f_out = width_out(call->program, call->op),
                                      .w = call->param[0],
                                      .bias = call->param[1],
                                      .table = call->embeddings,
                                      .scratch = call->workspace};
}

/* y = x wᵀ + b; by column y = x w + b, as a map from out to in takes its gradient back */
static void forward(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    int64_t f_in = width_in(call->program, call->op), f_out = width_out(call->program, call->op);
    if (is_sparse(call->program, call->op)) {
        const struct device_csr_linear how = sparse_map(call);
        ops->csr_forward(call->device, call->csr, &how, call->out);
    } else {
        ops->linear(call->device,
                    &(struct device_linear){call->n, f_in, f_out, call->in[0], call->param[0],
                                            .transposed = call->op->by_column, .bias = call->param[1],
                                            .scratch = call->workspace},
                    call->out);
    }
}

/* dw = dyᵀ x; by column xᵀ dy */
static void weight_backward(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    int64_t f_in = width_in(call->program, call->op), f_out = width_out(call->program, call->op);
    bool transposed = call->op->by_column;
    ops->linear_backward_weight(call->device, call->n, transposed ? f_out : f_in, transposed ? f_in : f_out,
                                transposed ? call->grad_out : call->in[0], transposed ? call->in[0] : call->grad_out,
                                call->workspace, call->add_param[0], call->grad_param[0]);
}

/* dx = dy w; by column dy wᵀ */
static void input_backward(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    int64_t f_in = width_in(call->program, call->op), f_out = width_out(call->program, call->op);
    ops->linear(call->device,
                &(struct device_linear){call->n, f_out, f_in, call->grad_out, call->param[0],
                                        .transposed = !call->op->by_column, .add = call->add[0],
                                        .scratch = call->workspace},
                call->grad_in[0]);
}

/* dw and dx · db = Σ dy */
static void backward(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    int64_t f_out = width_out(call->program, call->op);
    if (is_sparse(call->program, call->op)) {
        const struct device_csr_linear how = sparse_map(call);
        ops->csr_backward(call->device, call->csr, &how, call->grad_out, call->grad_param[0], call->grad_embeddings);
    } else if (call->grad_param[0] != NULL) {
        weight_backward(call);
    }
    if (call->grad_param[1] != NULL) {
        ops->column_sum(call->device,
                        &(struct device_column_sum){call->n, f_out, call->grad_out, .add = call->add_param[1],
                                                    .scratch = call->workspace},
                        call->grad_param[1]);
    }
    if (call->grad_in[0] != NULL) {
        input_backward(call);
    }
}

op_roles weight_backward_reads(const struct program *program, const struct op *op)
{
    return program->param[op->param[0]].trains ? OP_ROLES(IN_0) : 0;
}

const struct op_def op_linear = {
    .name = "linear",
    .title = "Linear",
    .backward_reads_of = weight_backward_reads,
    .workspace = workspace,
    .takes_bf16 = true,
    .forward = forward,
    .backward = backward,
};
