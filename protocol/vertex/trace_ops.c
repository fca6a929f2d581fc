/* Operations with their places and shapes: each is appended once, and what does not fit is refused here. */
#include "protocol/vertex/trace_state.h"

#include "protocol/base/memory.h"

#include <inttypes.h>
#include <search.h>
#include <string.h>

/* --- shapes --- */

struct vertex_shape shape_make(int64_t heads, int64_t columns)
{
    return heads == 0 ? (struct vertex_shape){1, {columns}} : (struct vertex_shape){2, {heads, columns}};
}

int64_t shape_columns(const struct vertex_shape *shape)
{
    return shape->dim[shape->n_dim - 1];
}

int64_t shape_heads(const struct vertex_shape *shape)
{
    return shape->n_dim > 1 ? shape->dim[shape->n_dim - 2] : 0;
}

int64_t shape_size(const struct vertex_shape *shape)
{
    int64_t n = 1;
    for (int d = 0; d < shape->n_dim; d++) {
        if (shape->dim[d] == VERTEX_UNKNOWN) {
            return VERTEX_UNKNOWN;
        }
        n *= shape->dim[d];
    }
    return n;
}

static size_t dim_text(int64_t dim, char *out, size_t room)
{
    return dim == VERTEX_UNKNOWN ? (size_t)snprintf(out, room, "?") : (size_t)snprintf(out, room, "%" PRId64, dim);
}

void shape_text(const struct vertex_shape *shape, bool is_row, char out[SHAPE_TEXT_BYTES])
{
    size_t at = 0;
    for (int d = 0; d < shape->n_dim; d++) {
        at += (size_t)snprintf(out + at, SHAPE_TEXT_BYTES - at, "%s", d > 0 ? " × " : "");
        at += dim_text(shape->dim[d], out + at, SHAPE_TEXT_BYTES - at);
        if (is_row) {
            const char *noun = d < shape->n_dim - 1 ? "head" : "column";
            at += (size_t)snprintf(out + at, SHAPE_TEXT_BYTES - at, " %s%s", noun, shape->dim[d] == 1 ? "" : "s");
        }
    }
}

/* The dimension of a result where both operands have one: equal ones, or one that is repeated. false: they differ. */
static bool dim_join(int64_t a, int64_t b, bool repeats, int64_t *out)
{
    if (a == VERTEX_UNKNOWN || b == VERTEX_UNKNOWN) {
        *out = a == VERTEX_UNKNOWN || (repeats && a == 1) ? b : a;
        return true;
    }
    *out = a == 1 && repeats ? b : a;
    return a == b || (repeats && (a == 1 || b == 1));
}

/* A number a row, a head or a column is repeated over the others, and heads' weights over a row without heads. */
static bool shape_join(const struct vertex_shape *a, const struct vertex_shape *b, struct vertex_shape *out)
{
    const struct vertex_shape *longer = a->n_dim >= b->n_dim ? a : b, *shorter = a->n_dim >= b->n_dim ? b : a;
    if (shape_size(a) == 1 || shape_size(b) == 1) { /* one head of a number is one head with rows of columns, too */
        const struct vertex_shape *wide = shape_size(a) == 1 ? b : a;
        *out = (struct vertex_shape){longer->n_dim, {1, 1, 1, 1}};
        memcpy(out->dim + longer->n_dim - wide->n_dim, wide->dim, (size_t)wide->n_dim * sizeof *wide->dim);
        return true;
    }
    *out = *longer;
    for (int d = 1; d <= longer->n_dim; d++) {
        int64_t x = longer->dim[longer->n_dim - d], y = d <= shorter->n_dim ? shorter->dim[shorter->n_dim - d] : 1;
        bool repeats = d > shorter->n_dim || longer->n_dim == shorter->n_dim;
        if (!dim_join(x, y, repeats, &out->dim[longer->n_dim - d])) {
            return false;
        }
    }
    return true;
}

/* --- appending --- */

bool vertex_shape_equal(const struct vertex_shape *a, const struct vertex_shape *b)
{
    return a->n_dim == b->n_dim && memcmp(a->dim, b->dim, (size_t)a->n_dim * sizeof *a->dim) == 0;
}

static int op_compare(const void *a, const void *b)
{
    const struct vertex_op *left = a, *right = b;
    int order = (int)left->kind - (int)right->kind;
    order = order != 0 ? order : memcmp(left->in, right->in, sizeof left->in);
    order = order != 0 ? order : memcmp(left->number, right->number, sizeof left->number);
    order = order != 0 ? order : left->weight - right->weight;
    order = order != 0 ? order : left->relation - right->relation;
    order = order != 0 ? order : left->shape.n_dim - right->shape.n_dim;
    return order != 0 ? order
                      : memcmp(left->shape.dim, right->shape.dim, (size_t)left->shape.n_dim * sizeof(int64_t));
}

static void keep(void *op)
{
    (void)op;
}

void vertex_ops_forget(void **same)
{
    tdestroy(*same, keep);
    *same = NULL;
}

int32_t vertex_op_add(struct vertex_trace *list, void **same, const struct vertex_op *op)
{
    struct vertex_op **found = tfind(op, same, op_compare), *before = list->op;
    if (found != NULL && op->kind != VERTEX_OP_DROPOUT) { /* which draws again each time */
        return (int32_t)(*found - list->op);
    }
    list->op = memory_list_grow(list->op, list->n_op, sizeof *list->op);
    list->op[list->n_op] = *op;
    int32_t first = list->n_op++;
    if (list->op != before) { /* operations are found where they lie */
        vertex_ops_forget(same);
        first = 0;
    }
    for (int32_t i = first; i < list->n_op; i++) {
        tsearch(&list->op[i], same, op_compare);
    }
    return list->n_op - 1;
}

static enum status check_width(struct trace *trace, int32_t node, const struct vertex_op *op)
{
    char quoted[VERTEX_QUOTE_BYTES], shape[SHAPE_TEXT_BYTES];
    int64_t size = shape_size(&op->shape);
    if (op->place == VERTEX_PLACE_WEIGHT || size <= VERTEX_WIDTH_MOST || size <= trace->facts->n_in) {
        return STATUS_OK;
    }
    trace_quote(trace, node, quoted);
    shape_text(&op->shape, true, shape);
    return TRACE_FAIL(trace, node, "%s has %s; expected at most %d columns in a row", quoted, shape,
                      VERTEX_WIDTH_MOST);
}

/* What a pair has not, and what is over a node's edges, or all nodes. */
static enum status check_pairs(struct trace *trace, int32_t node, enum vertex_op_kind kind)
{
    switch (kind) {
    case VERTEX_OP_DEGREE:
    case VERTEX_OP_EDGE_WEIGHT:
    case VERTEX_OP_EDGE_NORM:
    case VERTEX_OP_EDGE_FEATURE:
    case VERTEX_OP_SOFTMAX:
    case VERTEX_OP_DROPOUT:
    case VERTEX_OP_BATCH_NORM:
        return trace_fail_quoted(trace, node, node,
                                 "is nothing that a score may read: a pair has e.src.x, e.dst.x and e.relation");
    default:
        return STATUS_OK;
    }
}

enum status trace_op(struct trace *trace, int32_t node, struct vertex_op op, int32_t *out)
{
    struct vertex_trace *list = &trace->out;
    bool is_end = op.kind == VERTEX_OP_SOURCE || op.kind == VERTEX_OP_TARGET, reduces = op.kind >= VERTEX_OP_SUM;
    for (int k = 0; k < VERTEX_N_IN; k++) {
        if (op.in[k] >= 0 && !is_end && !reduces) {
            enum vertex_place place = list->op[op.in[k]].place;
            op.place = place > op.place ? place : op.place;
        }
    }
    op.place = is_end ? VERTEX_PLACE_EDGE : reduces ? VERTEX_PLACE_NODE : op.place;
    op.at = trace->tree->node[node].at;
    enum status status = check_width(trace, node, &op);
    if (status == STATUS_OK && trace->facts->of_pairs) {
        status = check_pairs(trace, node, op.kind);
    }
    if (status != STATUS_OK) {
        return status;
    }
    *out = vertex_op_add(list, &trace->same, &op);
    return *out < trace->n_op_most
               ? STATUS_OK
               : TRACE_FAIL(trace, node, "the layer has more than %d operations", trace->n_op_most);
}

enum status trace_leaf(struct trace *trace, int32_t node, enum vertex_op_kind kind, enum vertex_place place,
                       int64_t columns, double number, int32_t *out)
{
    const struct vertex_op op = {.kind = kind,
                                 .place = place,
                                 .shape = shape_make(0, columns),
                                 .in = {-1, -1, -1},
                                 .number = {number},
                                 .relation = -1};
    return trace_op(trace, node, op, out);
}

enum status trace_unary(struct trace *trace, int32_t node, enum vertex_op_kind kind, int32_t in,
                        struct vertex_shape shape, int32_t *out)
{
    return trace_op(trace, node, (struct vertex_op){.kind = kind, .shape = shape, .in = {in, -1, -1}, .relation = -1},
                    out);
}

/* Operand k of a node as the text has it: of a sign, or an argument of a function. */
static void quote_operand(const struct trace *trace, int32_t node, int k, char out[VERTEX_QUOTE_BYTES])
{
    const struct vertex_node *nodes = trace->tree->node, *of = &nodes[node];
    int32_t at = k == 0 ? of->a : of->b;
    if (of->kind == VERTEX_NODE_CALL) {
        at = k == 0 || of->b < 0 ? of->b : nodes[of->b].next;
        at = at >= 0 && nodes[at].kind == VERTEX_NODE_KEYWORD ? nodes[at].a : at;
    }
    trace_quote(trace, at >= 0 ? at : node, out);
}

static enum status places_differ(struct trace *trace, int32_t node, int32_t left)
{
    int of_node = trace->out.op[left].place == VERTEX_PLACE_NODE ? 0 : 1;
    char row[VERTEX_QUOTE_BYTES], edge[VERTEX_QUOTE_BYTES];
    quote_operand(trace, node, of_node, row);
    quote_operand(trace, node, 1 - of_node, edge);
    bool is_field = strncmp(row, "v.", 2) == 0 && strcspn(row, " ()[]+-*/@,") == strlen(row);
    const char *name = is_field ? row + 2 : "NAME";
    return TRACE_FAIL(trace, node, "%s belongs to nodes and %s to edges: %swrite e.dst.%s or e.src.%s", row, edge,
                      is_field ? "" : "assign it to v.NAME, and ", name, name);
}

/* Do the places of two operands go together? */
static enum status check_places(struct trace *trace, int32_t node, int32_t left, int32_t right)
{
    enum vertex_place a = trace->out.op[left].place, b = trace->out.op[right].place;
    bool mixed = a != b && a != VERTEX_PLACE_WEIGHT && b != VERTEX_PLACE_WEIGHT;
    return mixed ? places_differ(trace, node, left) : STATUS_OK;
}

enum status trace_binary(struct trace *trace, int32_t node, enum vertex_op_kind kind, int32_t left, int32_t right,
                         int32_t *out)
{
    static const char *const texts[] = {
        [VERTEX_OP_ADD] = "+",    [VERTEX_OP_SUBTRACT] = "-",      [VERTEX_OP_MULTIPLY] = "*",
        [VERTEX_OP_DIVIDE] = "/", [VERTEX_OP_MINIMUM] = "minimum", [VERTEX_OP_MAXIMUM] = "maximum",
        [VERTEX_OP_DOT] = "dot"};
    const struct vertex_op *a = &trace->out.op[left], *b = &trace->out.op[right];
    struct vertex_op op = {.kind = kind, .in = {left, right, -1}, .relation = -1};
    enum status status = check_places(trace, node, left, right);
    if (status != STATUS_OK) {
        return status;
    }
    bool joined = shape_join(&a->shape, &b->shape, &op.shape);
    if (joined && op.shape.n_dim == 3 && (a->place != VERTEX_PLACE_WEIGHT || b->place != VERTEX_PLACE_WEIGHT)) {
        joined = op.shape.dim[0] == 1; /* a weight of one row's heads */
        op.shape = shape_make(op.shape.dim[1], op.shape.dim[2]);
    }
    if (!joined) {
        char x[VERTEX_QUOTE_BYTES], y[VERTEX_QUOTE_BYTES], x_shape[SHAPE_TEXT_BYTES], y_shape[SHAPE_TEXT_BYTES];
        quote_operand(trace, node, 0, x);
        quote_operand(trace, node, 1, y);
        shape_text(&a->shape, a->place != VERTEX_PLACE_WEIGHT || a->shape.n_dim == 1, x_shape);
        shape_text(&b->shape, b->place != VERTEX_PLACE_WEIGHT && (b->shape.n_dim > 1 || a->shape.n_dim > 1), y_shape);
        return TRACE_FAIL(trace, node,
                          "%s has %s and %s has %s: %s takes equal columns, or one number for each head or row", x,
                          x_shape, y, y_shape, texts[kind]);
    }
    if (kind == VERTEX_OP_DOT) {
        op.shape = shape_make(shape_heads(&op.shape), 1);
    }
    return trace_op(trace, node, op, out);
}

/* --- weights --- */

static bool shape_equal(const struct vertex_shape *a, const struct vertex_shape *b)
{
    for (int d = 0; d < a->n_dim && a->n_dim == b->n_dim; d++) {
        if (a->dim[d] != b->dim[d] && a->dim[d] != VERTEX_UNKNOWN && b->dim[d] != VERTEX_UNKNOWN) {
            return false;
        }
    }
    return a->n_dim == b->n_dim;
}

/* A name means one weight: its second use is the first one's. */
enum status trace_weight(struct trace *trace, int32_t node, const struct vertex_weight *weight, int32_t *out)
{
    struct vertex_trace *list = &trace->out;
    struct vertex_op op = {.kind = VERTEX_OP_PARAMETER, .shape = weight->shape, .in = {-1, -1, -1}, .relation = -1};
    enum status status = trace_charge(trace, node, list->n_weight / 32);
    for (int32_t w = 0; w < list->n_weight && status == STATUS_OK; w++) {
        const struct vertex_weight *first = &list->weight[w];
        if (strcmp(first->name, weight->name) != 0) {
            continue;
        }
        if (!shape_equal(&first->shape, &weight->shape)) {
            char now[SHAPE_TEXT_BYTES], then[SHAPE_TEXT_BYTES];
            shape_text(&op.shape, false, now);
            shape_text(&first->shape, false, then);
            return TRACE_FAIL(trace, node, "param \"%s\" has shape %s on line %d and %s here", weight->name, then,
                              vertex_line(&trace->tree->source, first->at.begin), now);
        }
        op.weight = w;
        return trace_op(trace, node, op, out);
    }
    if (status != STATUS_OK) {
        return status;
    }
    op.weight = list->n_weight;
    list->weight = memory_list_grow(list->weight, list->n_weight, sizeof *list->weight);
    list->weight[list->n_weight++] = *weight;
    list->weight[op.weight].at = trace->tree->node[node].at;
    return trace_op(trace, node, op, out);
}
