#include "trainerd/coordinator/plan/step_work.h"

static int64_t rows_up_to(const struct memory_plan_input *in, int32_t hop, bool all)
{
    int64_t n = 0;
    for (int32_t i = 0; i < in->n_own_part; i++) {
        n += memory_plan_rows_own(&in->own[i], all && hop != PROGRAM_HOP_HALO ? PROGRAM_HOP_ALL : hop);
    }
    return n;
}

/* Of the step's output; without an op that of the logits. */
static int32_t hop_of(const struct program *program, const struct step *step)
{
    return program->value[step->op < 0 ? program->logits : program->op[step->op].out].hop;
}

int64_t step_work_rows(const struct memory_plan_input *in, const struct step *step, bool all)
{
    if (step->kind == STEP_KIND_REDUCE || step->kind == STEP_KIND_UPDATE || step->kind == STEP_KIND_TOTAL) {
        return 0;
    }
    int32_t hop = hop_of(in->program, step);
    bool sources = step->kind == STEP_KIND_HALO && step->halo->direction != HALO_DIRECTION_IN;
    return rows_up_to(in, sources ? program_hop_before(hop) : hop, all);
}

int64_t step_work_received(const struct memory_plan_input *in, const struct memory_plan *plan,
                           const struct step *step, bool all)
{
    if (step->kind != STEP_KIND_HALO || step->stored) {
        return 0;
    }
    int32_t hop = all ? PROGRAM_HOP_ALL : halo_pass_hop(in->program, &in->program->op[step->op], step->halo);
    struct memory_payloads payloads = memory_plan_payloads(plan, in->job, in->program, step, hop);
    return memory_plan_halo(plan, step->halo->direction, hop)->received.n_row * payloads.n_row_bytes;
}

/* A step of a plan, and whether rows of every hop count. */
struct view {
    const struct memory_plan_input *in;
    const struct memory_plan *plan;
    const struct program *program;
    const struct step *step;
    const struct op *op; /* NULL: of none */
    bool all;
};

/* Edges that a halo pass walks; `loops`: with those that are implied. */
static double edges_of(const struct view *v, bool loops)
{
    int d = v->step->halo->direction == HALO_DIRECTION_OUT ? PART_DIRECTION_OUT : PART_DIRECTION_IN;
    int32_t hop = v->all ? PROGRAM_HOP_ALL : hop_of(v->program, v->step);
    loops = loops && !aggregate_defs[v->op->aggregate]->takes_no_loops;
    int64_t n = 0;
    for (int32_t i = 0; i < v->in->n_own_part; i++) {
        const struct memory_plan_part *own = &v->in->own[i];
        const struct part_pairs *pairs = &own->halo->pairs[d];
        n += hop < own->halo->n_hop ? own->halo->n_edge_hop[d][hop] : pairs->pair[pairs->n_pair].edge;
        n += loops && own->implied_loops ? memory_plan_rows_own(own, hop) : 0;
    }
    return (double)n;
}

/* Does the step read this operand's rows at edges' other ends? Max knows its winners when it returns gradients. */
static bool is_gathered(const struct view *v, const struct step_operand *operand)
{
    const struct halo_pass *halo = v->step->halo;
    if (v->step->kind != STEP_KIND_HALO) {
        return false;
    }
    op_roles roles = halo->transposed ? halo->pack_reads & ~(OP_ROLES_PARAM | OP_ROLES(NODE)) : 0;
    for (int k = 0; k < halo->n_piece && halo->direction != HALO_DIRECTION_RETURN; k++) {
        roles |= (op_roles)1 << halo->piece[k];
    }
    return roles >> operand->role & 1;
}

/* Numbers and bytes that all edges read of rows; of rows of all relations only their own relation's. */
static void edge_reads(const struct view *v, double *numbers_out, double *bytes_out)
{
    double n_edge = v->step->kind == STEP_KIND_HALO ? edges_of(v, true) : 0.0;
    *numbers_out = *bytes_out = 0.0;
    for (int k = 0; k < v->step->n_operand; k++) {
        const struct step_operand *one = &v->step->operand[k];
        double width = is_gathered(v, one) ? (double)step_operand_width(v->program, one) : 0.0, share = 1.0;
        if (width > 0.0 && v->op->aggregate == AGGREGATE_KIND_RELATION_ROWS && one->role == OP_ROLE_IN_0) {
            share = (double)v->program->value[v->op->out].width / width;
        }
        *numbers_out += n_edge * share * width;
        *bytes_out += width > 0.0 ? n_edge * share * (double)step_operand_row_bytes(v->program, one) : 0.0;
    }
}

/* A product with a weight: once forward, backward for each gradient that is made. */
static double product_flops(const struct view *v)
{
    const struct value *to = &v->program->value[v->op->out];
    int n_grad = (step_operand(v->step, OP_ROLE_GRAD_IN_0) != NULL) +
                 (step_operand(v->step, OP_ROLE_GRAD_PARAM_0) != NULL);
    bool sparse = v->program->value[v->op->in[0]].is_sparse;
    int64_t n = sparse ? memory_plan_values(v->plan, PROGRAM_HOP_ALL) : rows_up_to(v->in, to->hop, v->all);
    int64_t each = sparse ? to->width : parameter_size(&v->program->param[v->op->param[0]]);
    return 2.0 * (v->step->backward ? n_grad : 1) * (double)n * (double)each;
}

static double step_flops(const struct view *v)
{
    if (v->op == NULL || v->step->kind >= STEP_KIND_STORE) {
        return 0.0;
    }
    double numbers, bytes;
    edge_reads(v, &numbers, &bytes);
    bool multiplies = v->op->aggregate == AGGREGATE_KIND_RELATION && v->step->kind == STEP_KIND_HALO;
    return (v->op->kind == OP_KIND_LINEAR || multiplies ? product_flops(v) : 0.0) + 2.0 * numbers;
}

/* Of one that is gathered for its rows at edges' other ends, else for the rows that the step is over. */
static double operand_bytes(const struct view *v, const struct step_operand *operand)
{
    bool typed = v->program->n_relation > 0, weighted = typed || v->in->own[0].weighted;
    bool out = v->step->kind == STEP_KIND_HALO && v->step->halo->direction == HALO_DIRECTION_OUT;
    double n_row = (double)step_work_rows(v->in, v->step, v->all), each = 4.0 + 4.0 * weighted + 2.0 * typed;
    if (is_gathered(v, operand)) {
        int32_t to = hop_of(v->program, v->step), from = v->step->stored ? PROGRAM_HOP_HALO : program_hop_before(to);
        n_row = (double)rows_up_to(v->in, v->step->halo->direction == HALO_DIRECTION_IN ? from : to, v->all);
    }
    switch (operand->array) {
    case STEP_ARRAY_VALUE:
    case STEP_ARRAY_GRAD:
    case STEP_ARRAY_SAVED:
    case STEP_ARRAY_FRESH:
        return operand->array == STEP_ARRAY_VALUE && v->program->value[operand->index].is_sparse
                   ? 4.0 * (double)memory_plan_values(v->plan, PROGRAM_HOP_ALL)
                   : n_row * (double)step_operand_row_bytes(v->program, operand);
    case STEP_ARRAY_PARAMETER:
    case STEP_ARRAY_GRAD_PARAMETER: /* each part has its own, until the update */
        each = operand->array == STEP_ARRAY_PARAMETER || v->step->kind == STEP_KIND_UPDATE ? 1 : v->in->n_own_part;
        return 4.0 * each *
               (double)(operand->index < 0 ? v->program->n_weight : v->program->param[operand->index].n_shared);
    case STEP_ARRAY_CSR:
        return 4.0 * (double)memory_plan_values(v->plan, PROGRAM_HOP_ALL) + 8.0 * n_row;
    case STEP_ARRAY_NODE: /* by which it draws */
        return v->op != NULL && v->op->dropout > 0.0 ? 4.0 * n_row : 0.0;
    case STEP_ARRAY_SCALE:
    case STEP_ARRAY_LABELS:
        return 4.0 * n_row;
    case STEP_ARRAY_BLOCKS: /* where rows begin; columns, and what else edges have */
        return (operand->index == PART_DIRECTION_OUT) != out ? 0.0 : 8.0 * n_row + each * edges_of(v, false);
    default:
        return 0.0;
    }
}

static int64_t place_of(const struct view *v, const struct step_operand *operand)
{
    return memory_plan_at(v->plan, v->program, operand->array, operand->index, operand->k);
}

/* Has the chain read or written the array before this operand; if `writes`, written it, or does it stay as it is?
 * Arrays in one place are one: an op works in place. */
static bool is_touched(const struct view *v, const struct step *first, const struct step_operand *operand,
                       bool writes)
{
    int64_t at = place_of(v, operand);
    bool stays = v->step->kind == STEP_KIND_BACKWARD && operand->array == STEP_ARRAY_GRAD &&
                 op_passes_grad(v->op, (int)operand->role - OP_ROLE_GRAD_IN_0);
    for (const struct step *s = first; s <= v->step; s++) {
        for (int k = 0; k < s->n_operand && &s->operand[k] != operand; k++) {
            const struct step_operand *one = &s->operand[k];
            bool same = step_operand_is_same(one, operand) || (at >= 0 && at == place_of(v, one));
            if (same && (!writes || one->access != STEP_ACCESS_READ || (stays && s == v->step))) {
                return true;
            }
        }
    }
    return false;
}

struct step_work step_work_count(const struct memory_plan_input *in, const struct memory_plan *plan,
                                 const struct step *first, const struct step *step, bool all)
{
    const struct view v = {in, plan, in->program, step, step->op < 0 ? NULL : &in->program->op[step->op], all};
    struct step_work work = {.n_flop = step_flops(&v)};
    bool waits = step->kind == STEP_KIND_STORED || step->kind == STEP_KIND_FETCHED;
    double rows = (double)step_work_received(in, plan, step, all), each, numbers;
    for (int k = 0; k < step->n_operand && !waits && (step->kind != STEP_KIND_REDUCE || in->n_part > 1); k++) {
        const struct step_operand *one = &step->operand[k];
        double n_byte = memory_plan_window_at(plan, in->program, one) >= 0 ? 0.0 : operand_bytes(&v, one);
        bool gathered = is_gathered(&v, one);
        bool reads = !gathered && one->access != STEP_ACCESS_WRITE && !is_touched(&v, first, one, false);
        bool writes = !gathered && one->access != STEP_ACCESS_READ && !is_touched(&v, first, one, true);
        rows += gathered ? n_byte : 0.0;
        work.n_byte += n_byte * (reads + writes);
    }
    edge_reads(&v, &numbers, &each);
    work.n_gathered = work.n_byte + each;
    work.n_byte += rows < each ? rows : each;
    return work;
}
