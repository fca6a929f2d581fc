#include "models/vertex/generate.h"

#include "protocol/base/memory.h"

#include <stdlib.h>

static struct code_value refuse(struct generation *g, int32_t op, const char *why)
{
    walk_refuse(g->walk, op, why);
    return code_number(0.0);
}

/* A value of the model's program, at an end. A row of nodes reads the columns of a group where they lie. */
static struct code_value leaf(struct generation *g, int32_t op, enum tile_rows end)
{
    struct walk *w = g->walk;
    const bool of_group = g->region != NULL && walk_is_edges(w, op);
    const struct walk_place from = of_group ? walk_reduced(w, op)
                                            : (struct walk_place){walk_dense(w, walk_value(w, op)), 0};
    if (!walk_goes_on(w)) {
        return code_number(0.0);
    }
    const struct value *value = &w->program->value[from.value];
    struct code_value out = code_leaf(&g->code, from.value, end, value->needs_grad, 1, value->width);
    generation_shape(&walk_at(w, op)->shape, &out.n_head, &out.n_column);
    out.at.at = from.at;
    out.at.head = out.n_column;
    return out;
}

static struct code_value weight(struct generation *g, int32_t op)
{
    int param = walk_weight(g->walk, op), k = 0;
    int64_t n_head, n_column;
    generation_shape(&walk_at(g->walk, op)->shape, &n_head, &n_column);
    while (k < g->n_param && g->param[k] != param) {
        k++;
    }
    if (k == TILE_N_PARAM) {
        return refuse(g, op,
                      "more than 16 weights in what is computed together: expected some of it in values v.NAME of "
                      "their own, before linear maps");
    }
    if (k == g->n_param) {
        g->param[g->n_param++] = param;
        g->code.param_trains[k] = g->walk->program->param[param].trains;
    }
    return (struct code_value){{.kind = TILE_PARAM, .which = k, .head = n_column, .column = 1}, n_head, n_column};
}

/* w[r] of a weight: its r-th part */
static struct code_value slice(struct generation *g, int32_t op)
{
    const struct vertex_op *of = walk_at(g->walk, op);
    if (!walk_is(g->walk, of->in[0], VERTEX_OP_PARAMETER)) {
        return refuse(g, op, "a slice of what is no weight itself is not computed by rows or edges yet");
    }
    struct code_value out = weight(g, of->in[0]);
    generation_shape(&of->shape, &out.n_head, &out.n_column);
    out.at.at = (int64_t)of->number[0] * out.n_head * out.n_column;
    out.at.head = out.n_column;
    return out;
}

/* --- products --- */

/* A row, or each of its heads, times a weight: w[k · inner + c · column] of each head. */
static struct code_value product(struct generation *g, int32_t op)
{
    const struct vertex_op *of = walk_at(g->walk, op);
    struct code_value x = generate(g, of->in[0]), w = generate(g, of->in[1]);
    const struct vertex_shape *shape = &walk_at(g->walk, of->in[1])->shape;
    bool by_head = shape->n_dim == 3, transposed = of->kind == VERTEX_OP_LINEAR; /* its weight is out × in */
    if (!walk_goes_on(g->walk)) {
        return x;
    }
    if (w.at.kind != TILE_PARAM || shape->n_dim < 2 || (by_head && shape->dim[0] != x.n_head)) {
        return refuse(g, op, "a product with what is no weight itself is not computed by rows or edges yet");
    }
    int64_t n_in = x.n_column, n_out = transposed ? shape->dim[shape->n_dim - 2] : shape->dim[shape->n_dim - 1];
    struct tile_operand matrix = w.at;
    matrix.inner = transposed ? 1 : n_out;
    matrix.column = transposed ? n_in : 1;
    if (!by_head) { /* of a part, some columns of the weight */
        int64_t n_all = transposed ? shape->dim[1] : shape->dim[0], first = (int64_t)of->number[0];
        matrix.column = transposed ? n_all : 1;
        matrix.at += first * (transposed ? 1 : n_out);
    }
    matrix.head = by_head ? n_in * n_out : 0;
    struct code_value y = code_product(&g->code, x, matrix, n_out);
    if (transposed && of->in[2] >= 0) {
        y = code_binary(&g->code, TILE_OP_ADD, y, generate(g, of->in[2]));
    }
    return y;
}

static struct code_value norm(struct generation *g, struct code_value x)
{
    return code_unary(&g->code, TILE_OP_SQRT, code_dot(&g->code, x, x), 1.0, 0.0); /* slope 0 at 0 */
}

/* x / ‖x‖, and 0 for a row of zeros */
static struct code_value normalized(struct generation *g, struct code_value x)
{
    struct code_value length = code_binary(&g->code, TILE_OP_MAXIMUM, norm(g, x), code_number(1e-12));
    return code_binary(&g->code, TILE_OP_DIVIDE, x, length);
}

/* exp(s - L), L the log-sum-exp over the in-edges of the destination: an aggregate of its own */
static struct code_value softmax(struct generation *g, int32_t op)
{
    struct walk *w = g->walk;
    if (g->region != NULL) {
        return refuse(g, op, "softmax is of edges");
    }
    const double drawn = g->dropout;
    struct code_value score = generate(g, walk_at(w, op)->in[0]);
    if (g->dropout != drawn) {
        return refuse(g, op,
                      "dropout inside of softmax is not computed yet: expected it outside, dropout(softmax(…))");
    }
    int value = walk_edges(w, op);
    if (!walk_goes_on(w)) {
        return score;
    }
    int64_t n_head, n_column;
    generation_shape(&walk_at(w, op)->shape, &n_head, &n_column);
    struct code_value sums = code_leaf(&g->code, value, TILE_ROWS_IN_2, w->program->value[value].needs_grad, n_head,
                                       n_column);
    return code_unary(&g->code, TILE_OP_EXP, code_binary(&g->code, TILE_OP_SUBTRACT, score, sums), 0.0, 0.0);
}

static struct code_value dropout(struct generation *g, int32_t op)
{
    const struct vertex_op *of = walk_at(g->walk, op);
    struct code_value x = generate(g, of->in[0]);
    int64_t n = x.n_head * x.n_column;
    if (of->number[0] == 0.0) {
        return x;
    }
    if (g->code.n_draw + n > TILE_DRAW_MOST) {
        return refuse(g, op, "dropout of more than 1024 numbers of an edge");
    }
    g->dropout = of->number[0];
    g->code.n_draw += n;
    return code_unary(&g->code, TILE_OP_DROP, x, of->number[0], (double)(g->code.n_draw - n));
}

static struct code_value edge_norm(struct generation *g, struct code_value edge)
{
    struct code_value scales = code_binary(&g->code, TILE_OP_MULTIPLY, code_row(TILE_ROWS_SCALE_0, 0, 1, 1),
                                           code_row(TILE_ROWS_SCALE_2, 0, 1, 1));
    g->reads_norm = true;
    return edge.at.kind == TILE_NUMBER ? scales : code_binary(&g->code, TILE_OP_MULTIPLY, edge, scales);
}

/* --- operations --- */

/* Element by element; COPY: it is something else. */
static enum tile_op element_op(enum vertex_op_kind kind)
{
    static const enum tile_op ops[VERTEX_OP_N] = {
        [VERTEX_OP_RELU] = TILE_OP_RELU,         [VERTEX_OP_LEAKY_RELU] = TILE_OP_LEAKY_RELU,
        [VERTEX_OP_ELU] = TILE_OP_ELU,           [VERTEX_OP_GELU] = TILE_OP_GELU,
        [VERTEX_OP_SILU] = TILE_OP_SILU,         [VERTEX_OP_SIGMOID] = TILE_OP_SIGMOID,
        [VERTEX_OP_TANH] = TILE_OP_TANH,         [VERTEX_OP_SOFTPLUS] = TILE_OP_SOFTPLUS,
        [VERTEX_OP_EXP] = TILE_OP_EXP,           [VERTEX_OP_LOG] = TILE_OP_LOG,
        [VERTEX_OP_SQRT] = TILE_OP_SQRT,         [VERTEX_OP_ABS] = TILE_OP_ABS,
        [VERTEX_OP_CLAMP] = TILE_OP_CLAMP,       [VERTEX_OP_POWER] = TILE_OP_POWER,
        [VERTEX_OP_ADD] = TILE_OP_ADD,           [VERTEX_OP_SUBTRACT] = TILE_OP_SUBTRACT,
        [VERTEX_OP_MULTIPLY] = TILE_OP_MULTIPLY, [VERTEX_OP_DIVIDE] = TILE_OP_DIVIDE,
        [VERTEX_OP_GATE] = TILE_OP_RELU_BACK,    [VERTEX_OP_MINIMUM] = TILE_OP_MINIMUM,
        [VERTEX_OP_MAXIMUM] = TILE_OP_MAXIMUM};
    return ops[kind];
}

bool generate_is_element(enum vertex_op_kind kind)
{
    return element_op(kind) != TILE_OP_COPY;
}

/* Columns from … to of each head. */
static struct code_value columns(struct code_value x, const struct vertex_op *of)
{
    x.at.at += (int64_t)of->number[0];
    x.n_column = (int64_t)of->number[1] - (int64_t)of->number[0];
    return x;
}

/* Σ over heads, of a product without its array where nothing else reads that. */
static struct code_value heads_summed(struct generation *g, int32_t op)
{
    const struct vertex_op *of = walk_at(g->walk, op);
    const bool inside = g->region == NULL || g->region[op];
    if (of->kind != VERTEX_OP_MULTIPLY || g->walk->n_use[op] != 1 || !inside) {
        return code_sum_heads(&g->code, generate(g, op), code_number(1.0));
    }
    struct code_value a = generate(g, of->in[0]);
    return code_sum_heads(&g->code, a, generate(g, of->in[1]));
}

static struct code_value heads_mean(struct generation *g, int32_t op)
{
    struct code_value x = generate(g, op), sum = code_sum_heads(&g->code, x, code_number(1.0));
    return code_binary(&g->code, TILE_OP_MULTIPLY, sum, code_number(1.0 / (double)x.n_head));
}

/* What an edge has, its ends, weights, numbers: nothing is computed. *found false: it is another operation. */
static struct code_value given(struct generation *g, int32_t op, bool *found)
{
    const struct vertex_op *of = walk_at(g->walk, op);
    const bool weighted = g->walk->to->is_weighted;
    struct code_value edge = weighted ? code_row(TILE_ROWS_WEIGHT, 0, 1, 1) : code_number(1.0);
    *found = true;
    switch (of->kind) {
    case VERTEX_OP_SOURCE:
        return leaf(g, of->in[0], TILE_ROWS_IN_0);
    case VERTEX_OP_TARGET:
        return leaf(g, of->in[0], TILE_ROWS_IN_2);
    case VERTEX_OP_EDGE_WEIGHT:
        return edge;
    case VERTEX_OP_EDGE_NORM:
        return edge_norm(g, edge);
    case VERTEX_OP_EDGE_FEATURE:
        return code_row(TILE_ROWS_FEATURE, 0, 1, of->shape.dim[0]);
    case VERTEX_OP_PARAMETER:
        return weight(g, op);
    case VERTEX_OP_SLICE:
        return slice(g, op);
    case VERTEX_OP_NUMBER:
        return code_number(of->number[0]);
    default:
        *found = false;
        return edge;
    }
}

static struct code_value element(struct generation *g, int32_t op)
{
    const struct vertex_op *of = walk_at(g->walk, op);
    const enum tile_op element = element_op(of->kind);
    struct code_value a = generate(g, of->in[0]);
    return tile_op_n_operand(element) > 1 ? code_binary(&g->code, element, a, generate(g, of->in[1]))
                                          : code_unary(&g->code, element, a, of->number[0], of->number[1]);
}

static struct code_value operation(struct generation *g, int32_t op)
{
    const struct vertex_op *of = walk_at(g->walk, op);
    struct code *code = &g->code;
    struct code_value a;
    int64_t n_head, n_column;
    generation_shape(&of->shape, &n_head, &n_column);
    switch (of->kind) {
    case VERTEX_OP_PRODUCT:
    case VERTEX_OP_LINEAR:
        return product(g, op);
    case VERTEX_OP_DOT:
        a = generate(g, of->in[0]);
        return code_dot(code, a, generate(g, of->in[1]));
    case VERTEX_OP_SUM_COLUMNS:
        return code_dot(code, generate(g, of->in[0]), code_number(1.0));
    case VERTEX_OP_NORM:
        return norm(g, generate(g, of->in[0]));
    case VERTEX_OP_NORMALIZE:
        return normalized(g, generate(g, of->in[0]));
    case VERTEX_OP_CONCAT:
        a = generate(g, of->in[0]);
        return code_concat(code, a, generate(g, of->in[1]));
    case VERTEX_OP_HEADS:
    case VERTEX_OP_FLAT:
        return code_reshape(code, generate(g, of->in[0]), n_head);
    case VERTEX_OP_SUM_HEADS:
        return heads_summed(g, of->in[0]);
    case VERTEX_OP_MEAN_HEADS:
        return heads_mean(g, of->in[0]);
    case VERTEX_OP_COLUMNS:
        return columns(generate(g, of->in[0]), of);
    case VERTEX_OP_SOFTMAX:
        return softmax(g, op);
    case VERTEX_OP_DROPOUT:
        return dropout(g, op);
    default:
        return refuse(g, op, "this is not computed by rows or edges yet");
    }
}

struct code_value generate(struct generation *g, int32_t op)
{
    const bool is_leaf = g->region != NULL && !g->region[op] && walk_at(g->walk, op)->place == VERTEX_PLACE_NODE;
    if (!walk_goes_on(g->walk)) {
        return code_number(0.0);
    }
    if (!g->there[op]) {
        bool found = is_leaf;
        struct code_value value = is_leaf ? leaf(g, op, TILE_ROWS_IN_0) : given(g, op, &found);
        if (!found) {
            value = generate_is_element(walk_at(g->walk, op)->kind) ? element(g, op) : operation(g, op);
        }
        g->value[op] = value;
        g->there[op] = true;
    }
    return g->value[op];
}

struct generation generation_open(struct walk *w, const bool *region)
{
    size_t n = (size_t)w->trace->n_op + 1;
    struct generation g = {.walk = w, .region = region};
    g.value = memory_alloc(n, sizeof *g.value);
    g.there = memory_alloc(n, sizeof *g.there);
    return g;
}

void generation_close(struct generation *g)
{
    code_release(&g->code);
    free(g->value);
    free(g->there);
}
