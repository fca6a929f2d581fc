/* Reductions of edges that no op of trainerd computes become tile programs: aggregates of the kinds EDGES. */
#include "models/program/op.h"
#include "models/vertex/generate.h"

#include "protocol/base/memory.h"

#include <stdlib.h>

/* --- softmax-weighted sums --- */

/* Is each number of `from` repeated for as many of `to`, side by side? */
static bool is_repeated(const struct vertex_shape *from, const struct vertex_shape *to)
{
    int64_t head[2], column[2];
    generation_shape(from, &head[0], &column[0]);
    generation_shape(to, &head[1], &column[1]);
    return (head[0] == head[1] && (column[0] == 1 || column[0] == column[1])) || (head[0] == 1 && column[0] == 1);
}

/* Is the operation a multiple of its operand k, number by number? */
static bool is_multiple_of(const struct walk *w, int32_t op, int k)
{
    const struct vertex_op *of = walk_at(w, op);
    switch (of->kind) {
    case VERTEX_OP_DROPOUT:
    case VERTEX_OP_FLAT:
    case VERTEX_OP_HEADS:
        return k == 0;
    case VERTEX_OP_DIVIDE:
    case VERTEX_OP_MULTIPLY:
        return (k == 0 || of->kind == VERTEX_OP_MULTIPLY) && is_repeated(&walk_at(w, of->in[k])->shape, &of->shape);
    default:
        return false;
    }
}

/* The softmax in `op` = softmax(s) · m, where m has no part of it, and nothing reads e.norm; -1: not found. */
static int32_t softmax_of(const struct walk *w, int32_t op)
{
    enum { ONCE = 1, OFTEN };
    char *n_path = memory_alloc((size_t)op + 1, sizeof *n_path);
    bool *multiple = memory_alloc((size_t)op + 1, sizeof *multiple), norm = false;
    int32_t out = -1;
    n_path[op] = ONCE;
    multiple[op] = true;
    for (int32_t i = op; i >= 0; i--) {
        const struct vertex_op *of = walk_at(w, i);
        if (n_path[i] == 0 || of->place != VERTEX_PLACE_EDGE) {
            continue;
        }
        norm = norm || of->kind == VERTEX_OP_EDGE_NORM;
        out = out < 0 && of->kind == VERTEX_OP_SOFTMAX && n_path[i] == ONCE && multiple[i] ? i : out;
        for (int k = 0; k < VERTEX_N_IN; k++) {
            const int32_t in = of->in[k];
            if (in >= 0) {
                multiple[in] = n_path[in] == 0 && multiple[i] && is_multiple_of(w, i, k);
                n_path[in] = n_path[in] == 0 ? n_path[i] : OFTEN;
            }
        }
    }
    free(n_path);
    free(multiple);
    return norm ? -1 : out;
}

/* 1 for each of heads × columns. */
static struct code_value ones(int64_t n_head, int64_t n_column)
{
    struct code_value out = code_number(1.0);
    out.n_head = n_head;
    out.n_column = n_column;
    return out;
}

static struct code_value product_by_score(struct code *code, struct code_value a, struct code_value b)
{
    return a.n_column > 1 ? code_dot(code, a, b) : code_binary(code, TILE_OP_MULTIPLY, a, b);
}

/* --- reductions --- */

/* What is reduced, and how. */
struct reduction {
    enum vertex_op_kind kind;
    enum aggregate_kind aggregate;
    int64_t width;
    int64_t saved;
    struct code_value value;
    struct code_value scores; /* of a softmax-weighted sum */
};

static bool weighs(const struct reduction *r)
{
    return r->aggregate == AGGREGATE_KIND_EDGES_SOFTMAX;
}

static enum tile_reduction reduction_of(enum vertex_op_kind kind)
{
    return kind == VERTEX_OP_MAX       ? TILE_REDUCTION_MAX
           : kind == VERTEX_OP_MIN     ? TILE_REDUCTION_MIN
           : kind == VERTEX_OP_SOFTMAX ? TILE_REDUCTION_LOGSUMEXP
                                       : TILE_REDUCTION_SUM;
}

/* y = Σ α m, of scores s: α = exp(s - L), dm = α dy, ds = α (⟨dy, m⟩ - D), with L and D saved. */
static void roots_of_softmax(struct code *code, const struct reduction *r, struct code_root root[2])
{
    const int64_t n = r->saved / 2, n_column = r->width / n;
    const struct code_value scores = code_reshape(code, r->scores, n), m = code_reshape(code, r->value, n);
    const struct code_value grad = code_row(TILE_ROWS_GRAD, 0, n, n_column);
    struct code_value alpha = code_binary(code, TILE_OP_SUBTRACT, scores, code_row(TILE_ROWS_SAVED, 0, n, 1));
    alpha = code_unary(code, TILE_OP_EXP, alpha, 0.0, 0.0);
    struct code_value share = code_binary(code, TILE_OP_MULTIPLY, grad, alpha);
    root[0] = (struct code_root){r->value, code_reshape(code, share, r->value.n_head)};
    share = code_binary(code, TILE_OP_SUBTRACT, product_by_score(code, grad, m), code_row(TILE_ROWS_SAVED, n, n, 1));
    share = code_binary(code, TILE_OP_MULTIPLY, share, alpha);
    root[1] = (struct code_root){r->scores, code_reshape(code, share, r->scores.n_head)};
}

/* What is reduced, with its gradient, given that of the row. */
static int roots_of(struct code *code, const struct reduction *r, struct code_root root[2])
{
    const struct code_value value = r->value;
    const struct code_value grad = code_row(TILE_ROWS_GRAD, 0, value.n_head, value.n_column);
    struct code_value saved = code_row(TILE_ROWS_SAVED, 0, value.n_head, value.n_column), share = grad;
    if (weighs(r)) {
        roots_of_softmax(code, r, root);
        return 2;
    }
    if (r->kind == VERTEX_OP_MEAN) {
        share = code_binary(code, TILE_OP_MULTIPLY, grad, code_row(TILE_ROWS_SCALE_2, 0, 1, 1));
    } else if (r->kind == VERTEX_OP_MAX || r->kind == VERTEX_OP_MIN) {
        share = code_binary(code, TILE_OP_WON, grad, saved);
    } else if (r->kind == VERTEX_OP_SOFTMAX) {
        share = code_unary(code, TILE_OP_EXP, code_binary(code, TILE_OP_SUBTRACT, value, saved), 0.0, 0.0);
        share = code_binary(code, TILE_OP_MULTIPLY, grad, share);
    }
    root[0] = (struct code_root){value, share};
    return 1;
}

/* D of each score: Σ over its numbers of y · dy, behind what forward saved. */
static void begin_make(const struct reduction *r, struct tile *out)
{
    const int64_t n = r->saved / 2, n_column = r->width / n;
    struct code code = {0};
    struct code_value sums = product_by_score(&code, code_row(TILE_ROWS_IN_0, 0, n, n_column),
                                              code_row(TILE_ROWS_GRAD, 0, n, n_column));
    code_result(&code, sums, (struct tile_result){.target = TILE_TARGET_OUT, .at = n});
    code_tile(&code, out);
    out->width[TILE_ROWS_IN_0] = out->width[TILE_ROWS_GRAD] = r->width;
    out->target[TILE_TARGET_OUT] = r->saved;
    code_release(&code);
}

/* The op's tile k; false: a mistake. */
static bool tile_make(struct generation *g, int32_t at, const struct reduction *r, const struct op *op, int k,
                      struct tile *out)
{
    const bool of_targets = k == OP_TILE_BACKWARD;
    struct code code;
    bool fits = true;
    code_copy(&g->code, &code);
    if (k == OP_TILE_FORWARD && weighs(r)) {
        code_result_softmax(&code, r->value, r->scores);
    } else if (k == OP_TILE_FORWARD) {
        code_result(&code, r->value,
                    (struct tile_result){.target = TILE_TARGET_OUT, .reduction = reduction_of(r->kind)});
    } else {
        struct code_root root[2];
        const int n = roots_of(&code, r, root);
        fits = code_differentiate(&code, n, root, 1U << (of_targets ? TILE_ROWS_IN_2 : TILE_ROWS_IN_0), of_targets);
    }
    if (!fits) {
        walk_refuse(g->walk, at, "a product with what is no weight itself is not computed by rows or edges yet");
    }
    fits = generation_tile(g, at, &code, op, out) && fits;
    code_release(&code);
    return fits;
}

static int edges_append(struct generation *g, int32_t at, const struct reduction *r)
{
    struct walk *w = g->walk;
    struct op op = {.kind = OP_KIND_AGGREGATE, .aggregate = r->aggregate, .in = {-1, -1, -1}};
    struct tile tile[OP_N_TILE] = {{0}};
    bool made = true;
    op.in[0] = generation_join(g, TILE_ROWS_IN_0, TILE_ROWS_IN_0, 0);
    op.in[2] = generation_join(g, TILE_ROWS_IN_2, TILE_ROWS_IN_2, 0);
    op.in[0] = op.in[0] >= 0 ? op.in[0] : op.in[2] >= 0 ? op.in[2] : walk_dense(w, w->to->x);
    op.dropout = g->dropout; /* so that it is not static */
    for (int k = 0; k < OP_TILE_BEGIN && walk_goes_on(w); k++) {
        made = tile_make(g, at, r, &op, k, &tile[k]) && made;
    }
    if (!made || !walk_goes_on(w)) {
        for (int k = 0; k < OP_TILE_BEGIN; k++) {
            tile_release(&tile[k]);
        }
        return 0;
    }
    if (weighs(r)) {
        begin_make(r, &tile[OP_TILE_BEGIN]);
    }
    tile[OP_TILE_FORWARD].saved = r->saved;
    tile[OP_TILE_FORWARD].scales_mean = r->kind == VERTEX_OP_MEAN;
    return generation_append(g, &op, tile, r->width);
}

/* The row that each node gets, and the aggregate that makes it. */
static struct reduction reduction_open(struct generation *g, int32_t op)
{
    struct walk *w = g->walk;
    const int32_t of = walk_at(w, op)->in[0];
    struct reduction r = {.kind = walk_at(w, op)->kind};
    const int32_t softmax = r.kind == VERTEX_OP_SUM ? softmax_of(w, of) : -1;
    if (softmax >= 0) {
        int64_t n_head, n_column;
        r.aggregate = AGGREGATE_KIND_EDGES_SOFTMAX;
        r.scores = generate(g, walk_at(w, softmax)->in[0]);
        generation_shape(&walk_at(w, softmax)->shape, &n_head, &n_column);
        g->value[softmax] = ones(n_head, n_column);
        g->there[softmax] = true;
        generation_shape(&walk_at(w, of)->shape, &n_head, &n_column);
        r.value = code_binary(&g->code, TILE_OP_MULTIPLY, generate(g, of), ones(n_head, n_column));
        r.saved = 2 * r.scores.n_head * r.scores.n_column;
    } else {
        r.value = generate(g, of);
        r.saved = reduction_of(r.kind) != TILE_REDUCTION_SUM ? r.value.n_head * r.value.n_column : 0;
        r.aggregate = r.kind == VERTEX_OP_MEAN ? AGGREGATE_KIND_EDGES_MEAN
                      : g->reads_norm          ? AGGREGATE_KIND_EDGES_NORM
                                               : AGGREGATE_KIND_EDGES;
    }
    r.width = r.value.n_head * r.value.n_column;
    if (r.kind == VERTEX_OP_MEAN && g->reads_norm) {
        walk_refuse(w, op, "a mean of e.norm is not computed yet: expected a sum");
    } else if (!program_scales_alike(w->program, r.aggregate)) {
        walk_refuse(
            w, op,
            "e.norm and means stand in one program, whose aggregates share one set of scales: expected one of "
            "both");
    }
    return r;
}

/* A reduction of edges, or a softmax: its log-sum-exp. */
int walk_edges(struct walk *w, int32_t op)
{
    const struct vertex_op *of = walk_at(w, op);
    if (!walk_goes_on(w) || w->value[op] >= 0) {
        return walk_goes_on(w) ? w->value[op] : 0;
    }
    if (of->relation >= 0) {
        return walk_refuse(w, op,
                           "edges of one relation are reduced only as R-GCN does it, mean(e.src.a if …) @ w[r], yet");
    }
    if (of->kind == VERTEX_OP_VAR || of->kind == VERTEX_OP_STD) {
        return walk_refuse(w, op, "var and std are not computed yet: expected mean(…) and mean of squares");
    }
    struct generation g = generation_open(w, NULL);
    const struct reduction reduction = reduction_open(&g, op);
    int out = walk_goes_on(w) ? edges_append(&g, op, &reduction) : 0;
    generation_close(&g);
    w->value[op] = out;
    return out;
}

/* --- degrees --- */

/* Rows of one number, made of nothing. */
static struct tile constant_tile(double number)
{
    struct code code = {0};
    struct tile out;
    code_result(&code, code_number(number), (struct tile_result){.target = TILE_TARGET_OUT});
    code_tile(&code, &out);
    out.target[TILE_TARGET_OUT] = 1;
    code_release(&code);
    return out;
}

/* In-edges, with loops that are added: a sum of ones, once before training. */
int walk_degree(struct walk *w)
{
    if (!walk_goes_on(w)) {
        return 0;
    }
    struct tile rows[OP_N_TILE] = {constant_tile(1.0)}, edges[OP_N_TILE] = {constant_tile(1.0)};
    struct op ones = {.kind = OP_KIND_ROWS, .in = {0, -1, -1}};
    struct op sum = {.kind = OP_KIND_AGGREGATE, .aggregate = AGGREGATE_KIND_EDGES, .in = {-1, -1, -1}};
    for (int p = 0; p < OP_N_PARAM; p++) {
        ones.param[p] = sum.param[p] = -1;
    }
    sum.in[0] = program_tiles(w->program, &ones, rows, 1);
    return program_tiles(w->program, &sum, edges, 1);
}
