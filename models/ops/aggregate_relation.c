/* out_i = Σ_r mean over in-neighbours j of relation r of x_j, times W_r; W_r = Σ_b a_rb V_b where there are bases.
 * Schlichtkrull et al., ESWC 2018, eq. 2-3
 *
 * Linear in x with weights known to both ends of an edge: x travels one way, the output's gradient the other, nothing is kept
 * but x. What is summed up in scratch before one product: K, per own row and base, forward; G likewise backward.
 */
#include "models/ops/ops.h"

#define FLOATS_ALIGN 16

/* The shapes of one call: V is n_base × f_in × f_out. */
struct shape {
    int64_t n_relation, n_base, f_in, f_out;
};

static struct shape shape_of(const struct program *program, const struct op *op)
{
    const int64_t *weight = program->param[op->param[0]].shape;
    bool mixed = op->param[1] >= 0;
    return (struct shape){.n_relation = mixed ? program->param[op->param[1]].shape[0] : weight[0], .n_base = weight[0],
                          .f_in = weight[1], .f_out = weight[2]};
}

static int64_t aligned(int64_t n_float)
{
    return (n_float + FLOATS_ALIGN - 1) / FLOATS_ALIGN * FLOATS_ALIGN;
}

/* Where things lie in scratch: the sums over edges first, then what their product needs. */
struct scratch {
    float *sums;    /* n × n_base × (f_in forward, f_out backward) */
    float *weight;  /* f_in × n_base × f_out: V with its first two axes swapped */
    float *own;     /* with comp: x · V, n × n_base × f_out */
    void *rest;
};

static struct scratch scratch_of(const struct aggregate_call *call, const struct shape *s)
{
    struct scratch at = {.sums = call->scratch};
    at.weight = at.sums + aligned(call->n * s->n_base * s->f_out);
    at.own = at.weight + aligned(s->n_base * s->f_in * s->f_out);
    at.rest = call->param[1] != NULL ? at.own + aligned(call->n * s->n_base * s->f_out) : at.own;
    return at;
}

size_t aggregate_relation_scratch(const struct program *program, const struct op *op, const struct device_ops *ops, int64_t n)
{
    struct shape s = shape_of(program, op);
    bool mixed = op->param[1] >= 0;
    int64_t forward = n * s.n_base * s.f_in;
    int64_t backward = aligned(n * s.n_base * s.f_out) * (mixed ? 2 : 1) + aligned(s.n_base * s.f_in * s.f_out);
    size_t rest = ops->linear_scratch(n, s.n_base * s.f_out, s.f_in);
    size_t dot = mixed ? ops->relation_dot_scratch(s.n_relation, s.n_base) : 0;
    rest = (size_t)aligned(s.n_base * s.f_in * s.f_out) * sizeof(float) + rest; /* the product's gradient before it is swapped */
    size_t back = (size_t)backward * sizeof(float) + (rest > dot ? rest : dot);
    return back > (size_t)forward * sizeof(float) ? back : (size_t)forward * sizeof(float);
}

/* K_i,b = Σ_{j→i} c_ij a_rb x_j · y = K V, with c_ij = 1 / the edges of relation r into i */
void aggregate_relation_forward(const struct aggregate_call *call)
{
    const struct device_ops *ops = call->device->ops;
    struct shape s = shape_of(call->program, call->op);
    float *sums = call->scratch;
    if (call->first) {
        ops->fill_zero(call->device, sums, (size_t)(call->n * s.n_base * s.f_in) * sizeof *sums);
    }
    ops->relation_sum(call->device, call->block, s.n_base, call->param[1], s.f_in, s.f_in, call->payload[0], sums);
    if (call->last) {
        ops->linear_backward_input(call->device, call->n, s.f_out, s.n_base * s.f_in, sums, call->param[0], false, call->to);
    }
}

/* G is whole: dx = Σ_b G_b V_bᵀ · dV_b = xᵀ G_b */
static void products(const struct aggregate_call *call, const struct shape *s, const struct scratch *at)
{
    const struct device_ops *ops = call->device->ops;
    int64_t f = s->n_base * s->f_out;
    if (call->grad_in[0] != NULL) {
        ops->linear_forward(call->device, call->n, f, s->f_in, at->sums, at->weight, NULL, call->to);
    }
    if (call->grad_param[0] != NULL) {
        float *swapped = at->rest;
        ops->linear_backward_weight(call->device, call->n, f, s->f_in, at->sums, call->in[0],
                                    swapped + aligned(s->f_in * f), swapped);
        ops->swap_axes(call->device, s->f_in, s->n_base, s->f_out, swapped, call->grad_param[0]);
    }
}

/* Over the transposed blocks: G_j,b = Σ_{j→i} c_ij a_rb dy_i · da_rb = Σ_j ⟨Σ_{j→i of r} c_ij dy_i, x_j V_b⟩ */
void aggregate_relation_backward(const struct aggregate_call *call)
{
    const struct device_ops *ops = call->device->ops;
    struct shape s = shape_of(call->program, call->op);
    struct scratch at = scratch_of(call, &s);
    bool mixes = call->param[1] != NULL && call->grad_param[1] != NULL;
    if (call->first) {
        ops->fill_zero(call->device, at.sums, (size_t)(call->n * s.n_base * s.f_out) * sizeof *at.sums);
        ops->swap_axes(call->device, s.n_base, s.f_in, s.f_out, call->param[0], at.weight);
        if (mixes) {
            ops->linear_backward_input(call->device, call->n, s.n_base * s.f_out, s.f_in, call->in[0], at.weight, false, at.own);
        }
    }
    ops->relation_sum(call->device, call->block, s.n_base, call->param[1], s.f_out, s.f_out, call->payload[0], at.sums);
    if (mixes) {
        ops->relation_dot(call->device, call->block, s.n_relation, s.n_base, s.f_out, call->payload[0], at.own, !call->first,
                          at.rest, call->grad_param[1]);
    }
    if (call->last) {
        products(call, &s, &at);
    }
}
