/* What no op of trainerd computes of nodes becomes a tile program: an op of kind ROWS. */
#include "models/vertex/generate.h"

#include "protocol/base/memory.h"

#include <stdlib.h>

/* --- rows that are read --- */

int generation_join(struct generation *g, enum tile_rows end, enum tile_rows rows, int first)
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
        op->in[n_own] = generation_join(g, TILE_ROWS_IN_0, TILE_ROWS_IN_2, n_own);
    }
}

bool generation_tile(struct generation *g, int32_t at, const struct code *code, const struct op *op, struct tile *out)
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

static void read_mark(const struct tile_operand *o, bool *reads)
{
    if (o->kind == TILE_ROW) {
        reads[o->which] = true;
    }
}

/* Arrays that nothing reads have no width: they need not be there. */
static void widths_trim(struct tile *tile)
{
    bool reads[TILE_ROWS_N] = {false};
    for (int k = 0; k < tile->n_instruction; k++) {
        const struct tile_instruction *i = &tile->instruction[k];
        read_mark(&i->a, reads);
        read_mark(tile_op_n_operand(i->op) > 1 ? &i->b : &i->a, reads);
    }
    for (int k = 0; k < tile->n_result; k++) {
        const struct tile_result *r = &tile->result[k];
        read_mark(&r->from, reads);
        read_mark(r->n_with > 0 ? &r->with : &r->from, reads);
    }
    for (int k = 0; k < TILE_ROWS_N; k++) {
        tile->width[k] = reads[k] ? tile->width[k] : 0;
    }
}

int generation_append(struct generation *g, struct op *op, struct tile tile[OP_N_TILE], int64_t width)
{
    for (int k = 0; k < OP_N_PARAM; k++) {
        op->param[k] = k < g->n_param ? g->param[k] : -1;
    }
    const int n = op_n_tile(op);
    for (int k = 0; k < n && k < OP_TILE_BEGIN; k++) {
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
    bool heads = of->kind == VERTEX_OP_PRODUCT && (of->shape.n_dim > 1 || walk_is(w, of->in[1], VERTEX_OP_SLICE));
    bool other = of->kind == VERTEX_OP_DOT || of->kind == VERTEX_OP_SUM_COLUMNS || of->kind == VERTEX_OP_NORM ||
                 of->kind == VERTEX_OP_NORMALIZE || of->kind == VERTEX_OP_CONCAT || of->kind == VERTEX_OP_HEADS ||
                 of->kind == VERTEX_OP_FLAT || of->kind == VERTEX_OP_MEAN_HEADS || of->kind == VERTEX_OP_SUM_HEADS ||
                 of->kind == VERTEX_OP_COLUMNS || heads || walk_is_part(w, op);
    return of->place == VERTEX_PLACE_NODE && (generate_is_element(of->kind) || other);
}

/* The operation, and all row operations that nothing else reads. Sums over relations are an op's. */
static bool *region_of(const struct walk *w, int32_t root)
{
    bool *region = memory_alloc((size_t)w->trace->n_op + 1, sizeof *region);
    int32_t *n_read = memory_alloc((size_t)w->trace->n_op + 1, sizeof *n_read);
    region[root] = true;
    for (int32_t i = root; i >= 0; i--) {
        bool joins = n_read[i] > 0 && n_read[i] == w->n_use[i] && w->value[i] < 0 && !w->relates[i];
        region[i] = region[i] || (joins && walk_is_row(w, i));
        for (int k = 0; k < VERTEX_N_IN && region[i]; k++) {
            if (walk_at(w, i)->in[k] >= 0) {
                n_read[walk_at(w, i)->in[k]]++;
            }
        }
    }
    free(n_read);
    return region;
}

/* The operation, with those of the region that it reads. */
static int rows_append(struct walk *w, int32_t op, const bool *region)
{
    int out = 0;
    struct generation g = generation_open(w, region);
    struct op rows = {.kind = OP_KIND_ROWS, .in = {-1, -1, -1}};
    struct code_value value = generate(&g, op);
    int64_t width = value.n_head * value.n_column;
    if (walk_goes_on(w) && g.code.n_leaf == 0) {
        walk_refuse(w, op, "a row that is the same for all nodes: expected one that depends on v.x");
    }
    if (walk_goes_on(w)) {
        struct code back;
        struct tile tile[OP_N_TILE] = {{0}};
        place_inputs(&g, &rows);
        code_copy(&g.code, &back);
        code_result(&g.code, value, (struct tile_result){.target = TILE_TARGET_OUT});
        const struct code_root root = {value, code_row(TILE_ROWS_GRAD, 0, value.n_head, value.n_column)};
        bool fits = code_differentiate(&back, 1, &root, 1U << TILE_ROWS_IN_0, true);
        if (!fits) {
            walk_refuse(w, op, "a product with what is no weight itself is not computed by rows or edges yet");
        }
        bool made = generation_tile(&g, op, &g.code, &rows, &tile[0]);
        if (generation_tile(&g, op, &back, &rows, &tile[1]) && made) {
            out = generation_append(&g, &rows, tile, width);
        } else {
            tile_release(&tile[0]);
            tile_release(&tile[1]);
        }
        code_release(&back);
    }
    generation_close(&g);
    return out;
}

int walk_rows(struct walk *w, int32_t op)
{
    if (!walk_goes_on(w)) {
        return 0;
    }
    if (!walk_is_row(w, op)) {
        return walk_refuse(w, op, "this is not computed of nodes yet");
    }
    bool *region = region_of(w, op);
    const int out = rows_append(w, op, region);
    free(region);
    return out;
}

int walk_columns(struct walk *w, int32_t op)
{
    bool *none = memory_alloc((size_t)w->trace->n_op + 1, sizeof *none);
    const int out = rows_append(w, op, none);
    free(none);
    return out;
}
