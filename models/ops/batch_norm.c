/* out = (x − mean) · rstd · weight + bias over each column of all parts' rows; in evaluation over the running
 * statistics, which are those of the evaluation's own rows where training sees samples, or rows of the epoch
 * before. */
#include "models/ops/ops.h"

#include "models/device/statistics.h"

/* torch.nn.BatchNorm1d's default */
#define MOMENTUM 0.1

static int64_t width(const struct program *program, const struct op *op)
{
    return program->value[op->out].width;
}

/* Forward: statistics. Backward: rows, Σ dy, Σ dy x̂. */
static int64_t n_sum(const struct program *program, const struct op *op)
{
    return STATISTICS_N(width(program, op));
}

/* Means and rstds, followed by backward's sums. */
static int64_t n_statistics(const struct program *program, const struct op *op)
{
    return 2 * width(program, op) + STATISTICS_N(width(program, op));
}

static size_t workspace(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n)
{
    return DEVICE_BYTES(ops, BATCH_NORM, n, width(program, op));
}

static void forward_partial(const struct op_call *call)
{
    call->device->ops->batch_norm_statistics(call->device, call->n, op_width(call), call->in[0], call->workspace,
                                             call->sum);
}

static void forward_merge(struct device *device, const struct program *program, const struct op *op, double *left,
                          const double *right)
{
    device->ops->doubles_merge(device, true, STATISTICS_N(width(program, op)), right, left);
}

/* An evaluation with sums first makes the running statistics from them, and then uses these. */
static void forward_total(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    int64_t f = op_width(call);
    bool stay = call->tentative && call->sum != NULL;
    ops->batch_norm_begin(call->device, f, call->sum, call->training ? MOMENTUM : 1.0, stay ? NULL : call->state[0],
                          stay ? NULL : call->state[1], call->statistics);
    if (!call->training && call->sum != NULL) {
        ops->batch_norm_begin(call->device, f, NULL, 0.0, call->state[0], call->state[1], call->statistics);
    }
}

/* x̂ = (x − mean) / √(var + ε) · y = w x̂ + b.  Ioffe & Szegedy 2015, algorithm 1 */
static void forward(const struct op_call *call)
{
    call->device->ops->batch_norm_forward(call->device, call->n, op_width(call), call->in[0], call->statistics,
                                          call->param[0], call->param[1], call->out);
}

static struct device_norm_backward norm_backward(const struct op_call *call)
{
    return (struct device_norm_backward){.n = call->n,
                                         .f = op_width(call),
                                         .x = call->in[0],
                                         .weight = call->param[0],
                                         .mean_rstd = call->statistics,
                                         .grad_y = call->grad_out,
                                         .add = call->add[0],
                                         .grad_x = call->grad_in[0],
                                         .grad_weight = call->grad_param[0],
                                         .grad_bias = call->grad_param[1],
                                         .scratch = call->workspace};
}

/* A part's own Σ dy x̂ and Σ dy are also its gradients of w and b. */
static void backward_partial(const struct op_call *call)
{
    const struct device_norm_backward how = norm_backward(call);
    call->device->ops->batch_norm_sums(call->device, &how, call->sum);
}

static void backward_merge(struct device *device, const struct program *program, const struct op *op, double *left,
                           const double *right)
{
    device->ops->doubles_merge(device, false, n_sum(program, op), right, left);
}

static void backward_total(const struct op_call *call)
{
    int64_t f = op_width(call);
    call->device->ops->move(call->device, DEVICE_LANE_COMPUTE, call->statistics + 2 * f, call->sum,
                            (size_t)STATISTICS_N(f) * sizeof *call->sum);
}

/* dx = w rstd (dy − mean(dy) − x̂ mean(dy x̂)), means over all parts' rows */
static void backward(const struct op_call *call)
{
    const struct device_norm_backward how = norm_backward(call);
    if (how.grad_x == NULL) {
        return;
    }
    call->device->ops->batch_norm_backward(call->device, &how, call->statistics + 2 * how.f);
}

static const struct global_def global = {
    .n_sum = n_sum,
    .n_statistics = n_statistics,
    .forward = {.partial = forward_partial,
                .partial_access = {.reads = OP_ROLES(IN_0), .writes = OP_ROLES(WORKSPACE)},
                .merge = forward_merge,
                .total = forward_total,
                .total_changes = OP_ROLES(STATE_0) | OP_ROLES(STATE_1)},
    .backward = {.partial = backward_partial,
                 .partial_access = {.reads = OP_ROLES(IN_0) | OP_ROLES(STATISTICS) | OP_ROLES(GRAD_OUT),
                                    .writes = OP_ROLES(WORKSPACE) | OP_ROLES_GRAD_PARAM},
                 .merge = backward_merge,
                 .total = backward_total},
};

const struct op_def op_batch_norm = {
    .name = "batch_norm",
    .title = "BatchNorm",
    .also_reads = OP_ROLES(STATISTICS),
    .backward_reads = OP_ROLES(IN_0),
    .in_place = true,
    .workspace = workspace,
    .forward = forward,
    .backward = backward,
    .global = &global,
};
