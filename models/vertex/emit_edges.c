/* Reductions of edges that no op of trainerd computes become tile programs: aggregates of the kinds EDGES. Those that
 * read a common row of the source are one (emit_group.c). */
#include "models/vertex/generate.h"

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
struct reduced {
    enum vertex_op_kind kind;
    int64_t at, saved_at; /* first number in the aggregate's row, in what is saved */
    struct code_value value;
};

/* What an aggregate makes. */
struct reduction {
    enum aggregate_kind aggregate;
    int64_t width, saved;
    int n;
    struct reduced of[WALK_GROUP_MOST];
    struct code_value scores; /* of a softmax-weighted sum, the only one */
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
    const struct code_value value = r->of[0].value, scores = code_reshape(code, r->scores, n),
                            m = code_reshape(code, value, n);
    const struct code_value grad = code_row(TILE_ROWS_GRAD, 0, n, n_column);
    struct code_value alpha = code_binary(code, TILE_OP_SUBTRACT, scores, code_row(TILE_ROWS_SAVED, 0, n, 1));
    alpha = code_unary(code, TILE_OP_EXP, alpha, 0.0, 0.0);
    struct code_value share = code_binary(code, TILE_OP_MULTIPLY, grad, alpha);
    root[0] = (struct code_root){value, code_reshape(code, share, value.n_head)};
    share = code_binary(code, TILE_OP_SUBTRACT, product_by_score(code, grad, m), code_row(TILE_ROWS_SAVED, n, n, 1));
    share = code_binary(code, TILE_OP_MULTIPLY, share, alpha);
    root[1] = (struct code_root){r->scores, code_reshape(code, share, r->scores.n_head)};
}

/* What is reduced, with its gradient, given that of the row. */
static struct code_root root_of(struct code *code, const struct reduced *r)
{
    const struct code_value value = r->value;
    const struct code_value grad = code_row(TILE_ROWS_GRAD, r->at, value.n_head, value.n_column);
    struct code_value saved = code_row(TILE_ROWS_SAVED, r->saved_at, value.n_head, value.n_column), share = grad;
    if (r->kind == VERTEX_OP_MEAN) {
        share = code_binary(code, TILE_OP_MULTIPLY, grad, code_row(TILE_ROWS_SCALE_2, 0, 1, 1));
    } else if (r->kind == VERTEX_OP_MAX || r->kind == VERTEX_OP_MIN) {
        share = code_binary(code, TILE_OP_WON, grad, saved);
    } else if (r->kind == VERTEX_OP_SOFTMAX) {
        share = code_unary(code, TILE_OP_EXP, code_binary(code, TILE_OP_SUBTRACT, value, saved), 0.0, 0.0);
        share = code_binary(code, TILE_OP_MULTIPLY, grad, share);
    }
    return (struct code_root){value, share};
}

static int roots_of(struct code *code, const struct reduction *r, struct code_root root[WALK_GROUP_MOST + 1])
{
    if (weighs(r)) {
        roots_of_softmax(code, r, root);
        return 2;
    }
    for (int k = 0; k < r->n; k++) {
        root[k] = root_of(code, &r->of[k]);
    }
    return r->n;
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
        code_result_softmax(&code, r->of[0].value, r->scores);
    } else if (k == OP_TILE_FORWARD) {
        for (int i = 0; i < r->n; i++) {
            const struct reduced *of = &r->of[i];
            code_result(&code, of->value,
                        (struct tile_result){.target = TILE_TARGET_OUT,
                                             .reduction = reduction_of(of->kind),
                                             .at = of->at,
                                             .saved = of->saved_at});
        }
    } else {
        struct code_root root[WALK_GROUP_MOST + 1];
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
    tile[OP_TILE_FORWARD].scales_mean = r->aggregate == AGGREGATE_KIND_EDGES_MEAN;
    return generation_append(g, &op, tile, r->width);
}

/* One sum, weighed by a softmax that is a factor of it. */
static void softmax_open(struct generation *g, int32_t op, int32_t softmax, struct reduction *r)
{
    struct walk *w = g->walk;
    const int32_t of = walk_at(w, op)->in[0];
    int64_t n_head, n_column;
    r->aggregate = AGGREGATE_KIND_EDGES_SOFTMAX;
    r->scores = generate(g, walk_at(w, softmax)->in[0]);
    generation_shape(&walk_at(w, softmax)->shape, &n_head, &n_column);
    g->value[softmax] = ones(n_head, n_column);
    g->there[softmax] = true;
    generation_shape(&walk_at(w, of)->shape, &n_head, &n_column);
    r->of[0].value = code_binary(&g->code, TILE_OP_MULTIPLY, generate(g, of), ones(n_head, n_column));
    r->width = r->of[0].value.n_head * r->of[0].value.n_column;
    r->saved = 2 * r->scores.n_head * r->scores.n_column;
}

/* One more result, behind the others. */
static void reduced_open(struct generation *g, int32_t op, struct reduced *of, struct reduction *r)
{
    of->at = r->width;
    of->value = generate(g, walk_at(g->walk, op)->in[0]);
    const int64_t width = of->value.n_head * of->value.n_column;
    if (reduction_of(of->kind) != TILE_REDUCTION_SUM) {
        of->saved_at = r->saved;
        r->saved += width;
    }
    r->width += width;
    r->aggregate = of->kind == VERTEX_OP_MEAN ? AGGREGATE_KIND_EDGES_MEAN : r->aggregate;
}

/* The row that each node gets, and the aggregate that makes it. */
static struct reduction reduction_open(struct generation *g, const struct walk_group *group)
{
    struct walk *w = g->walk;
    const int32_t op = group->op[0];
    const bool sums = group->n == 1 && walk_is(w, op, VERTEX_OP_SUM);
    const int32_t softmax = sums ? walk_softmax(w, walk_at(w, op)->in[0]) : -1;
    struct reduction r = {.aggregate = AGGREGATE_KIND_EDGES, .n = group->n};
    for (int k = 0; k < r.n && softmax < 0; k++) {
        r.of[k].kind = walk_at(w, group->op[k])->kind;
        reduced_open(g, group->op[k], &r.of[k], &r);
    }
    if (softmax >= 0) {
        softmax_open(g, op, softmax, &r);
    }
    if (r.aggregate == AGGREGATE_KIND_EDGES && g->reads_norm) {
        r.aggregate = AGGREGATE_KIND_EDGES_NORM;
    }
    return r;
}

/* --- groups --- */

/* Is a group's program far from the most that a tile may have? Its gradients' are several times as long. */
static bool is_small(const struct code *code)
{
    int64_t n_float = 0;
    for (int b = 0; b < code->n_buffer; b++) {
        n_float += code->buffer[b];
    }
    for (int k = 0; k < code->n_leaf; k++) {
        n_float += code->leaf[k].width;
    }
    return code->n_instruction <= TILE_INSTRUCTION_MOST / 16 && n_float <= TILE_FLOAT_MOST / 8;
}

/* The aggregate of a group. false: of several, they are not computed together; nothing is appended. */
static bool group_append(struct walk *w, const struct walk_group *group)
{
    for (int k = 0; k < group->n; k++) {
        w->place[group->op[k]].value = WALK_PLACE_SOON;
    }
    struct generation g = generation_open(w, NULL);
    const struct reduction r = reduction_open(&g, group);
    const bool fits = group->n == 1 || (walk_goes_on(w) && is_small(&g.code));
    const int value = fits && walk_goes_on(w) ? edges_append(&g, group->op[0], &r) : WALK_PLACE_NONE;
    for (int k = 0; k < group->n; k++) {
        w->place[group->op[k]] = (struct walk_place){value, r.of[k].at};
    }
    if (group->n == 1) {
        w->value[group->op[0]] = value;
    }
    if (!fits && !w->to->needs_dense) {
        w->status = STATUS_OK; /* alone each says for itself what it lacks */
    }
    generation_close(&g);
    return fits;
}

struct walk_place walk_reduced(struct walk *w, int32_t op)
{
    if (walk_goes_on(w) && w->place[op].value == WALK_PLACE_NONE) {
        struct walk_group group;
        walk_group_below(w, op);
        walk_group(w, op, &group);
        if (!group_append(w, &group)) {
            group = (struct walk_group){.n = 1, .op = {op}};
            group_append(w, &group);
        }
    }
    return walk_goes_on(w) ? w->place[op] : (struct walk_place){0};
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
    walk_reduced(w, op);
    if (walk_goes_on(w) && w->value[op] < 0) {
        w->value[op] = walk_columns(w, op);
    }
    return walk_goes_on(w) ? w->value[op] : 0;
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
