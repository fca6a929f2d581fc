/* out_i = Σ_r mean over in-neighbours j of relation r of x_j, times W_r: free, mixed from bases (Σ_b a_rb V_b), or of
 * diagonal blocks. Schlichtkrull et al., ESWC 2018, eq. 2-4
 *
 * Linear in x with weights known to both ends of an edge: x travels one way, the output's gradient the other, nothing
 * is saved but x. Sums in workspace before one product: K, per own row and relation (or base), forward; G likewise
 * backward. With diagonal blocks each block of columns is computed separately, and rows are split into blocks and
 * joined again.
 */
#include "models/ops/ops.h"

#define FLOATS_ALIGN 16

/* V is n_base × n_block × in × out; a free W_r is its own base, and has one block. */
struct shape {
    int64_t n_relation, n_base, n_block;
    int64_t in, out; /* columns of one block */
    int64_t own;     /* of one block of PLACE_OWN */
    bool mixed;
};

/* Arrays in workspace, one after another. */
enum place {
    PLACE_SUMS,       /* n_block × n × n_base × (in forward, out backward) */
    PLACE_BY_BLOCK,   /* n_block × n_base × in × out: V where there are blocks */
    PLACE_TRANSPOSED, /* in × n_base × out: one block's V */
    PLACE_PRODUCT,    /* likewise: its gradient */
    PLACE_GRAD,       /* as BY_BLOCK */
    PLACE_ROWS,       /* n_block × n × (in or out) where there are blocks */
    PLACE_OWN,        /* mixed: x · V, n × n_base × out; of sampled rows dy · Vᵀ, n × n_base × in */
    PLACE_REST,
    PLACE_N
};

struct workspace {
    float *sums, *by_block, *transposed, *product, *grad, *rows, *own;
    void *rest;
};

static struct shape shape_of(const struct program *program, const struct op *op)
{
    const struct parameter *weight = &program->param[op->param[0]];
    const int64_t *last = weight->shape + weight->n_dim - 2;
    bool mixed = op->param[1] >= 0;
    return (struct shape){.n_relation = mixed ? program->param[op->param[1]].shape[0] : weight->shape[0],
                          .n_base = weight->shape[0],
                          .n_block = weight->n_dim == 4 ? weight->shape[1] : 1,
                          .in = last[0],
                          .out = last[1],
                          .own = program_rows_differ(program) && last[0] > last[1] ? last[0] : last[1],
                          .mixed = mixed};
}

/* The begin of each place, in floats. */
static void places_find(const struct shape *s, int64_t n, int64_t first[PLACE_N])
{
    int64_t wider = s->in > s->out ? s->in : s->out, one = s->n_base * s->in * s->out;
    bool blocks = s->n_block > 1;
    const int64_t size[PLACE_N] = {
        [PLACE_SUMS] = s->n_block * n * s->n_base * wider,
        [PLACE_BY_BLOCK] = blocks ? s->n_block * one : 0,
        [PLACE_TRANSPOSED] = one,
        [PLACE_PRODUCT] = one,
        [PLACE_GRAD] = blocks ? s->n_block * one : 0,
        [PLACE_ROWS] = blocks ? s->n_block * n * wider : 0,
        [PLACE_OWN] = s->mixed ? n * s->n_base * s->own : 0,
    };
    int64_t at = 0;
    for (int place = 0; place < PLACE_N; place++) {
        first[place] = at;
        at += (size[place] + FLOATS_ALIGN - 1) / FLOATS_ALIGN * FLOATS_ALIGN;
    }
}

static struct workspace workspace_of(const struct op_call *call, const struct shape *s)
{
    int64_t first[PLACE_N];
    float *begin = call->workspace;
    places_find(s, call->n, first);
    return (struct workspace){.sums = begin + first[PLACE_SUMS],
                              .by_block = begin + first[PLACE_BY_BLOCK],
                              .transposed = begin + first[PLACE_TRANSPOSED],
                              .product = begin + first[PLACE_PRODUCT],
                              .grad = begin + first[PLACE_GRAD],
                              .rows = begin + first[PLACE_ROWS],
                              .own = begin + first[PLACE_OWN],
                              .rest = begin + first[PLACE_REST]};
}

static size_t workspace(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n)
{
    struct shape s = shape_of(program, op);
    int64_t first[PLACE_N];
    size_t product = program_rows_differ(program) ? DEVICE_BYTES(ops, LINEAR, n, s.out, s.n_base * s.in)
                                                  : DEVICE_BYTES(ops, LINEAR, n, s.n_base * s.out, s.in);
    size_t dot = s.mixed ? DEVICE_BYTES(ops, RELATION_DOT, s.n_relation, s.n_base) : 0;
    places_find(&s, n, first);
    return (size_t)first[PLACE_REST] * sizeof(float) + (product > dot ? product : dot);
}

/* Add a block's edges to the sums of all blocks of columns. */
static void edges_sum(const struct op_call *call, const struct shape *s, int64_t f, float *sums)
{
    const struct device_ops *ops = call->device->ops;
    int64_t n_sum = call->n * s->n_base * f;
    if (call->pass.order.first) {
        ops->fill_zero(call->device, sums, (size_t)(s->n_block * n_sum) * sizeof *sums);
    }
    for (int64_t k = 0; k < s->n_block; k++) {
        const struct device_relation how = {.block = call->pass.block,
                                            .n_relation = s->n_relation,
                                            .n_base = s->n_base,
                                            .f = f,
                                            .stride = s->n_block * f,
                                            .x = call->pass.payload[0] + k * f,
                                            .comp = call->param[1]};
        ops->relation_sum(call->device, &how, sums + k * n_sum);
    }
}

/* V, block by block. */
static const float *weights_of(const struct op_call *call, const struct shape *s, const struct workspace *at)
{
    if (s->n_block == 1) {
        return call->param[0];
    }
    call->device->ops->swap_axes(call->device, s->n_base, s->n_block, s->in * s->out, call->param[0], at->by_block);
    return at->by_block;
}

/* K_i,b = Σ_{j→i} c_ij a_rb x_j · y = K V, with c_ij = 1 / the edges of relation r into i */
static void forward(const struct op_call *call)
{
    const struct device_ops *ops = call->device->ops;
    struct shape s = shape_of(call->program, call->op);
    struct workspace at = workspace_of(call, &s);
    edges_sum(call, &s, s.in, at.sums);
    if (!call->pass.order.last) {
        return;
    }
    const float *weights = weights_of(call, &s, &at);
    float *rows = s.n_block > 1 ? at.rows : call->pass.to;
    for (int64_t k = 0; k < s.n_block; k++) {
        ops->linear(call->device,
                    &(struct device_linear){call->n, s.n_base * s.in, s.out, at.sums + k * call->n * s.n_base * s.in,
                                            weights + k * s.n_base * s.in * s.out, .transposed = true},
                    rows + k * call->n * s.out);
    }
    if (s.n_block > 1) {
        ops->swap_axes(call->device, s.n_block, call->n, s.out, rows, call->pass.to);
    }
}

/* dx = Σ_b G_b V_bᵀ */
static void input_backward(const struct op_call *call, const struct shape *s, const struct workspace *at)
{
    const struct device_ops *ops = call->device->ops;
    const float *weights = weights_of(call, s, at);
    float *rows = s->n_block > 1 ? at->rows : call->pass.to;
    for (int64_t k = 0; k < s->n_block; k++) {
        ops->swap_axes(call->device, s->n_base, s->in, s->out, weights + k * s->n_base * s->in * s->out,
                       at->transposed);
        ops->linear(call->device,
                    &(struct device_linear){call->n, s->n_base * s->out, s->in,
                                            at->sums + k * call->n * s->n_base * s->out, .w = at->transposed,
                                            .scratch = at->rest},
                    rows + k * call->n * s->in);
    }
    if (s->n_block > 1) {
        ops->swap_axes(call->device, s->n_block, call->n, s->in, rows, call->pass.to);
    }
}

/* dV_b = xᵀ G_b */
static void weight_backward(const struct op_call *call, const struct shape *s, const struct workspace *at)
{
    const struct device_ops *ops = call->device->ops;
    const float *rows = call->in[0];
    float *grad = s->n_block > 1 ? at->grad : call->grad_param[0];
    if (s->n_block > 1) {
        ops->swap_axes(call->device, call->n, s->n_block, s->in, call->in[0], at->rows);
        rows = at->rows;
    }
    for (int64_t k = 0; k < s->n_block; k++) {
        ops->linear_backward_weight(call->device, call->n, s->n_base * s->out, s->in,
                                    at->sums + k * call->n * s->n_base * s->out, rows + k * call->n * s->in, at->rest,
                                    false, at->product);
        ops->swap_axes(call->device, s->in, s->n_base, s->out, at->product, grad + k * s->n_base * s->in * s->out);
    }
    if (s->n_block > 1) {
        ops->swap_axes(call->device, s->n_block, s->n_base, s->in * s->out, grad, call->grad_param[0]);
    }
}

/* Of f columns: da_rb += ⟨the sums of payload rows over a relation's edges, what `own` has of the base⟩ */
static void shares_dot(const struct op_call *call, const struct shape *s, int64_t f, const struct workspace *at)
{
    const struct device_relation how = {.block = call->pass.block,
                                        .n_relation = s->n_relation,
                                        .n_base = s->n_base,
                                        .f = f,
                                        .stride = f,
                                        .x = call->pass.payload[0]};
    call->device->ops->relation_dot(call->device, &how, at->own, !call->pass.order.first, at->rest,
                                    call->grad_param[1]);
}

/* da_rb += Σ_j ⟨Σ_{j→i of r} c_ij dy_i, x_j V_b⟩ */
static void shares_backward(const struct op_call *call, const struct shape *s, const struct workspace *at)
{
    const struct device_ops *ops = call->device->ops;
    if (call->pass.order.first) {
        ops->swap_axes(call->device, s->n_base, s->in, s->out, call->param[0], at->transposed);
        ops->linear(call->device,
                    &(struct device_linear){call->n, s->in, s->n_base * s->out, call->in[0], at->transposed,
                                            .transposed = true},
                    at->own);
    }
    shares_dot(call, s, s->out, at);
}

/* Over the transposed blocks: G_j,b = Σ_{j→i} c_ij a_rb dy_i, then the products. */
static void backward(const struct op_call *call)
{
    struct shape s = shape_of(call->program, call->op);
    struct workspace at = workspace_of(call, &s);
    edges_sum(call, &s, s.out, at.sums);
    if (s.mixed && call->grad_param[1] != NULL) {
        shares_backward(call, &s, &at);
    }
    if (call->pass.order.last && call->grad_in[0] != NULL) {
        input_backward(call, &s, &at);
    }
    if (call->pass.order.last && call->grad_param[0] != NULL) {
        weight_backward(call, &s, &at);
    }
}

/* --- backward of sampled rows: weights' gradients over in-edges, whose rows travel a second time; rows' gradients
 * return --- */

/* dV_b = K_bᵀ dy */
static void sampled_weight_backward(const struct op_call *call, const struct shape *s, const struct workspace *at)
{
    const struct device_ops *ops = call->device->ops;
    const float *rows = call->grad_out;
    int64_t one = s->n_base * s->in * s->out, n_sum = call->n * s->n_base * s->in;
    float *grad = s->n_block > 1 ? at->grad : call->grad_param[0];
    if (s->n_block > 1) {
        ops->swap_axes(call->device, call->n, s->n_block, s->out, call->grad_out, at->rows);
        rows = at->rows;
    }
    for (int64_t k = 0; k < s->n_block; k++) {
        ops->linear_backward_weight(call->device, call->n, s->out, s->n_base * s->in, rows + k * call->n * s->out,
                                    at->sums + k * n_sum, at->rest, false, grad + k * one);
    }
    if (s->n_block > 1) {
        ops->swap_axes(call->device, s->n_block, s->n_base, s->in * s->out, grad, call->grad_param[0]);
    }
}

/* da_rb += Σ_i ⟨Σ_{j→i of r} c_ij x_j, dy_i V_bᵀ⟩ */
static void sampled_shares_backward(const struct op_call *call, const struct shape *s, const struct workspace *at)
{
    const struct device_ops *ops = call->device->ops;
    if (call->pass.order.first) {
        ops->linear(call->device,
                    &(struct device_linear){call->n, s->out, s->n_base * s->in, call->grad_out, .w = call->param[0],
                                            .scratch = at->rest},
                    at->own);
    }
    shares_dot(call, s, s->in, at);
}

static void sampled_backward(const struct op_call *call)
{
    struct shape s = shape_of(call->program, call->op);
    struct workspace at = workspace_of(call, &s);
    edges_sum(call, &s, s.in, at.sums);
    if (s.mixed && call->grad_param[1] != NULL) {
        sampled_shares_backward(call, &s, &at);
    }
    if (call->pass.order.last && call->grad_param[0] != NULL) {
        sampled_weight_backward(call, &s, &at);
    }
}

/* dx = Σ_b G_b V_bᵀ of n rows whose edges lead to own rows */
static void rows_backward(const struct op_call *call, int64_t n, float *to)
{
    struct op_call rows = *call;
    rows.n = n;
    rows.pass.order.first = true;
    rows.pass.payload[0] = call->grad_out;
    rows.pass.to = to;
    struct shape s = shape_of(call->program, call->op);
    struct workspace at = workspace_of(&rows, &s);
    edges_sum(&rows, &s, s.out, at.sums);
    input_backward(&rows, &s, &at);
}

static void backward_return(const struct op_call *call)
{
    if (call->pass.order.first) {
        rows_backward(call, call->n, call->pass.to);
    } else {
        call->device->ops->rows_add(call->device, call->pass.back.n_row, call->f, call->pass.back.rows,
                                    call->pass.back.factor, call->pass.payload[0], call->pass.to);
    }
}

static void backward_pack(const struct op_call *call)
{
    rows_backward(call, call->pass.back.n_row, call->pass.back.packed);
}

const struct aggregate_def aggregate_relation = {
    .name = "relation",
    .title = "RGCN propagation",
    .takes_no_loops = true,
    .workspace = workspace,
    .sums_in_workspace = true,
    AGGREGATE_PARAM_PASSES(forward, backward, sampled_backward, OP_ROLES_PARAM, backward_return, backward_pack),
};
