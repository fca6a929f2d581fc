/* out_i = Σ_r mean over in-neighbours j of relation r of z_j's columns of r: R-GCN's first layer where a node has no
 * features but a row of its own in each relation's weight, z_j = [W_1[j] | … | W_R[j]]; or mixed from bases, z_j =
 * [V_1[j] | … | V_B[j]] and W_r[j] = Σ_b a_rb V_b[j]. Schlichtkrull et al., ESWC 2018, eq. 2-3 with the identity as
 * features
 *
 * z travels one way and the output's gradient the other. The sum of a part's rows, G, is already the gradient of z:
 * no product.
 */
#include "models/ops/ops.h"

/* z is n_base × f wide. */
struct shape {
    int64_t n_relation, n_base, f;
};

static struct shape shape_of(const struct program *program, const struct op *op)
{
    bool mixed = op->param[0] >= 0;
    return (struct shape){.n_relation = program->n_relation,
                          .n_base = mixed ? program->param[op->param[0]].shape[1] : program->n_relation,
                          .f = program->value[op->out].width};
}

static size_t workspace_mixed(const struct program *program, const struct op *op, const struct device_ops *ops,
                              int64_t n)
{
    struct shape s = shape_of(program, op);
    size_t dot = DEVICE_BYTES(ops, RELATION_DOT, s.n_relation, s.n_base),
           one = DEVICE_BYTES(ops, RELATION_DOT, s.n_relation, 1);
    size_t transposed = (size_t)(s.n_relation * s.n_base) * sizeof(float), most = dot > one ? dot : one;
    (void)n;
    return most > transposed ? most : transposed;
}

/* The block's edges to rows x, `stride` columns apart, of which f are read for each base. */
static struct device_relation relation_of(const struct op_call *call, const struct shape *s, int64_t stride,
                                          const float *x)
{
    return (struct device_relation){.block = call->pass.block,
                                    .n_relation = s->n_relation,
                                    .n_base = s->n_base,
                                    .f = s->f,
                                    .stride = stride,
                                    .x = x};
}

/* y_i = Σ_{j→i} c_ij Σ_b a_rb z_jb, with c_ij = 1 / the edges of relation r into i */
static void forward(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    struct shape s = shape_of(call->program, call->op);
    struct device_relation how = relation_of(call, &s, s.n_base * s.f, call->pass.payload[0]);
    how.comp = call->param[0];
    how.picks = true;
    if (call->pass.order.first) {
        ops->fill_zero(call->device, call->pass.to, (size_t)(call->n * s.f) * sizeof *call->pass.to);
    }
    ops->relation_sum(call->device, &how, call->pass.to);
}

/* to_jb (+)= Σ_{j→i} c_ij a_rb dy_i of n rows, over transposed blocks */
static void rows_backward(const struct op_call *call, bool begins, int64_t n, const float *grad, float *to)
{
    const struct device_ops *ops = call->device->ops;
    struct shape s = shape_of(call->program, call->op);
    struct device_relation how = relation_of(call, &s, s.f, grad);
    how.comp = call->param[0];
    if (begins) {
        ops->fill_zero(call->device, to, (size_t)(n * s.n_base * s.f) * sizeof *to);
    }
    ops->relation_sum(call->device, &how, to);
}

static void backward(const struct op_call *call)
{
    rows_backward(call, call->pass.order.first, call->n, call->pass.payload[0], call->pass.to);
}

/* da_rb += Σ_j ⟨Σ_{j→i of r} c_ij dy_i, z_jb⟩ */
static void backward_mixed(const struct op_call *call)
{
    struct shape s = shape_of(call->program, call->op);
    const struct device_relation how = relation_of(call, &s, s.f, call->pass.payload[0]);
    backward(call);
    call->device->ops->relation_dot(call->device, &how, call->in[0], !call->pass.order.first, call->workspace,
                                    call->grad_param[0]);
}

/* --- of sampled rows: gradients return; of bases, rows travel a second time --- */

static void backward_return(const struct op_call *call)
{
    aggregate_return_by(call, backward);
}

static void backward_pack(const struct op_call *call)
{
    rows_backward(call, true, call->pass.back.n_row, call->grad_out, call->pass.back.packed);
}

/* da_rb += Σ_i ⟨Σ_{j→i of r} c_ij z_jb, dy_i⟩, base by base; transposed at the part's last block. */
static void sampled_mixed(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    struct shape s = shape_of(call->program, call->op);
    float *grad = call->grad_param[0];
    for (int64_t b = 0; b < s.n_base; b++) {
        struct device_relation how = relation_of(call, &s, s.n_base * s.f, call->pass.payload[0] + b * s.f);
        how.n_base = 1;
        ops->relation_dot(call->device, &how, call->grad_out, !call->pass.order.first, call->workspace,
                          grad + b * s.n_relation);
    }
    if (call->pass.order.last) {
        ops->swap_axes(call->device, s.n_base, s.n_relation, 1, grad, call->workspace);
        ops->move(call->device, DEVICE_LANE_COMPUTE, grad, call->workspace,
                  (size_t)(s.n_base * s.n_relation) * sizeof *grad);
    }
}

const struct aggregate_def aggregate_relation_rows = {
    .name = "relation_rows",
    .title = "RGCN propagation of rows of each relation",
    .takes_no_loops = true,
    AGGREGATE_LINEAR_PASSES(false, forward, backward, backward_pack),
};

const struct aggregate_def aggregate_relation_rows_mixed = {
    .name = "relation_rows_mixed",
    .title = "RGCN propagation of rows of each base",
    .takes_no_loops = true,
    .workspace = workspace_mixed,
    AGGREGATE_PARAM_PASSES(forward, backward_mixed, sampled_mixed, 0, backward_return, backward_pack),
};
