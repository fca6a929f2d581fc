/* The walk from the returned operation to its inputs. See emit.h. */
#include "models/vertex/emit.h"

#include "models/program/op.h"
#include "models/vertex/match.h"
#include "protocol/base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct walk {
    struct vertex_emission *to;
    const struct vertex_trace *trace;
    struct program *program;
    enum status status; /* of the first mistake; nothing is appended after it */
    int32_t *n_use;     /* by operation, of those that the result reads */
    int *value;         /* by operation; -1: not appended yet */
    int *param;         /* by weight */
};

/* A value, and a bias that is still to be added to it; -1: nothing is. */
struct open_value {
    int value, bias;
};

static struct open_value emit_open(struct walk *w, int32_t op, int bias);
static int emit(struct walk *w, int32_t op);

static const struct vertex_op *at(const struct walk *w, int32_t op)
{
    return &w->trace->op[op];
}

static bool is(const struct walk *w, int32_t op, enum vertex_op_kind kind)
{
    return op >= 0 && at(w, op)->kind == kind;
}

/* Is there no mistake so far? */
static bool goes_on(const struct walk *w)
{
    return w->status == STATUS_OK;
}

static int refuse(struct walk *w, int32_t op, const char *why)
{
    if (w->status == STATUS_OK) {
        w->status = vertex_fail(w->to->source, at(w, op)->at, "%s", why);
    }
    return 0;
}

/* Stop where an op would read sparse rows that only takes dense ones. */
static int dense(struct walk *w, int value)
{
    if (w->status == STATUS_OK && w->program->value[value].is_sparse) {
        w->to->needs_dense = true;
        w->status = status_fail(STATUS_CONFIG, "the features are sparse");
    }
    return value;
}

static int weight_of(const struct walk *w, int32_t op)
{
    return op >= 0 ? w->param[at(w, op)->weight] : -1;
}

/* --- linear maps and aggregates --- */

static int linear(struct walk *w, int x, int weight, int bias)
{
    return goes_on(w) ? program_linear(w->program, x, weight, bias) : 0;
}

/* A reduction of edges that have weights is a sum or mean of their products: ops multiply by them wherever there are
 * weights. And all aggregates with scales share one set of them. */
static void check_reduction(struct walk *w, int32_t op)
{
    struct match_sum sum;
    bool weighs = match_sum(w->trace, op, &sum) && sum.factor != MATCH_FACTOR_NONE;
    if (w->to->is_weighted && !weighs) {
        refuse(w, op,
               "the edges have weights, and this reduction has no e.weight or e.norm: expected all to have one, or "
               "dataset.edge_weights = \"no\"");
    }
    struct match_attention attention;
    bool reads = match_attention(w->trace, op, &attention) && attention.edge >= 0;
    if (w->program->n_edge_feature > 0 && !reads) {
        refuse(
            w, op,
            "the edges have features, and this reduction reads none: expected all to be attention with e.feature, or "
            "dataset.edge_features = \"no\"");
    }
}

static bool is_same_shape(const struct vertex_shape *a, const struct vertex_shape *b)
{
    return a->n_dim == b->n_dim && memcmp(a->dim, b->dim, (size_t)a->n_dim * sizeof *a->dim) == 0;
}

/* Ops take rows that are equally wide, and biases: nothing is repeated over heads or columns. */
static void check_shapes(struct walk *w, int32_t op)
{
    const struct vertex_op *of = at(w, op);
    bool plain = of->kind == VERTEX_OP_CONCAT || of->kind == VERTEX_OP_NORMALIZE || of->kind == VERTEX_OP_LAYER_NORM;
    bool joins = of->kind == VERTEX_OP_ADD || of->kind == VERTEX_OP_SUBTRACT || of->kind == VERTEX_OP_MAXIMUM;
    bool fits = !plain || of->shape.n_dim == 1;
    for (int k = 0; k < 2 && joins && of->place == VERTEX_PLACE_NODE; k++) {
        fits = fits && is_same_shape(&at(w, of->in[k])->shape, &of->shape);
    }
    if (of->kind == VERTEX_OP_DOT && of->place == VERTEX_PLACE_NODE) {
        int64_t n[2] = {1, 1};
        for (int k = 0; k < 2; k++) {
            for (int d = 0; d < at(w, of->in[k])->shape.n_dim; d++) {
                n[k] *= at(w, of->in[k])->shape.dim[d];
            }
        }
        fits = n[0] == n[1];
    }
    if (!fits) {
        refuse(w, op,
               "no op of trainerd repeats rows over heads or columns yet, or joins those of heads: expected equal "
               "columns without heads");
    }
}

static int aggregate(struct walk *w, int x, enum aggregate_kind kind)
{
    const struct aggregate_def *def = aggregate_defs[kind];
    for (int i = 0; i < w->program->n_op && def->scale != NULL; i++) {
        const struct op *op = &w->program->op[i];
        if (op->kind == OP_KIND_AGGREGATE && aggregate_defs[op->aggregate]->scale != NULL && op->aggregate != kind &&
            w->status == STATUS_OK) {
            w->status = status_fail(
                STATUS_CONFIG,
                "%s: sums of e.norm and means stand in one program, whose aggregates share one set of "
                "scales: expected one of both",
                w->to->source->origin);
        }
    }

    return goes_on(w) ? program_aggregate(w->program, x, kind) : 0;
}

static bool multiplies_first(struct walk *w, int x, int64_t f_out)
{
    return w->status == STATUS_OK && w->to->transform_first(w->program, x, f_out);
}

/* A linear aggregate. Of one-hot rows a maximum is one, too: each column has one row with an entry, so that maximum
 * and sum are equal. */
static bool is_sum(const struct walk *w, int32_t op, struct match_sum *out)
{
    const struct vertex_op *of = at(w, op);
    bool of_input = of->kind == VERTEX_OP_MAX && of->relation < 0 && is(w, of->in[0], VERTEX_OP_SOURCE) &&
                    is(w, at(w, of->in[0])->in[0], VERTEX_OP_INPUT);
    if (of_input && w->to->is_one_hot && w->program->value[w->to->x].is_sparse) {
        *out = (struct match_sum){at(w, of->in[0])->in[0], MATCH_FACTOR_NONE, AGGREGATE_KIND_SUM};
        return true;
    }
    return match_sum(w->trace, op, out);
}

/* A linear aggregate that nothing else reads, which may swap with a linear map. */
static bool match_single_sum(const struct walk *w, int32_t op, struct match_sum *out)
{
    return w->n_use[op] == 1 && is_sum(w, op, out);
}

/* The sums below an operation, the outermost first, each over the rows of the next. */
struct sums {
    int n;
    enum aggregate_kind *kind;
    int32_t below; /* the operation that the innermost reads */
};

/* owns  the caller frees out->kind */
static void sums_below(const struct walk *w, int32_t op, struct sums *out)
{
    struct match_sum sum;
    *out = (struct sums){.below = op};
    for (int32_t s = op; match_single_sum(w, s, &sum); s = sum.source) {
        out->n++;
    }
    out->kind = memory_alloc((size_t)out->n + 1, sizeof *out->kind);
    for (int k = 0; k < out->n; k++) {
        is_sum(w, out->below, &sum);
        out->kind[k] = sum.kind;
        out->below = sum.source;
    }
}

static int aggregate_all(struct walk *w, int x, const struct sums *sums)
{
    for (int k = sums->n - 1; k >= 0; k--) {
        x = aggregate(w, dense(w, x), sums->kind[k]);
    }
    return x;
}

/* (1 + eps) · x + Σ x_j: GIN's sum */
static bool match_gin(const struct walk *w, int32_t op, int32_t *eps_out, int32_t *x_out,
                      enum aggregate_kind *kind_out)
{
    struct match_sum sum;
    if (!is(w, op, VERTEX_OP_ADD)) {
        return false;
    }
    int32_t a = at(w, op)->in[0], b = at(w, op)->in[1];
    int32_t product = is(w, a, VERTEX_OP_MULTIPLY) ? a : b, other = product == a ? b : a;
    if (!is(w, product, VERTEX_OP_MULTIPLY) || !is_sum(w, other, &sum)) {
        return false;
    }
    int32_t factor = at(w, product)->in[0], x = at(w, product)->in[1];
    if (!is(w, factor, VERTEX_OP_ADD)) {
        int32_t first = factor;
        factor = x;
        x = first;
    }
    if (!is(w, factor, VERTEX_OP_ADD) || x != sum.source) {
        return false;
    }
    int32_t one = at(w, factor)->in[0], eps = at(w, factor)->in[1];
    if (!is(w, one, VERTEX_OP_NUMBER)) {
        int32_t first = one;
        one = eps;
        eps = first;
    }
    *eps_out = eps;
    *x_out = x;
    *kind_out = sum.kind;
    return is(w, one, VERTEX_OP_NUMBER) && at(w, one)->number[0] == 1.0 && is(w, eps, VERTEX_OP_PARAMETER) &&
           at(w, eps)->shape.n_dim == 1 && at(w, eps)->shape.dim[0] == 1;
}

static int eps_add(struct walk *w, int eps, int x, int sum)
{
    return goes_on(w) ? program_eps_add(w->program, eps, dense(w, x), sum) : 0;
}

/* A linear map, by weight or column by column, of the rows that sums make of `x`: before or after them. */
static struct open_value emit_map(struct walk *w, int x, const struct sums *sums, const struct vertex_op *map,
                                  int bias)
{
    bool by_column = map->kind == VERTEX_OP_PRODUCT;
    int weight = weight_of(w, map->in[1]);
    bool first = sums->n > 0 && !by_column && multiplies_first(w, x, map->shape.dim[map->shape.n_dim - 1]);
    if (first) {
        return (struct open_value){aggregate_all(w, linear(w, x, weight, -1), sums), bias};
    }
    x = aggregate_all(w, x, sums);
    if (by_column) {
        dense(w, x);
        return (struct open_value){goes_on(w) ? program_linear_by_column(w->program, x, weight, bias) : 0, -1};
    }
    return (struct open_value){linear(w, x, weight, bias), -1};
}

/* linear(x, W[, b]) and x @ W, with the sums that x is made by, or GIN's sum. */
static struct open_value emit_linear(struct walk *w, int32_t op, int bias)
{
    const struct vertex_op *of = at(w, op);
    int with = of->in[2] >= 0 ? weight_of(w, of->in[2]) : bias;
    int32_t eps = -1, x = -1;
    enum aggregate_kind kind = AGGREGATE_KIND_SUM;
    if (of->kind == VERTEX_OP_LINEAR && match_gin(w, of->in[0], &eps, &x, &kind) && w->n_use[of->in[0]] == 1) {
        int row = emit(w, x), weight = weight_of(w, of->in[1]), e = weight_of(w, eps);
        if (multiplies_first(w, row, of->shape.dim[0])) {
            int z = linear(w, row, weight, -1);
            return (struct open_value){eps_add(w, e, z, aggregate(w, z, kind)), with};
        }
        int sum = aggregate(w, dense(w, row), kind);
        return (struct open_value){linear(w, eps_add(w, e, row, sum), weight, with), -1};
    }
    struct sums sums;
    sums_below(w, of->in[0], &sums);
    struct open_value out = emit_map(w, emit(w, sums.below), &sums, of, with);
    free(sums.kind);
    return out;
}

/* The linear map without bias that an operation's sums read, which they may swap with; -1: there is no such. */
static int32_t map_below(const struct walk *w, int32_t op)
{
    struct match_sum sum;
    for (bool first = true; first ? is_sum(w, op, &sum) : match_single_sum(w, op, &sum); first = false) {
        op = sum.source;
    }
    bool maps = is(w, op, VERTEX_OP_LINEAR) && at(w, op)->in[2] < 0 && w->n_use[op] == 1;
    return maps ? op : -1;
}

static struct open_value emit_sum(struct walk *w, int32_t op, int bias)
{
    struct match_sum outer;
    struct sums sums, deeper;
    int32_t map = map_below(w, op);
    is_sum(w, op, &outer);
    if (map < 0) {
        int x = emit(w, outer.source);
        return (struct open_value){aggregate(w, dense(w, x), outer.kind), bias};
    }
    const int n_use = w->n_use[op];
    w->n_use[op] = 1; /* its own uses do not keep it from swapping */
    sums_below(w, op, &sums);
    w->n_use[op] = n_use;
    sums_below(w, at(w, map)->in[0], &deeper);
    if (deeper.n > 0) { /* sums on both sides stay where they are */
        free(deeper.kind);
        int x = aggregate_all(w, emit(w, map), &sums);
        free(sums.kind);
        return (struct open_value){x, bias};
    }
    free(deeper.kind);
    struct open_value out = emit_map(w, emit(w, at(w, map)->in[0]), &sums, at(w, map), bias);
    free(sums.kind);
    return out;
}

/* Can a bias be part of what an operation becomes? */
static bool takes_bias(const struct walk *w, int32_t op)
{
    struct match_sum sum;
    return ((is(w, op, VERTEX_OP_LINEAR) && at(w, op)->in[2] < 0) || is(w, op, VERTEX_OP_PRODUCT) ||
            (is_sum(w, op, &sum) && map_below(w, op) >= 0)) &&
           w->n_use[op] == 1;
}

/* --- attention, maxima, relations --- */

static int emit_attention(struct walk *w, const struct match_attention *m)
{
    struct op op = {
        .aggregate = m->kind, .param = {-1, -1}, .n_head = m->n_head, .dropout = m->dropout, .in = {-1, -1, -1}};
    op.a = (float)(m->kind == AGGREGATE_KIND_DOT ? m->scale : m->slope);
    if (m->kind == AGGREGATE_KIND_COSINE) {
        op.in[0] = dense(w, emit(w, m->value));
        if (w->status != STATUS_OK) {
            return 0;
        }
        int inverse = program_inverse_norm(w->program, op.in[0]);
        op.in[1] = program_head_dot(w->program, inverse, weight_of(w, m->beta));
        op.in[2] = program_row_scale(w->program, op.in[0], inverse);
        return program_attention(w->program, &op);
    }
    const int32_t key_first[] = {m->key, m->query, m->value}, value_first[] = {m->value, m->key, m->query};
    const int places[2][3] = {{0, 1, 2}, {1, 2, 0}};
    const bool dot = m->kind == AGGREGATE_KIND_DOT;
    for (int k = 0; k < 3; k++) { /* in the order of the kinds' own lists */
        int32_t of = dot ? key_first[k] : value_first[k];
        op.in[places[dot][k]] = of >= 0 ? dense(w, emit(w, of)) : -1;
    }
    op.param[0] = weight_of(w, m->kind == AGGREGATE_KIND_GATV2 ? m->att
                               : m->kind == AGGREGATE_KIND_DOT ? -1
                                                               : m->edge);
    op.param[1] = weight_of(w, m->kind == AGGREGATE_KIND_GATV2 ? m->edge : m->att_edge);
    if (w->status != STATUS_OK) {
        return 0;
    }
    if (!dot || m->edge < 0) {
        return program_attention(w->program, &op);
    }
    int edge = weight_of(w, m->edge);
    op.in[2] = program_head_widen(w->program, op.in[2], edge, m->n_head);
    return program_head_narrow(w->program, program_attention(w->program, &op), edge, m->n_head);
}

static int emit_reduction(struct walk *w, int32_t op)
{
    struct match_attention attention;
    const struct vertex_op *of = at(w, op);
    if (match_attention(w->trace, op, &attention)) {
        return emit_attention(w, &attention);
    }
    if (of->kind == VERTEX_OP_MAX && of->relation < 0 && is(w, of->in[0], VERTEX_OP_SOURCE)) {
        int x = emit(w, at(w, of->in[0])->in[0]);
        return aggregate(w, dense(w, x), AGGREGATE_KIND_MAX);
    }
    return refuse(w, op,
                  "no op of trainerd reduces edges like this yet; there are sums and means of e.src.NAME, of "
                  "e.weight and e.norm times it, its maximum, and the attentions of GAT, GATv2, the transformer and "
                  "AGNN");
}

/* --- sums of rows --- */

/* A sum's terms: c · an operation; weights of one row, which are biases, apart. */
struct term {
    int32_t op;
    double factor;
};

struct terms {
    int n, n_bias;
    struct term *term; /* room for all */
    int32_t *bias;     /* likewise */
};

static bool is_bias(const struct walk *w, int32_t op)
{
    return is(w, op, VERTEX_OP_PARAMETER) && at(w, op)->shape.n_dim == 1;
}

/* Split factors that are known before training off a term. */
static struct term term_of(const struct walk *w, int32_t op, double factor)
{
    for (;;) {
        const struct vertex_op *of = at(w, op);
        bool times = of->kind == VERTEX_OP_MULTIPLY, left = times && is(w, of->in[0], VERTEX_OP_NUMBER);
        if (!left && !((times || of->kind == VERTEX_OP_DIVIDE) && is(w, of->in[1], VERTEX_OP_NUMBER))) {
            return (struct term){op, factor};
        }
        double number = at(w, left ? of->in[0] : of->in[1])->number[0];
        factor = times ? factor * number : factor / number;
        op = left ? of->in[1] : of->in[0];
    }
}

/* Does a sum's operand belong to the same sum? Not where something else reads it, too, or where it is GIN's. */
static bool is_inner(const struct walk *w, int32_t op, bool is_root)
{
    int32_t eps, x;
    enum aggregate_kind kind;
    return (is(w, op, VERTEX_OP_ADD) || is(w, op, VERTEX_OP_SUBTRACT)) && (is_root || w->n_use[op] == 1) &&
           !match_gin(w, op, &eps, &x, &kind);
}

static int n_term_of(const struct walk *w, int32_t op, bool is_root)
{
    return is_inner(w, op, is_root) ? n_term_of(w, at(w, op)->in[0], false) + n_term_of(w, at(w, op)->in[1], false)
                                    : 1;
}

/* Append the terms of factor · op, from left to right. */
static void terms_add(const struct walk *w, int32_t op, double factor, bool is_root, struct terms *out)
{
    const struct vertex_op *of = at(w, op);
    if (is_inner(w, op, is_root)) {
        terms_add(w, of->in[0], factor, false, out);
        terms_add(w, of->in[1], of->kind == VERTEX_OP_ADD ? factor : -factor, false, out);
        return;
    }
    struct term term = term_of(w, op, factor);
    for (int t = 0; t < out->n; t++) {
        if (out->term[t].op == term.op) { /* x + x */
            out->term[t].factor += term.factor;
            return;
        }
    }
    if (is_bias(w, term.op) && term.factor == 1.0) {
        out->bias[out->n_bias++] = term.op;
    } else {
        out->term[out->n++] = term;
    }
}

/* a · x + b · y. Of factors that add up to one the first is what float32 leaves of it. */
static int add(struct walk *w, double a, int x, double b, int y)
{
    bool whole = fabs(a + b - 1.0) <= 1e-15;
    dense(w, x);
    dense(w, y);
    float second = (float)b, first = whole ? 1.0F - second : (float)a;
    return goes_on(w) ? program_add(w->program, first, x, second, y) : 0;
}

/* Are a sum's first terms those of one sum over all relations? */
static bool match_relations(const struct walk *w, const struct terms *terms, struct match_relation *out)
{
    int n = w->program->n_relation;
    for (int r = 0; r < n; r++) { /* whose weight, or combination, has a row for each relation */
        struct match_relation one = {0};
        if (r >= terms->n || terms->term[r].factor != 1.0 || match_relation(w->trace, terms->term[r].op, &one) != r ||
            (r > 0 && (one.source != out->source || one.weight != out->weight || one.comp != out->comp))) {
            return false;
        }
        *out = one;
    }
    return n > 0 && at(w, out->comp >= 0 ? out->comp : out->weight)->shape.dim[0] == n;
}

/* A bias that waits for a row to be added to. There is one at most: the one before is added first. */
static int bias_wait(struct walk *w, int value, int waits, int *bias)
{
    if (*bias >= 0 && w->status == STATUS_OK) {
        value = program_bias(w->program, dense(w, value), *bias);
    }
    *bias = waits;
    return value;
}

static struct open_value emit_terms(struct walk *w, int32_t op, const struct terms *terms)
{
    struct match_relation relation = {0};
    int value = -1, t = 0, b = 0, waits = -1;
    double factor = 1.0;
    if (match_relations(w, terms, &relation)) {
        int x = dense(w, emit(w, relation.source));
        value = w->status == STATUS_OK
                    ? program_relation(w->program, x, weight_of(w, relation.weight), weight_of(w, relation.comp))
                    : 0;
        t = w->program->n_relation;
    }
    for (; t < terms->n && w->status == STATUS_OK; t++) {
        int bias = -1;
        if (takes_bias(w, terms->term[t].op) && terms->term[t].factor == 1.0) {
            bias = waits >= 0 ? waits : b < terms->n_bias ? weight_of(w, terms->bias[b++]) : -1;
            waits = -1;
        }
        bool is_shared = w->n_use[terms->term[t].op] > 1;
        struct open_value term = is_shared ? (struct open_value){emit(w, terms->term[t].op), -1}
                                           : emit_open(w, terms->term[t].op, bias);
        if (term.bias >= 0) {
            term.value = bias_wait(w, term.value, term.bias, &waits);
        }
        value = value >= 0 ? add(w, factor, value, terms->term[t].factor, term.value) : term.value;
        factor = value == term.value ? terms->term[t].factor : 1.0;
    }
    if (w->status == STATUS_OK && (value < 0 || factor != 1.0)) {
        refuse(w, op, "no op of trainerd multiplies rows by a number alone yet; expected a sum of two");
    }
    for (; b < terms->n_bias && w->status == STATUS_OK; b++) {
        value = bias_wait(w, value, weight_of(w, terms->bias[b]), &waits);
    }
    return (struct open_value){value, waits};
}

static struct open_value emit_add(struct walk *w, int32_t op)
{
    int32_t eps, x;
    enum aggregate_kind kind;
    if (match_gin(w, op, &eps, &x, &kind)) {
        int row = emit(w, x);
        return (struct open_value){eps_add(w, weight_of(w, eps), row, aggregate(w, dense(w, row), kind)), -1};
    }
    size_t n = (size_t)n_term_of(w, op, true);
    struct terms terms = {.term = memory_alloc(n, sizeof *terms.term), .bias = memory_alloc(n, sizeof *terms.bias)};
    terms_add(w, op, 1.0, true, &terms);
    struct open_value out = emit_terms(w, op, &terms);
    free(terms.term);
    free(terms.bias);
    return out;
}

/* --- one operation --- */

/* An activation, and a dropout behind it. */
static int emit_activation(struct walk *w, int32_t op)
{
    static const struct {
        enum vertex_op_kind kind;
        enum device_activation activation;
    } rows[] = {{VERTEX_OP_RELU, DEVICE_ACTIVATION_RELU},
                {VERTEX_OP_ELU, DEVICE_ACTIVATION_ELU},
                {VERTEX_OP_GELU, DEVICE_ACTIVATION_GELU},
                {VERTEX_OP_LEAKY_RELU, DEVICE_ACTIVATION_LEAKY_RELU}};
    double dropout = is(w, op, VERTEX_OP_DROPOUT) ? at(w, op)->number[0] : 0.0;
    int32_t inner = dropout > 0.0 ? at(w, op)->in[0] : op;
    enum device_activation activation = DEVICE_ACTIVATION_NONE;
    bool joins = inner == op || w->n_use[inner] == 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && joins; i++) {
        bool slope = rows[i].kind != VERTEX_OP_LEAKY_RELU || at(w, inner)->number[0] == 0.01;
        if (at(w, inner)->kind == rows[i].kind && slope) {
            activation = rows[i].activation;
        }
    }
    if (activation == DEVICE_ACTIVATION_NONE && inner == op) {
        return refuse(w, op,
                      "no op of trainerd computes this of rows yet; there are relu, elu, gelu, and leaky_relu with "
                      "slope 0.01");
    }
    int x = emit(w, activation != DEVICE_ACTIVATION_NONE ? at(w, inner)->in[0] : inner);
    x = activation != DEVICE_ACTIVATION_NONE ? dense(w, x) : x;
    return goes_on(w) ? program_activate(w->program, x, activation, dropout) : 0;
}

/* ⟨x, w⟩ of each head */
static int emit_dot(struct walk *w, int32_t op)
{
    int32_t a = at(w, op)->in[0], b = at(w, op)->in[1], row = is(w, a, VERTEX_OP_PARAMETER) ? b : a;
    int32_t weight = row == a ? b : a;
    if (!is(w, weight, VERTEX_OP_PARAMETER)) {
        return refuse(w, op, "no op of trainerd computes this dot of nodes yet; there is that of rows and a weight");
    }
    int x = dense(w, emit(w, row));
    return goes_on(w) ? program_head_dot(w->program, x, weight_of(w, weight)) : 0;
}

static struct open_value emit_other(struct walk *w, int32_t op)
{
    const struct vertex_op *of = at(w, op);
    int x = 0;
    switch (of->kind) {
    case VERTEX_OP_MEAN_HEADS:
        x = dense(w, emit(w, of->in[0]));
        return (struct open_value){w->status != STATUS_OK || at(w, of->in[0])->shape.dim[0] == 1
                                       ? x
                                       : program_head_mean(w->program, x, at(w, of->in[0])->shape.dim[0]),
                                   -1};
    case VERTEX_OP_CONCAT: {
        const int in[] = {dense(w, emit(w, of->in[0])), dense(w, emit(w, of->in[1]))};
        return (struct open_value){goes_on(w) ? program_concat(w->program, in, 2) : 0, -1};
    }
    case VERTEX_OP_MAXIMUM: {
        int left = dense(w, emit(w, of->in[0])), right = dense(w, emit(w, of->in[1]));
        return (struct open_value){goes_on(w) ? program_max(w->program, left, right) : 0, -1};
    }
    case VERTEX_OP_NORMALIZE:
        x = dense(w, emit(w, of->in[0]));
        return (struct open_value){
            goes_on(w) ? program_row_scale(w->program, x, program_inverse_norm(w->program, x)) : 0, -1};
    case VERTEX_OP_LAYER_NORM:
        x = dense(w, emit(w, of->in[0]));
        return (struct open_value){
            goes_on(w) ? program_layer_norm(w->program, x, weight_of(w, of->in[1]), weight_of(w, of->in[2])) : 0, -1};
    case VERTEX_OP_DOT:
        return (struct open_value){emit_dot(w, op), -1};
    default:
        return (struct open_value){emit_activation(w, op), -1};
    }
}

static struct open_value emit_open(struct walk *w, int32_t op, int bias)
{
    const struct vertex_op *of = at(w, op);
    struct match_sum sum;
    if (w->status != STATUS_OK) {
        return (struct open_value){0, -1};
    }
    switch (of->kind) {
    case VERTEX_OP_INPUT:
        return (struct open_value){w->to->x, -1};
    case VERTEX_OP_HEADS:
    case VERTEX_OP_FLAT:
        return (struct open_value){emit(w, of->in[0]), -1};
    case VERTEX_OP_LINEAR:
        return emit_linear(w, op, bias);
    case VERTEX_OP_PRODUCT:
        if (is(w, of->in[1], VERTEX_OP_PARAMETER) && at(w, of->in[1])->shape.n_dim == 2 && of->shape.n_dim == 1) {
            return emit_linear(w, op, bias);
        }
        return (struct open_value){refuse(w, op, "no op of trainerd computes this product yet"), -1};
    case VERTEX_OP_ADD:
    case VERTEX_OP_SUBTRACT:
        return emit_add(w, op);
    case VERTEX_OP_MULTIPLY:
    case VERTEX_OP_DIVIDE:
        if (term_of(w, op, 1.0).op == op) {
            return (struct open_value){
                refuse(w, op,
                       "no op of trainerd multiplies rows by rows yet; there are factors that are known before "
                       "training"),
                -1};
        }
        return emit_add(w, op);
    default:
        break;
    }
    if (of->kind < VERTEX_OP_SUM) {
        return emit_other(w, op);
    }
    return is_sum(w, op, &sum) ? emit_sum(w, op, bias) : (struct open_value){emit_reduction(w, op), -1};
}

/* The value of an operation of nodes, appended once. */
static int emit(struct walk *w, int32_t op)
{
    if (w->status != STATUS_OK || w->value[op] >= 0) {
        return goes_on(w) ? w->value[op] : 0;
    }
    struct open_value open = emit_open(w, op, -1);
    if (open.bias >= 0 && w->status == STATUS_OK) {
        open.value = program_bias(w->program, dense(w, open.value), open.bias);
    }
    w->value[op] = open.value;
    return open.value;
}

/* --- the layer --- */

/* How often each operation is read by those that the result needs. */
static void count_uses(struct walk *w)
{
    w->n_use[w->trace->out] = 1;
    for (int32_t i = w->trace->out; i >= 0; i--) {
        for (int k = 0; k < VERTEX_N_IN && w->n_use[i] > 0; k++) {
            if (at(w, i)->in[k] >= 0) {
                w->n_use[at(w, i)->in[k]]++;
            }
        }
    }
}

static void append_weights(struct walk *w)
{
    for (int32_t i = 0; i < w->trace->n_weight; i++) {
        const struct vertex_weight *weight = &w->trace->weight[i];
        char name[PROGRAM_NAME_BYTES];
        double bound = weight->init == VERTEX_INIT_GLOROT    ? sqrt(6.0 / (double)(weight->fan_in + weight->fan_out))
                       : weight->init == VERTEX_INIT_KAIMING ? 1.0 / sqrt((double)weight->fan_in)
                       : weight->init == VERTEX_INIT_UNIFORM ? weight->number
                                                             : 0.0;
        snprintf(name, sizeof name, "%s%s", w->to->prefix, weight->name);
        int param = program_tensor(w->program, name, weight->shape.n_dim, weight->shape.dim, bound);
        w->program->param[param].trains = weight->trains;
        w->program->param[param].fill = weight->init == VERTEX_INIT_CONSTANT ? (float)weight->number : 0.0F;
        w->param[i] = param;
    }
}

enum status vertex_emit(struct vertex_emission *emission, int *out)
{
    size_t n_op = (size_t)emission->trace->n_op, n_weight = (size_t)emission->trace->n_weight + 1;
    struct walk w = {.to = emission,
                     .trace = emission->trace,
                     .program = emission->program,
                     .n_use = memory_alloc(n_op, sizeof *w.n_use),
                     .value = memory_alloc(n_op, sizeof *w.value),
                     .param = memory_alloc(n_weight, sizeof *w.param)};
    for (size_t i = 0; i < n_op; i++) {
        w.value[i] = -1;
    }
    emission->needs_dense = false;
    count_uses(&w);
    for (int32_t i = 0; i < emission->trace->n_op; i++) {
        if (w.n_use[i] > 0 && emission->trace->op[i].kind >= VERTEX_OP_SUM) {
            check_reduction(&w, i);
        } else if (w.n_use[i] > 0) {
            check_shapes(&w, i);
        }
    }
    append_weights(&w);
    *out = emit(&w, emission->trace->out);
    free(w.n_use);
    free(w.value);
    free(w.param);
    return w.status;
}
