/* What no op of trainerd computes becomes tile programs: of nodes an op of kind ROWS, of edges an aggregate of one of
 * the kinds EDGES. */
#include "models/program/op.h"
#include "models/vertex/generate.h"

#include "protocol/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* --- rows that are read --- */

/* Leaves of an end side by side, as one value of the program; -1: the end has no leaf. */
static int join(struct generation *g, enum tile_rows end, enum tile_rows rows, int first)
{
    struct code *code = &g->code;
    int *in = memory_alloc((size_t)code->n_leaf + 1, sizeof *in), n = 0, value = -1;
    int64_t at = 0;
    for (int k = first; k < code->n_leaf; k++) {
        struct code_leaf *of = &code->leaf[k];
        if (of->end == end) {
            of->rows = rows;
            of->at = at;
            at += of->width;
            in[n++] = of->value;
        }
    }
    if (n > 0) {
        value = n > 1 ? program_concat(g->walk->program, in, n) : in[0];
    }
    free(in);
    return value;
}

/* Of nodes the first leaves are inputs of their own, and the others one. */
static void place_inputs(struct generation *g, struct op *op)
{
    struct code *code = &g->code;
    const int n_own = code->n_leaf <= OP_N_IN ? code->n_leaf : OP_N_IN - 1;
    for (int k = 0; k < n_own; k++) {
        code->leaf[k].rows = (enum tile_rows)(TILE_ROWS_IN_0 + k);
        op->in[k] = code->leaf[k].value;
    }
    if (code->n_leaf > n_own) {
        op->in[n_own] = join(g, TILE_ROWS_IN_0, TILE_ROWS_IN_2, n_own);
    }
}

/* The tile of some code, over this op's inputs. */
static bool tile_make(struct generation *g, int32_t at, const struct code *code, const struct op *op,
                      struct tile *out)
{
    const struct program *program = g->walk->program;
    code_tile(code, out);
    for (int k = 0; k < OP_N_IN; k++) {
        int64_t width = op->in[k] >= 0 ? program->value[op->in[k]].width : 0;
        bool wants = op->in[k] >= 0 && program->value[op->in[k]].needs_grad;
        out->width[TILE_ROWS_IN_0 + k] = width;
        out->target[TILE_TARGET_GRAD_IN_0 + k] = wants ? width : 0;
    }
    for (int p = 0; p < g->n_param; p++) {
        out->param[p] = parameter_size(&program->param[g->param[p]]);
    }
    out->width[TILE_ROWS_SCALE_0] = out->width[TILE_ROWS_SCALE_2] = out->width[TILE_ROWS_WEIGHT] = 1;
    out->width[TILE_ROWS_FEATURE] = program->n_edge_feature;
    if (code->overflows || out->n_float > TILE_FLOAT_MOST) {
        walk_refuse(g->walk, at,
                    "more than what is computed together may have: expected fewer operations or columns");
    }
    return walk_goes_on(g->walk);
}

/* Arrays that no instruction reads have no width: they need not be there. */
static void widths_trim(struct tile *tile)
{
    bool reads[TILE_ROWS_N] = {false};
    for (int i = 0; i < tile->n_instruction; i++) {
        const struct tile_operand *operands[] = {&tile->instruction[i].a, &tile->instruction[i].b};
        for (int k = 0; k < tile_op_n_operand(tile->instruction[i].op); k++) {
            if (operands[k]->kind == TILE_ROW) {
                reads[operands[k]->which] = true;
            }
        }
    }
    for (int k = 0; k < TILE_ROWS_N; k++) {
        tile->width[k] = reads[k] ? tile->width[k] : 0;
    }
}

static int tiles_append(struct generation *g, struct op *op, struct tile tile[3], int64_t width)
{
    for (int k = 0; k < OP_N_PARAM; k++) {
        op->param[k] = k < g->n_param ? g->param[k] : -1;
    }
    const int n = op_n_tile(op);
    for (int k = 0; k < n; k++) {
        tile[k].target[TILE_TARGET_OUT] = k == 0 ? width : 0;
        tile[k].width[TILE_ROWS_GRAD] = width;
        tile[k].width[TILE_ROWS_SAVED] = tile[k].saved = tile[0].saved;
        tile[k].scales_mean = k == 0 && tile[0].scales_mean;
        widths_trim(&tile[k]);
    }
    return program_tiles(g->walk->program, op, tile, width);
}

/* --- rows --- */

bool walk_is_part(const struct walk *w, int32_t op)
{
    const struct vertex_op *of = walk_at(w, op);
    bool maps = of->kind == VERTEX_OP_LINEAR || of->kind == VERTEX_OP_PRODUCT;
    if (!maps || of->shape.n_dim > 1 || walk_at(w, of->in[1])->shape.n_dim != 2) {
        return false;
    }
    const struct vertex_shape *weight = &walk_at(w, of->in[1])->shape;
    return weight->dim[of->kind == VERTEX_OP_LINEAR ? 1 : 0] != walk_at(w, of->in[0])->shape.dim[0];
}

bool walk_is_row(const struct walk *w, int32_t op)
{
    const struct vertex_op *of = walk_at(w, op);
    bool heads = of->kind == VERTEX_OP_PRODUCT && of->shape.n_dim > 1;
    bool other = of->kind == VERTEX_OP_DOT || of->kind == VERTEX_OP_SUM_COLUMNS || of->kind == VERTEX_OP_NORM ||
                 of->kind == VERTEX_OP_NORMALIZE || of->kind == VERTEX_OP_CONCAT || of->kind == VERTEX_OP_HEADS ||
                 of->kind == VERTEX_OP_FLAT || of->kind == VERTEX_OP_MEAN_HEADS || of->kind == VERTEX_OP_SUM_HEADS ||
                 of->kind == VERTEX_OP_COLUMNS || heads || walk_is_part(w, op);
    return of->place == VERTEX_PLACE_NODE && (generate_is_element(of->kind) || other);
}

/* The operation, and all row operations that nothing else reads. */
static bool *region_of(const struct walk *w, int32_t root)
{
    bool *region = memory_alloc((size_t)w->trace->n_op + 1, sizeof *region);
    int32_t *n_read = memory_alloc((size_t)w->trace->n_op + 1, sizeof *n_read);
    region[root] = true;
    for (int32_t i = root; i >= 0; i--) {
        region[i] = region[i] || (n_read[i] > 0 && n_read[i] == w->n_use[i] && w->value[i] < 0 && walk_is_row(w, i));
        for (int k = 0; k < VERTEX_N_IN && region[i]; k++) {
            if (walk_at(w, i)->in[k] >= 0) {
                n_read[walk_at(w, i)->in[k]]++;
            }
        }
    }
    free(n_read);
    return region;
}

int walk_rows(struct walk *w, int32_t op)
{
    int out = 0;
    if (!walk_goes_on(w)) {
        return 0;
    }
    if (!walk_is_row(w, op)) {
        return walk_refuse(w, op, "this is not computed of nodes yet");
    }
    bool *region = region_of(w, op);
    struct generation g = generation_open(w, region);
    struct op rows = {.kind = OP_KIND_ROWS, .in = {-1, -1, -1}};
    struct code_value value = generate(&g, op);
    int64_t width = value.n_head * value.n_column;
    if (walk_goes_on(w) && g.code.n_leaf == 0) {
        walk_refuse(w, op, "a row that is the same for all nodes: expected one that depends on v.x");
    }
    if (walk_goes_on(w)) {
        struct code back;
        struct tile tile[3] = {{0}};
        place_inputs(&g, &rows);
        code_copy(&g.code, &back);
        code_result(&g.code, value, (struct tile_result){.target = TILE_TARGET_OUT});
        bool fits = code_differentiate(&back, value, code_row(TILE_ROWS_GRAD, 0, value.n_head, value.n_column),
                                       1U << TILE_ROWS_IN_0, true);
        if (!fits) {
            walk_refuse(w, op, "a product with what is no weight itself is not computed by rows or edges yet");
        }
        bool made = tile_make(&g, op, &g.code, &rows, &tile[0]);
        if (tile_make(&g, op, &back, &rows, &tile[1]) && made) {
            out = tiles_append(&g, &rows, tile, width);
        } else {
            tile_release(&tile[0]);
            tile_release(&tile[1]);
        }
        code_release(&back);
    }
    generation_close(&g);
    free(region);
    return out;
}

/* --- edges --- */

static enum tile_reduction reduction_of(enum vertex_op_kind kind)
{
    return kind == VERTEX_OP_MAX       ? TILE_REDUCTION_MAX
           : kind == VERTEX_OP_MIN     ? TILE_REDUCTION_MIN
           : kind == VERTEX_OP_SOFTMAX ? TILE_REDUCTION_LOGSUMEXP
                                       : TILE_REDUCTION_SUM;
}

/* The gradient of an edge's value, given that of what it was reduced to. */
static struct code_value seed(struct code *code, enum vertex_op_kind kind, struct code_value value)
{
    struct code_value grad = code_row(TILE_ROWS_GRAD, 0, value.n_head, value.n_column);
    struct code_value saved = code_row(TILE_ROWS_SAVED, 0, value.n_head, value.n_column);
    switch (kind) {
    case VERTEX_OP_MEAN:
        return code_binary(code, TILE_OP_MULTIPLY, grad, code_row(TILE_ROWS_SCALE_2, 0, 1, 1));
    case VERTEX_OP_MAX:
    case VERTEX_OP_MIN:
        return code_binary(code, TILE_OP_WON, grad, saved);
    case VERTEX_OP_SOFTMAX:
        value = code_unary(code, TILE_OP_EXP, code_binary(code, TILE_OP_SUBTRACT, value, saved), 0.0, 0.0);
        return code_binary(code, TILE_OP_MULTIPLY, grad, value);
    default:
        return grad;
    }
}

static int edges_append(struct generation *g, int32_t at, struct code_value value)
{
    struct walk *w = g->walk;
    const enum vertex_op_kind kind = walk_at(w, at)->kind;
    const int64_t width = value.n_head * value.n_column;
    struct op op = {.kind = OP_KIND_AGGREGATE, .aggregate = AGGREGATE_KIND_EDGES, .in = {-1, -1, -1}};
    struct tile tile[3] = {{0}};
    int out = 0;
    op.aggregate = kind == VERTEX_OP_MEAN ? AGGREGATE_KIND_EDGES_MEAN
                   : g->reads_norm        ? AGGREGATE_KIND_EDGES_NORM
                                          : AGGREGATE_KIND_EDGES;
    if (kind == VERTEX_OP_MEAN && g->reads_norm) {
        return walk_refuse(w, at, "a mean of e.norm is not computed yet: expected a sum");
    }
    if (!program_scales_alike(w->program, op.aggregate)) {
        return walk_refuse(
            w, at,
            "e.norm and means stand in one program, whose aggregates share one set of scales: expected "
            "one of both");
    }
    op.in[0] = join(g, TILE_ROWS_IN_0, TILE_ROWS_IN_0, 0);
    op.in[2] = join(g, TILE_ROWS_IN_2, TILE_ROWS_IN_2, 0);
    op.in[0] = op.in[0] >= 0 ? op.in[0] : op.in[2] >= 0 ? op.in[2] : walk_dense(w, w->to->x);
    op.dropout = g->dropout; /* so that it is not static */
    const enum tile_reduction reduction = reduction_of(kind);
    bool made = true;
    for (int k = 0; k < 3 && walk_goes_on(w); k++) {
        struct code code;
        code_copy(&g->code, &code);
        bool fits = true;
        if (k == 0) {
            code_result(&code, value, (struct tile_result){.target = TILE_TARGET_OUT, .reduction = reduction});
        } else {
            fits = code_differentiate(&code, value, seed(&code, kind, value),
                                      1U << (k == 1 ? TILE_ROWS_IN_2 : TILE_ROWS_IN_0), k == 1);
        }
        if (!fits) {
            walk_refuse(w, at, "a product with what is no weight itself is not computed by rows or edges yet");
        }
        made = tile_make(g, at, &code, &op, &tile[k]) && made;
        code_release(&code);
    }
    if (made && walk_goes_on(w)) {
        tile[0].saved = reduction != TILE_REDUCTION_SUM ? width : 0;
        tile[0].scales_mean = kind == VERTEX_OP_MEAN;
        out = tiles_append(g, &op, tile, width);
    } else {
        for (int k = 0; k < 3; k++) {
            tile_release(&tile[k]);
        }
    }
    return out;
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
    struct code_value value = generate(&g, of->in[0]);
    int out = walk_goes_on(w) ? edges_append(&g, op, value) : 0;
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
    struct tile rows[3] = {constant_tile(1.0), {0}, {0}}, edges[3] = {constant_tile(1.0), {0}, {0}};
    struct op ones = {.kind = OP_KIND_ROWS, .in = {0, -1, -1}};
    struct op sum = {.kind = OP_KIND_AGGREGATE, .aggregate = AGGREGATE_KIND_EDGES, .in = {-1, -1, -1}};
    for (int p = 0; p < OP_N_PARAM; p++) {
        ones.param[p] = sum.param[p] = -1;
    }
    sum.in[0] = program_tiles(w->program, &ones, rows, 1);
    return program_tiles(w->program, &sum, edges, 1);
}
