/* Heads made wider by a product with their own weight, and narrower again, for attention with edges' features f.
 *
 * With keys k + W f and values v + W f the product of a query q with a key is ⟨q, k⟩ + ⟨Wᵀ q, f⟩, and Σ α (v + W f) =
 * Σ α v + W Σ α f: queries q | Wᵀ q and sums Σ α v | Σ α f need no W at any edge. Narrowing is the transpose of
 * widening, so that each is the other's backward.
 */
#include "models/ops/ops.h"

/* Rows of heads of n_column columns, followed by n_more in wide rows. */
struct shape {
    int64_t n_head, n_column, n_more;
};

static struct shape shape_of(const struct program *program, const struct op *op)
{
    const struct parameter *param = &program->param[op->param[0]];
    return (struct shape){op->n_head, param->shape[0] / op->n_head, param->shape[1]};
}

/* One head's columns, side by side: n × n_column, n × n_more; then the product's scratch. */
struct workspace {
    float *narrow, *more;
    void *rest;
};

static size_t workspace(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n)
{
    struct shape s = shape_of(program, op);
    return (size_t)(n * (s.n_column + s.n_more)) * sizeof(float) + DEVICE_BYTES(ops, LINEAR, n, s.n_more, s.n_column);
}

static struct workspace workspace_of(const struct op_call *call, const struct shape *s)
{
    float *narrow = call->workspace, *more = narrow + call->n * s->n_column;
    return (struct workspace){narrow, more, more + call->n * s->n_more};
}

/* Head h of narrow rows, and the additional columns of wide rows, into the workspace. */
static void narrow_take(const struct op_call *call, const struct shape *s, int64_t h, const float *rows, float *to)
{
    call->device->ops->columns_copy(call->device, call->n, s->n_column, rows + h * s->n_column,
                                    s->n_head * s->n_column, to, s->n_column, false);
}

static void more_take(const struct op_call *call, const struct shape *s, int64_t h, const float *rows, float *to)
{
    int64_t wide = s->n_column + s->n_more;
    call->device->ops->columns_copy(call->device, call->n, s->n_more, rows + h * wide + s->n_column, s->n_head * wide,
                                    to, s->n_more, false);
}

/* to (+)= x | wᵀ x of each head */
static void widen(const struct op_call *call, const float *x, bool add, float *to)
{
    const struct device_ops *ops = call->device->ops;
    const struct shape s = shape_of(call->program, call->op);
    const struct workspace at = workspace_of(call, &s);
    int64_t wide = s.n_column + s.n_more, width = s.n_head * s.n_column, width_wide = s.n_head * wide;
    for (int64_t h = 0; h < s.n_head; h++) {
        narrow_take(call, &s, h, x, at.narrow);
        ops->linear(call->device,
                    &(struct device_linear){call->n, s.n_column, s.n_more, at.narrow,
                                            call->param[0] + h * s.n_column * s.n_more, .transposed = true},
                    at.more);
        ops->columns_copy(call->device, call->n, s.n_column, x + h * s.n_column, width, to + h * wide, width_wide,
                          add);
        ops->columns_copy(call->device, call->n, s.n_more, at.more, s.n_more, to + h * wide + s.n_column, width_wide,
                          add);
    }
}

/* to (+)= a + w b of each head a | b */
static void narrow(const struct op_call *call, const float *x, bool add, float *to)
{
    const struct device_ops *ops = call->device->ops;
    const struct shape s = shape_of(call->program, call->op);
    const struct workspace at = workspace_of(call, &s);
    int64_t wide = s.n_column + s.n_more, width = s.n_head * s.n_column, width_wide = s.n_head * wide;
    for (int64_t h = 0; h < s.n_head; h++) {
        more_take(call, &s, h, x, at.more);
        ops->linear(call->device,
                    &(struct device_linear){call->n, s.n_more, s.n_column, at.more,
                                            .w = call->param[0] + h * s.n_column * s.n_more, .scratch = at.rest},
                    at.narrow);
        ops->columns_copy(call->device, call->n, s.n_column, x + h * wide, width_wide, to + h * s.n_column, width,
                          add);
        ops->columns_copy(call->device, call->n, s.n_column, at.narrow, s.n_column, to + h * s.n_column, width, true);
    }
}

/* dw_h (+)= Σ_r narrow rows' head h ⊗ the additional columns of wide rows */
static void weight_backward(const struct op_call *call, const float *rows, const float *wide_rows)
{
    const struct shape s = shape_of(call->program, call->op);
    const struct workspace at = workspace_of(call, &s);
    for (int64_t h = 0; h < s.n_head; h++) {
        narrow_take(call, &s, h, rows, at.narrow);
        more_take(call, &s, h, wide_rows, at.more);
        call->device->ops->linear_backward_weight(call->device, call->n, s.n_more, s.n_column, at.more, at.narrow,
                                                  at.rest, call->add_param[0],
                                                  call->grad_param[0] + h * s.n_column * s.n_more);
    }
}

static void widen_forward(const struct op_call *call)
{
    widen(call, call->in[0], false, call->out);
}

/* dx = dy's first columns + w · the others · dw = Σ x ⊗ the others */
static void widen_backward(const struct op_call *call)
{
    if (call->grad_param[0] != NULL) {
        weight_backward(call, call->in[0], call->grad_out);
    }
    if (call->grad_in[0] != NULL) {
        narrow(call, call->grad_out, call->add[0], call->grad_in[0]);
    }
}

static void narrow_forward(const struct op_call *call)
{
    narrow(call, call->in[0], false, call->out);
}

/* da | db = dy | wᵀ dy · dw = Σ dy ⊗ b */
static void narrow_backward(const struct op_call *call)
{
    if (call->grad_param[0] != NULL) {
        weight_backward(call, call->grad_out, call->in[0]);
    }
    if (call->grad_in[0] != NULL) {
        widen(call, call->grad_out, call->add[0], call->grad_in[0]);
    }
}

const struct op_def op_head_widen = {
    .name = "head_widen",
    .title = "queries of edges' features",
    .backward_reads_of = weight_backward_reads,
    .workspace = workspace,
    .forward = widen_forward,
    .backward = widen_backward,
};

const struct op_def op_head_narrow = {
    .name = "head_narrow",
    .title = "values of edges' features",
    .backward_reads_of = weight_backward_reads,
    .workspace = workspace,
    .forward = narrow_forward,
    .backward = narrow_backward,
};
