#include "models/vertex/match.h"

static const struct vertex_op *at(const struct vertex_trace *trace, int32_t op)
{
    return &trace->op[op];
}

static bool is(const struct vertex_trace *trace, int32_t op, enum vertex_op_kind kind)
{
    return op >= 0 && at(trace, op)->kind == kind;
}

/* The operation below changes of shape alone: heads, flat. */
static int32_t match_below(const struct vertex_trace *trace, int32_t op)
{
    while (is(trace, op, VERTEX_OP_HEADS) || is(trace, op, VERTEX_OP_FLAT)) {
        op = at(trace, op)->in[0];
    }
    return op;
}

bool match_operands(const struct vertex_trace *trace, int32_t op, enum vertex_op_kind kind, enum vertex_op_kind first,
                    int32_t *first_out, int32_t *second_out)
{
    if (!is(trace, op, kind)) {
        return false;
    }
    int32_t a = at(trace, op)->in[0], b = at(trace, op)->in[1];
    bool swapped = !is(trace, a, first);
    *first_out = swapped ? b : a;
    *second_out = swapped ? a : b;
    return is(trace, *first_out, first);
}

/* e.src.a of rows */
static bool source(const struct vertex_trace *trace, int32_t op, int32_t *out)
{
    bool found = is(trace, op, VERTEX_OP_SOURCE);
    *out = found ? at(trace, op)->in[0] : -1;
    return found;
}

static bool target(const struct vertex_trace *trace, int32_t op, int32_t *out)
{
    bool found = is(trace, op, VERTEX_OP_TARGET);
    *out = found ? at(trace, op)->in[0] : -1;
    return found;
}

bool match_sum(const struct vertex_trace *trace, int32_t op, struct match_sum *out)
{
    const struct vertex_op *reduce = at(trace, op);
    bool sums = reduce->kind == VERTEX_OP_SUM, means = reduce->kind == VERTEX_OP_MEAN;
    if ((!sums && !means) || reduce->relation >= 0) {
        return false;
    }
    int32_t row = reduce->in[0], factor = -1;
    out->factor = MATCH_FACTOR_NONE;
    if (match_operands(trace, row, VERTEX_OP_MULTIPLY, VERTEX_OP_EDGE_NORM, &factor, &row)) {
        out->factor = MATCH_FACTOR_NORM;
    } else if (match_operands(trace, reduce->in[0], VERTEX_OP_MULTIPLY, VERTEX_OP_EDGE_WEIGHT, &factor, &row)) {
        out->factor = MATCH_FACTOR_WEIGHT;
    } else {
        row = reduce->in[0];
    }
    bool norm = out->factor == MATCH_FACTOR_NORM;
    out->kind = means ? AGGREGATE_KIND_MEAN : norm ? AGGREGATE_KIND_GCN : AGGREGATE_KIND_SUM;
    return source(trace, row, &out->source) && !(means && norm);
}

/* --- attention --- */

int64_t match_size(const struct vertex_trace *trace, int32_t op)
{
    int64_t n = op >= 0 ? 1 : 0;
    for (int d = 0; op >= 0 && d < at(trace, op)->shape.n_dim; d++) {
        n *= at(trace, op)->shape.dim[d];
    }
    return n;
}

/* Are operations as wide as attention's values, and weights of edges' features? -1 is of any width. */
static bool fits(const struct vertex_trace *trace, const struct match_attention *m, int32_t op)
{
    return op < 0 || match_size(trace, op) == match_size(trace, m->value);
}

static bool edge_fits(const struct vertex_trace *trace, const struct match_attention *m)
{
    return m->edge < 0 || at(trace, m->edge)->shape.dim[0] == match_size(trace, m->value);
}

/* linear(name, e.feature, …, bias=False) */
static bool feature_map(const struct vertex_trace *trace, int32_t op, int32_t *weight_out)
{
    int32_t linear = match_below(trace, op);
    bool found = is(trace, linear, VERTEX_OP_LINEAR) && is(trace, at(trace, linear)->in[0], VERTEX_OP_EDGE_FEATURE) &&
                 at(trace, linear)->in[2] < 0 &&
                 at(trace, at(trace, linear)->in[1])->shape.dim[1] ==
                     at(trace, at(trace, linear)->in[0])->shape.dim[0]; /* not a part of it */
    *weight_out = found ? at(trace, linear)->in[1] : -1;
    return found;
}

/* a, or a + a map of the edge's features, in either order */
static int32_t without_features(const struct vertex_trace *trace, int32_t op, int32_t *weight_out)
{
    *weight_out = -1;
    if (!is(trace, op, VERTEX_OP_ADD)) {
        return op;
    }
    int32_t a = at(trace, op)->in[0], b = at(trace, op)->in[1];
    if (feature_map(trace, b, weight_out)) {
        return a;
    }
    return feature_map(trace, a, weight_out) ? b : op;
}

/* e.src.a + e.dst.b, in either order */
static bool both_ends(const struct vertex_trace *trace, int32_t op, int32_t *source_out, int32_t *target_out)
{
    int32_t other = -1;
    return match_operands(trace, op, VERTEX_OP_ADD, VERTEX_OP_SOURCE, &op, &other) && source(trace, op, source_out) &&
           target(trace, other, target_out);
}

/* Σ_j softmax(leaky(e.src.s + e.dst.t [+ ⟨W_e f, a_e⟩])) z_j, s and t one number a head */
static bool match_gat(const struct vertex_trace *trace, int32_t score, struct match_attention *out)
{
    int32_t sum = at(trace, score)->in[0], dot = -1, mapped = -1, rest = sum;
    if (!is(trace, score, VERTEX_OP_LEAKY_RELU)) {
        return false;
    }
    out->kind = AGGREGATE_KIND_GAT;
    if (match_operands(trace, sum, VERTEX_OP_ADD, VERTEX_OP_DOT, &dot, &rest)) {
        out->kind = AGGREGATE_KIND_GAT_EDGES;
        if (!match_operands(trace, dot, VERTEX_OP_DOT, VERTEX_OP_PARAMETER, &out->att_edge, &mapped) ||
            !feature_map(trace, mapped, &out->edge)) {
            return false;
        }
    } else {
        rest = sum;
    }
    out->slope = at(trace, score)->number[0];
    int32_t row = -1;
    if (!both_ends(trace, rest, &out->key, &out->query)) {
        return false;
    }
    const int32_t ends[] = {out->key, out->query};
    for (int k = 0; k < 2; k++) { /* numbers of the values' own rows */
        int32_t weight = -1;
        if (!match_operands(trace, ends[k], VERTEX_OP_DOT, VERTEX_OP_PARAMETER, &weight, &row) ||
            match_below(trace, row) != match_below(trace, out->value) || !fits(trace, out, weight) ||
            match_size(trace, ends[k]) != out->n_head) {
            return false;
        }
    }
    return fits(trace, out, out->att_edge) && edge_fits(trace, out);
}

/* Σ_j softmax(⟨att, leaky(l_j + r_i [+ W_e f])⟩) l_j */
static bool match_gatv2(const struct vertex_trace *trace, int32_t score, struct match_attention *out)
{
    int32_t leaky = -1, sum, l = -1;
    out->kind = AGGREGATE_KIND_GATV2;
    if (!match_operands(trace, score, VERTEX_OP_DOT, VERTEX_OP_PARAMETER, &out->att, &leaky) ||
        !is(trace, leaky, VERTEX_OP_LEAKY_RELU)) {
        return false;
    }
    out->slope = at(trace, leaky)->number[0];
    sum = without_features(trace, at(trace, leaky)->in[0], &out->edge);
    return both_ends(trace, sum, &l, &out->query) && l == out->value && fits(trace, out, out->query) &&
           fits(trace, out, out->att) && edge_fits(trace, out) && match_size(trace, score) == out->n_head;
}

/* Σ_j softmax(scale ⟨q_i, k_j [+ W_e f]⟩) (u_j [+ W_e f]) */
static bool match_dot(const struct vertex_trace *trace, int32_t score, int32_t value_edge,
                      struct match_attention *out)
{
    int32_t dot = score, number = -1, key = -1;
    out->kind = AGGREGATE_KIND_DOT;
    out->scale = 1.0;
    if (is(trace, score, VERTEX_OP_DIVIDE) && is(trace, at(trace, score)->in[1], VERTEX_OP_NUMBER)) {
        dot = at(trace, score)->in[0];
        out->scale = 1.0 / at(trace, at(trace, score)->in[1])->number[0];
    } else if (match_operands(trace, score, VERTEX_OP_MULTIPLY, VERTEX_OP_NUMBER, &number, &dot)) {
        out->scale = at(trace, number)->number[0];
    } else {
        dot = score;
    }
    int32_t query = -1;
    if (!match_operands(trace, dot, VERTEX_OP_DOT, VERTEX_OP_TARGET, &query, &key) ||
        !target(trace, query, &out->query)) {
        return false;
    }
    key = without_features(trace, key, &out->edge);
    return source(trace, key, &out->key) && out->edge == value_edge && fits(trace, out, out->key) &&
           fits(trace, out, out->query) && edge_fits(trace, out) && match_size(trace, dot) == out->n_head;
}

/* Σ_j softmax(β cos(h_j, h_i)) h_j */
static bool match_cosine(const struct vertex_trace *trace, int32_t score, struct match_attention *out)
{
    int32_t dot = -1, from = -1, to = -1, there = -1, here = -1;
    out->kind = AGGREGATE_KIND_COSINE;
    if (!match_operands(trace, score, VERTEX_OP_MULTIPLY, VERTEX_OP_PARAMETER, &out->beta, &dot) ||
        at(trace, out->beta)->shape.n_dim != 1 || at(trace, out->beta)->shape.dim[0] != 1 ||
        !match_operands(trace, dot, VERTEX_OP_DOT, VERTEX_OP_SOURCE, &from, &to) || !source(trace, from, &there) ||
        !target(trace, to, &here)) {
        return false;
    }
    return there == here && is(trace, here, VERTEX_OP_NORMALIZE) && at(trace, here)->in[0] == out->value &&
           at(trace, here)->shape.n_dim == 1;
}

bool match_attention(const struct vertex_trace *trace, int32_t op, struct match_attention *out)
{
    const struct vertex_op *reduce = at(trace, op);
    *out = (struct match_attention){
        .value = -1, .key = -1, .query = -1, .att = -1, .edge = -1, .att_edge = -1, .beta = -1};
    if (reduce->kind != VERTEX_OP_SUM || reduce->relation >= 0 || !is(trace, reduce->in[0], VERTEX_OP_MULTIPLY)) {
        return false;
    }
    int32_t share = at(trace, reduce->in[0])->in[0], value = at(trace, reduce->in[0])->in[1], value_edge = -1;
    for (int turn = 0; turn < 2; turn++) {
        int32_t softmax = is(trace, share, VERTEX_OP_DROPOUT) ? at(trace, share)->in[0] : share;
        if (is(trace, softmax, VERTEX_OP_SOFTMAX)) {
            out->dropout = softmax != share ? at(trace, share)->number[0] : 0.0;
            share = softmax;
            break;
        }
        int32_t first = share;
        share = value;
        value = first;
    }
    if (!is(trace, share, VERTEX_OP_SOFTMAX) ||
        !source(trace, without_features(trace, value, &value_edge), &out->value)) {
        return false;
    }
    const struct vertex_shape *shape = &at(trace, out->value)->shape;
    out->n_head = shape->n_dim > 1 ? shape->dim[0] : 1;
    int32_t score = at(trace, share)->in[0];
    static bool (*const plain[])(const struct vertex_trace *, int32_t,
                                 struct match_attention *) = {match_gat, match_gatv2, match_cosine};
    const struct match_attention begun = *out;
    for (size_t i = 0; i < sizeof plain / sizeof *plain && value_edge < 0; i++) {
        if (plain[i](trace, score, out)) {
            return true;
        }
        *out = begun;
    }
    return match_dot(trace, score, value_edge, out);
}

/* --- relations --- */

int32_t match_relation(const struct vertex_trace *trace, int32_t op, struct match_relation *out)
{
    op = match_below(trace, op);
    if (!is(trace, op, VERTEX_OP_PRODUCT) || !is(trace, at(trace, op)->in[0], VERTEX_OP_MEAN) ||
        !is(trace, at(trace, op)->in[1], VERTEX_OP_SLICE)) {
        return -1;
    }
    const struct vertex_op *mean = at(trace, at(trace, op)->in[0]), *slice = at(trace, at(trace, op)->in[1]);
    int32_t weight = slice->in[0];
    out->comp = -1;
    if (is(trace, weight, VERTEX_OP_PRODUCT)) {
        out->comp = at(trace, weight)->in[0];
        weight = at(trace, weight)->in[1];
    }
    out->weight = weight;
    bool fits = is(trace, weight, VERTEX_OP_PARAMETER) &&
                (out->comp < 0 || is(trace, out->comp, VERTEX_OP_PARAMETER)) &&
                source(trace, mean->in[0], &out->source) && mean->relation >= 0 && slice->number[0] == mean->relation;
    out->source = fits ? match_below(trace, out->source) : -1;
    return fits ? mean->relation : -1;
}
