/* Sums of rows with factors that are known before training, their biases, and sums over all relations. */
#include "models/vertex/walk.h"

#include "protocol/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A sum's terms: c · an operation; weights of one row, which are biases, apart. */
struct term {
    int32_t op;
    double factor;
};

struct terms {
    int n, n_bias;
    struct term *term; /* it and bias have room for all terms */
    int32_t *bias;
};

static bool is_bias(const struct walk *w, int32_t op)
{
    return walk_is(w, op, VERTEX_OP_PARAMETER) && walk_at(w, op)->shape.n_dim == 1;
}

/* Split factors that are known before training off a term. */
static struct term term_of(const struct walk *w, int32_t op, double factor)
{
    for (;;) {
        const struct vertex_op *of = walk_at(w, op);
        bool times = of->kind == VERTEX_OP_MULTIPLY, left = times && walk_is(w, of->in[0], VERTEX_OP_NUMBER);
        if (!left && !((times || of->kind == VERTEX_OP_DIVIDE) && walk_is(w, of->in[1], VERTEX_OP_NUMBER))) {
            return (struct term){op, factor};
        }
        double number = walk_at(w, left ? of->in[0] : of->in[1])->number[0];
        factor = times ? factor * number : factor / number;
        op = left ? of->in[1] : of->in[0];
    }
}

/* Does a sum's operand belong to the same sum? Not where something else reads it, too, or where it is GIN's. */
static bool is_inner(const struct walk *w, int32_t op, bool is_root)
{
    int32_t eps, x;
    enum aggregate_kind kind;
    return (walk_is(w, op, VERTEX_OP_ADD) || walk_is(w, op, VERTEX_OP_SUBTRACT)) && (is_root || w->n_use[op] == 1) &&
           !w->by_tile[op] && !walk_match_gin(w, op, &eps, &x, &kind);
}

static int n_term_of(const struct walk *w, int32_t op, bool is_root)
{
    int n = 1;
    for (; is_inner(w, op, is_root); op = walk_at(w, op)->in[0], is_root = false) {
        n += n_term_of(w, walk_at(w, op)->in[1], false);
    }
    return n;
}

static void term_add(const struct walk *w, int32_t op, double factor, struct terms *out)
{
    struct term term = term_of(w, op, factor);
    for (int t = 0; t < out->n && w->n_use[term.op] > 1; t++) {
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

/* Append the terms of factor · op, from left to right. Sums over relations are as deep as there are relations. */
static void terms_add(const struct walk *w, int32_t op, double factor, bool is_root, struct terms *out)
{
    int n = 0;
    int32_t *sum = NULL;
    for (; is_inner(w, op, is_root) && (factor == 1.0 || !w->relates[op]); op = walk_at(w, op)->in[0]) {
        sum = memory_list_grow(sum, n, sizeof *sum);
        sum[n++] = op;
        is_root = false;
    }
    term_add(w, op, factor, out);
    while (n-- > 0) {
        const struct vertex_op *of = walk_at(w, sum[n]);
        terms_add(w, of->in[1], of->kind == VERTEX_OP_ADD ? factor : -factor, false, out);
    }
    free(sum);
}

/* a · x + b · y. Of factors that add up to one the first is what float32 leaves of it. */
static int add(struct walk *w, double a, int x, double b, int y)
{
    bool whole = fabs(a + b - 1.0) <= 1e-15;
    walk_dense(w, x);
    walk_dense(w, y);
    float second = (float)b, first = whole ? 1.0F - second : (float)a;
    return walk_goes_on(w) ? program_add(w->program, first, x, second, y) : 0;
}

/* Relations' products first: they are one op. */
static void relations_first(const struct walk *w, struct terms *terms)
{
    for (int t = 0, n = 0; t < terms->n; t++) {
        if (walk_is_relation(w, terms->term[t].op)) {
            const struct term term = terms->term[t];
            memmove(terms->term + n + 1, terms->term + n, (size_t)(t - n) * sizeof term);
            terms->term[n++] = term;
        }
    }
}

/* Are a sum's first terms those of one sum over all relations? */
static bool match_relations(const struct walk *w, const struct terms *terms, struct match_relation *out)
{
    int n = w->program->n_relation;
    for (int r = 0; r < n; r++) { /* whose weight, or combination, has a row for each relation */
        struct match_relation one = {0};
        bool is_shared = r < terms->n && terms->n > 1 &&
                         w->n_use[terms->term[r].op] > 1; /* it is a value of its own */
        if (r >= terms->n || is_shared || terms->term[r].factor != 1.0 ||
            match_relation(w->trace, terms->term[r].op, &one) != r ||
            (r > 0 && (one.source != out->source || one.weight != out->weight || one.comp != out->comp))) {
            return false;
        }
        *out = one;
    }
    return n > 0 && walk_at(w, out->comp >= 0 ? out->comp : out->weight)->shape.dim[0] == n;
}

/* A bias that waits for a row to be added to. There is one at most: the one before is added first. */
static int bias_wait(struct walk *w, int value, int waits, int *bias)
{
    if (*bias >= 0 && w->status == STATUS_OK) {
        value = program_bias(w->program, walk_dense(w, value), *bias);
    }
    *bias = waits;
    return value;
}

/* Σ_r mean_r(x_j) W_r; of one-hot x the rows of W_r that are node j's own. */
static int emit_relations(struct walk *w, const struct match_relation *relation)
{
    int x = walk_value(w, relation->source), weight = walk_weight(w, relation->weight),
        comp = walk_weight(w, relation->comp);
    const struct vertex_shape *shape = &walk_at(w, relation->weight)->shape;
    bool by_node = walk_is_one_hot(w, relation->source) && shape->n_dim == 3;
    if (!by_node) {
        walk_dense(w, x);
    }
    if (w->status != STATUS_OK) {
        return 0;
    }
    return by_node
               ? program_relation_rows(w->program, program_node_rows(w->program, x, weight, -1), shape->dim[2], comp)
               : program_relation(w->program, x, weight, comp);
}

static struct open_value emit_terms(struct walk *w, const struct terms *terms)
{
    struct match_relation relation = {0};
    int value = -1, t = 0, b = 0, waits = -1;
    double factor = 1.0;
    if (match_relations(w, terms, &relation)) {
        value = emit_relations(w, &relation);
        t = w->program->n_relation;
    }
    for (; t < terms->n && w->status == STATUS_OK; t++) {
        int bias = -1;
        if (walk_takes_bias(w, terms->term[t].op) && terms->term[t].factor == 1.0) {
            bias = waits >= 0 ? waits : b < terms->n_bias ? walk_weight(w, terms->bias[b++]) : -1;
            waits = -1;
        }
        bool is_shared = w->n_use[terms->term[t].op] > 1;
        struct open_value term = is_shared ? (struct open_value){walk_value(w, terms->term[t].op), -1}
                                           : walk_open(w, terms->term[t].op, bias);
        if (term.bias >= 0) {
            term.value = bias_wait(w, term.value, term.bias, &waits);
        }
        value = value >= 0 ? add(w, factor, value, terms->term[t].factor, term.value) : term.value;
        factor = value == term.value ? terms->term[t].factor : 1.0;
    }
    for (; b < terms->n_bias && w->status == STATUS_OK; b++) {
        value = bias_wait(w, value, walk_weight(w, terms->bias[b]), &waits);
    }
    return (struct open_value){value, waits};
}

struct open_value walk_add(struct walk *w, int32_t op)
{
    int32_t eps, x;
    enum aggregate_kind kind;
    if (walk_match_gin(w, op, &eps, &x, &kind)) {
        int row = walk_value(w, x);
        return (struct open_value){
            walk_eps_add(w, walk_weight(w, eps), row, walk_aggregate(w, walk_dense(w, row), kind)), -1};
    }
    size_t n = (size_t)n_term_of(w, op, true);
    struct terms terms = {.term = memory_alloc(n, sizeof *terms.term), .bias = memory_alloc(n, sizeof *terms.bias)};
    terms_add(w, op, 1.0, true, &terms);
    relations_first(w, &terms);
    bool by_tile = terms.n == 0 || (terms.n == 1 && terms.term[0].factor != 1.0);
    for (int k = 0; k < terms.n; k++) { /* multiples of weights */
        by_tile = by_tile || walk_at(w, terms.term[k].op)->place == VERTEX_PLACE_WEIGHT;
    }
    struct open_value out = by_tile ? (struct open_value){walk_rows(w, op), -1} : emit_terms(w, &terms);
    free(terms.term);
    free(terms.bias);
    return out;
}

bool walk_is_multiple(const struct walk *w, int32_t op)
{
    return term_of(w, op, 1.0).op != op;
}
