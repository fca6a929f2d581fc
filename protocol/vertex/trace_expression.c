/* Expressions: statics are computed, the rest becomes operations. */
#include "protocol/vertex/trace_state.h"

#include <math.h>
#include <string.h>

static bool is_static(const struct value *value)
{
    return value->kind == VALUE_NUMBER || value->kind == VALUE_BOOL || value->kind == VALUE_TEXT;
}

void trace_quote(const struct trace *trace, int32_t node, char out[VERTEX_QUOTE_BYTES])
{
    vertex_quote(&trace->tree->source, trace_node(trace, node)->at, out);
}

void trace_name(const struct trace *trace, int32_t name, char out[VERTEX_NAME_BYTES])
{
    const struct vertex_span at = trace->tree->name[name];
    int32_t n = at.end - at.begin;
    snprintf(out, VERTEX_NAME_BYTES, "%.*s%s", n < VERTEX_NAME_BYTES - 4 ? (int)n : VERTEX_NAME_BYTES - 4,
             trace->tree->source.text + at.begin, n < VERTEX_NAME_BYTES - 4 ? "" : "…");
}

enum status trace_unknown(const struct trace *trace, int32_t node, const char *what, const char *name,
                          const struct nearest *nearest)
{
    const char *best = nearest->best;
    return TRACE_FAIL(trace, node, "no %s %s%s%s%s", what, name, best != NULL ? "; did you mean " : "",
                      best != NULL ? best : "", best != NULL ? "?" : "");
}

/* --- what a value has to be --- */

const char *trace_value_text(const struct trace *trace, const struct value *value)
{
    static const char *const places[] = {"a weight", "one of nodes", "one of edges"};
    static const char *const texts[] = {[VALUE_NONE] = "nothing",
                                        [VALUE_NUMBER] = "a number",
                                        [VALUE_BOOL] = "True or False",
                                        [VALUE_TEXT] = "a text",
                                        [VALUE_INIT] = "how a weight is drawn",
                                        [VALUE_NODE] = "a node",
                                        [VALUE_EDGE] = "an edge",
                                        [VALUE_SOURCE] = "the node at an edge's end",
                                        [VALUE_TARGET] = "the node at an edge's end",
                                        [VALUE_RELATION] = "the relation of an edge",
                                        [VALUE_TYPE] = "the type of a node",
                                        [VALUE_GRAPH] = "the graph"};
    return value->kind == VALUE_OP ? places[trace->out.op[value->op].place] : texts[value->kind];
}

enum status trace_refuse(struct trace *trace, int32_t node, const struct value *value, const char *what)
{
    char quoted[VERTEX_QUOTE_BYTES];
    trace_quote(trace, node, quoted);
    return TRACE_FAIL(trace, node, "%s is %s; expected %s", quoted, trace_value_text(trace, value), what);
}

enum status trace_fail_quoted(const struct trace *trace, int32_t node, int32_t of, const char *what)
{
    char quoted[VERTEX_QUOTE_BYTES];
    trace_quote(trace, of, quoted);
    return TRACE_FAIL(trace, node, "%s %s", quoted, what);
}

enum status trace_number(struct trace *trace, int32_t node, const char *what, double *out)
{
    struct value value;
    enum status status = trace_value(trace, node, &value);
    if (status == STATUS_OK && value.kind != VALUE_NUMBER) {
        return trace_refuse(trace, node, &value, what);
    }
    *out = value.number;
    return status;
}

enum status trace_whole(struct trace *trace, int32_t node, const char *what, int64_t least, int64_t most,
                        int64_t *out)
{
    double number = 0.0;
    enum status status = trace_number(trace, node, what, &number);
    *out = VERTEX_UNKNOWN;
    if (status != STATUS_OK || isnan(number)) {
        return status;
    }
    if (number != floor(number) || number < (double)least || number > (double)most) {
        char quoted[VERTEX_QUOTE_BYTES], found[32];
        trace_quote(trace, node, quoted);
        snprintf(found, sizeof found, "%.10g", number);
        bool is_literal = strcmp(found, quoted) == 0;
        return TRACE_FAIL(trace, node, "%s%s%s; expected %s, a whole number from %lld to %lld", quoted,
                          is_literal ? "" : " is ", is_literal ? "" : found, what, (long long)least, (long long)most);
    }
    *out = (int64_t)number;
    return STATUS_OK;
}

/* A condition, or an operand of a comparison, that only the data has. */
static enum status trace_if_needs(struct trace *trace, int32_t node, const struct value *value)
{
    char quoted[VERTEX_QUOTE_BYTES];
    bool is_row = value->kind == VALUE_OP && trace->out.op[value->op].place == VERTEX_PLACE_NODE;
    trace_quote(trace, node, quoted);
    return TRACE_FAIL(
        trace, node,
        "if needs a value that is known before training; %s is %s. maximum, clamp and products with 0 or 1 "
        "do this %s",
        quoted, trace_value_text(trace, value), is_row || value->kind == VALUE_TYPE ? "row by row" : "edge by edge");
}

enum status trace_truth(struct trace *trace, int32_t node, double *out)
{
    struct value value;
    enum status status = trace_value(trace, node, &value);
    if (status != STATUS_OK) {
        return status;
    }
    if (value.kind == VALUE_OP || value.kind == VALUE_RELATION || value.kind == VALUE_TYPE) {
        return trace_if_needs(trace, node, &value);
    }
    if (value.kind != VALUE_NUMBER && value.kind != VALUE_BOOL) {
        return trace_refuse(trace, node, &value, "True, False or a number");
    }
    *out = isnan(value.number) ? NAN : value.number != 0.0;
    return STATUS_OK;
}

enum status trace_text(struct trace *trace, int32_t node, const char *what, const char **out)
{
    struct value value;
    enum status status = trace_value(trace, node, &value);
    if (status == STATUS_OK && value.kind != VALUE_TEXT) {
        return trace_refuse(trace, node, &value, what);
    }
    *out = value.text;
    return status;
}

enum status trace_row_make(struct trace *trace, int32_t node, const struct value *value, int32_t *out)
{
    if (value->kind == VALUE_NUMBER) {
        return trace_leaf(trace, node, VERTEX_OP_NUMBER, VERTEX_PLACE_WEIGHT, 1, value->number, out);
    }
    if (value->kind != VALUE_OP) {
        return trace_refuse(trace, node, value, "rows, a weight or a number");
    }
    *out = value->op;
    return STATUS_OK;
}

enum status trace_row(struct trace *trace, int32_t node, int32_t *out)
{
    struct value value;
    enum status status = trace_value(trace, node, &value);
    if (status != STATUS_OK) {
        return status;
    }
    return trace_row_make(trace, node, &value, out);
}

/* --- operands --- */

/* Arithmetic of numbers; a comparison's result is a bool. */
static double compute(enum vertex_sign sign, double a, double b)
{
    switch (sign) {
    case VERTEX_SIGN_PLUS:
        return a + b;
    case VERTEX_SIGN_MINUS:
        return a - b;
    case VERTEX_SIGN_TIMES:
        return a * b;
    case VERTEX_SIGN_OVER:
        return a / b;
    case VERTEX_SIGN_POWER:
        return pow(a, b);
    case VERTEX_SIGN_EQUAL:
        return a == b;
    case VERTEX_SIGN_UNEQUAL:
        return a != b;
    case VERTEX_SIGN_LESS:
        return a < b;
    case VERTEX_SIGN_LESS_EQUAL:
        return a <= b;
    case VERTEX_SIGN_GREATER:
        return a > b;
    default:
        return a >= b;
    }
}

static bool is_comparison(enum vertex_sign sign)
{
    return sign >= VERTEX_SIGN_EQUAL && sign != VERTEX_SIGN_PLUS && sign != VERTEX_SIGN_MINUS &&
           sign != VERTEX_SIGN_TIMES && sign != VERTEX_SIGN_OVER && sign != VERTEX_SIGN_AT;
}

static enum status static_binary(struct trace *trace, int32_t node, const struct value *a, const struct value *b,
                                 struct value *out)
{
    enum vertex_sign sign = trace_node(trace, node)->sign;
    bool texts = a->kind == VALUE_TEXT && b->kind == VALUE_TEXT;
    bool is_equality = sign == VERTEX_SIGN_EQUAL || sign == VERTEX_SIGN_UNEQUAL;
    if (a->kind == VALUE_TEXT || b->kind == VALUE_TEXT) {
        if (!texts || !is_equality) {
            return TRACE_FAIL(trace, node, "a text goes with == and != and another text alone");
        }
        bool equal = strcmp(a->text, b->text) == 0;
        *out = (struct value){.kind = VALUE_BOOL, .number = equal == (sign == VERTEX_SIGN_EQUAL)};
        return STATUS_OK;
    }
    bool unknown = isnan(a->number) || isnan(b->number);
    double result = unknown ? NAN : compute(sign, a->number, b->number);
    if (!unknown && !isfinite(result)) {
        return trace_fail_quoted(trace, node, node, "is not a finite number");
    }
    *out = (struct value){.kind = is_comparison(sign) ? VALUE_BOOL : VALUE_NUMBER, .number = result};
    return STATUS_OK;
}

/* x @ W, for rows of heads or without, or W @ V of weights */
static enum status multiply(struct trace *trace, int32_t node, int32_t left, int32_t right, int32_t *out)
{
    const struct vertex_op *a = &trace->out.op[left], *b = &trace->out.op[right];
    bool weights = a->place == VERTEX_PLACE_WEIGHT && b->place == VERTEX_PLACE_WEIGHT;
    const struct vertex_shape *w = &b->shape;
    int64_t inner = shape_columns(&a->shape), rows = weights ? w->dim[0] : w->n_dim > 1 ? w->dim[w->n_dim - 2] : 0;
    struct vertex_op op = {.kind = VERTEX_OP_PRODUCT, .in = {left, right, -1}, .shape = a->shape, .relation = -1};
    bool heads = w->n_dim == 3 && a->shape.n_dim == 2;
    bool fits = b->place == VERTEX_PLACE_WEIGHT &&
                (weights ? a->shape.n_dim == 2 && w->n_dim >= 2 : w->n_dim == 2 || heads);
    if (fits && heads && !weights) {
        fits = w->dim[0] == a->shape.dim[0] || w->dim[0] == VERTEX_UNKNOWN || a->shape.dim[0] == VERTEX_UNKNOWN;
    }
    if (!fits || (inner != rows && inner != VERTEX_UNKNOWN && rows != VERTEX_UNKNOWN)) {
        char x[SHAPE_TEXT_BYTES], y[SHAPE_TEXT_BYTES];
        shape_text(&a->shape, a->place != VERTEX_PLACE_WEIGHT, x);
        shape_text(w, b->place != VERTEX_PLACE_WEIGHT, y);
        return TRACE_FAIL(trace, node,
                          "@ multiplies %s by %s; expected rows on its left, and on its right a weight with as many "
                          "rows as they have columns",
                          x, y);
    }
    if (weights) {
        op.shape = *w;
        op.shape.dim[0] = a->shape.dim[0];
    } else {
        op.shape.dim[op.shape.n_dim - 1] = shape_columns(w);
    }
    return trace_op(trace, node, op, out);
}

/* The operand that 0 + x, x + 0, x - 0, 1 · x, x · 1 and x / 1 leave as it is; NULL: another operation. */
static const struct value *neutral(enum vertex_sign sign, const struct value *a, const struct value *b)
{
    bool sum = sign == VERTEX_SIGN_PLUS || sign == VERTEX_SIGN_MINUS;
    bool product = sign == VERTEX_SIGN_TIMES || sign == VERTEX_SIGN_OVER;
    double nothing = sum ? 0.0 : 1.0;
    if (!sum && !product) {
        return NULL;
    }
    if (b->kind == VALUE_NUMBER && b->number == nothing) {
        return a;
    }
    bool turns = sign == VERTEX_SIGN_MINUS || sign == VERTEX_SIGN_OVER;
    return a->kind == VALUE_NUMBER && a->number == nothing && !turns ? b : NULL;
}

static enum status binary(struct trace *trace, int32_t node, struct value *out)
{
    static const enum vertex_op_kind kinds[VERTEX_SIGN_N] = {[VERTEX_SIGN_PLUS] = VERTEX_OP_ADD,
                                                             [VERTEX_SIGN_MINUS] = VERTEX_OP_SUBTRACT,
                                                             [VERTEX_SIGN_TIMES] = VERTEX_OP_MULTIPLY,
                                                             [VERTEX_SIGN_OVER] = VERTEX_OP_DIVIDE};
    const struct vertex_node *of = trace_node(trace, node);
    struct value a, b;
    int32_t left = -1, right = -1;
    enum status status = trace_value(trace, of->a, &a);
    if (status == STATUS_OK) {
        status = trace_value(trace, of->b, &b);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (is_static(&a) && is_static(&b) && of->sign != VERTEX_SIGN_AT) {
        return static_binary(trace, node, &a, &b, out);
    }
    if (is_comparison(of->sign)) {
        return is_static(&a) ? trace_if_needs(trace, of->b, &b) : trace_if_needs(trace, of->a, &a);
    }
    const struct value *same = neutral(of->sign, &a, &b);
    if (same != NULL && same->kind == VALUE_OP) {
        *out = *same;
        return STATUS_OK;
    }
    *out = (struct value){.kind = VALUE_OP};
    status = trace_row_make(trace, of->a, &a, &left);
    if (status == STATUS_OK && of->sign == VERTEX_SIGN_POWER) {
        if (b.kind != VALUE_NUMBER) {
            return trace_refuse(trace, of->b, &b, "an exponent that is known before training");
        }
        struct vertex_op op = {.kind = VERTEX_OP_POWER,
                               .shape = trace->out.op[left].shape,
                               .in = {left, -1, -1},
                               .number = {b.number},
                               .relation = -1};
        return trace_op(trace, node, op, &out->op);
    }
    if (status == STATUS_OK) {
        status = trace_row_make(trace, of->b, &b, &right);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return of->sign == VERTEX_SIGN_AT ? multiply(trace, node, left, right, &out->op)
                                      : trace_binary(trace, node, kinds[of->sign], left, right, &out->op);
}

/* -x: of a row, x times -1 */
static enum status negative(struct trace *trace, int32_t node, struct value *out)
{
    struct value value;
    int32_t of = trace_node(trace, node)->a, row = -1, minus = -1;
    enum status status = trace_value(trace, of, &value);
    if (status == STATUS_OK && value.kind == VALUE_NUMBER) {
        *out = (struct value){.kind = VALUE_NUMBER, .number = -value.number};
        return STATUS_OK;
    }
    const struct value one = {.kind = VALUE_NUMBER, .number = -1.0};
    if (status == STATUS_OK) {
        status = trace_row_make(trace, of, &value, &row);
    }
    if (status == STATUS_OK) {
        status = trace_row_make(trace, of, &one, &minus);
    }
    *out = (struct value){.kind = VALUE_OP};
    if (status != STATUS_OK) {
        return status;
    }
    return trace_binary(trace, node, VERTEX_OP_MULTIPLY, row, minus, &out->op);
}

/* not, and, or: what stands behind a deciding operand is not traced, as in Python. */
static enum status logic(struct trace *trace, int32_t node, struct value *out)
{
    const struct vertex_node *of = trace_node(trace, node);
    double left = 0.0, right = 0.0;
    enum status status = trace_truth(trace, of->a, &left);
    bool decides = of->kind == VERTEX_NODE_AND ? left == 0.0 : of->kind == VERTEX_NODE_OR ? left == 1.0 : true;
    if (status == STATUS_OK && !decides) {
        status = trace_truth(trace, of->b, &right);
        bool is_open = isnan(left) && right != (of->kind == VERTEX_NODE_OR); /* the unknown one decides */
        left = is_open ? NAN : right;
    } else if (of->kind == VERTEX_NODE_NOT) {
        left = isnan(left) ? NAN : left == 0.0;
    }
    *out = (struct value){.kind = VALUE_BOOL, .number = left};
    return status;
}

/* a if b else c */
static enum status choice(struct trace *trace, int32_t node, struct value *out)
{
    const struct vertex_node *of = trace_node(trace, node);
    struct value first;
    double which = 0.0;
    enum status status = trace_truth(trace, of->b, &which);
    if (status != STATUS_OK || !isnan(which)) {
        if (status != STATUS_OK) {
            return status;
        }
        return trace_value(trace, which != 0.0 ? of->a : of->c, out);
    }
    status = trace_value(trace, of->a, &first); /* either: the result is known only where it is a number */
    if (status == STATUS_OK) {
        status = trace_value(trace, of->c, out);
    }
    if (status != STATUS_OK) {
        return status;
    }
    out->number = first.number == out->number ? first.number : NAN;
    return first.kind == VALUE_NUMBER && out->kind == VALUE_NUMBER ? STATUS_OK : TRACE_STOPPED;
}

/* --- all of them --- */

static enum status call_value(struct trace *trace, int32_t node, struct value *out)
{
    const struct vertex_node *callee = trace_node(trace, trace_node(trace, node)->a);
    if (callee->kind == VERTEX_NODE_FIELD) {
        return trace_method(trace, node, out);
    }
    if (callee->kind != VERTEX_NODE_NAME || callee->slot >= 0) {
        char quoted[VERTEX_QUOTE_BYTES], instead[TRACE_FOREIGN_BYTES] = "", name[VERTEX_NAME_BYTES];
        trace_quote(trace, trace_node(trace, node)->a, quoted);
        if (callee->kind == VERTEX_NODE_CALL) { /* a module's class: nn.Linear(16, 8)(x) */
            const struct vertex_node *class = trace_node(trace, callee->a);
            if (class->kind == VERTEX_NODE_FIELD || class->kind == VERTEX_NODE_NAME) {
                trace_name(trace, class->name, name);
                (void)trace_foreign(name, instead);
            }
        }
        return TRACE_FAIL(trace, node, "%s is not a function%s", quoted, instead);
    }
    int32_t function = trace->function_of[callee->name];
    return function >= 0 ? trace_call(trace, node, function, out) : trace_word(trace, node, out);
}

static enum status value_of(struct trace *trace, int32_t node, struct value *out)
{
    const struct vertex_node *of = trace_node(trace, node);
    switch (of->kind) {
    case VERTEX_NODE_NUMBER:
        *out = (struct value){.kind = VALUE_NUMBER, .number = of->number};
        return STATUS_OK;
    case VERTEX_NODE_BOOL:
        *out = (struct value){.kind = VALUE_BOOL, .number = of->number};
        return STATUS_OK;
    case VERTEX_NODE_TEXT:
        *out = (struct value){.kind = VALUE_TEXT};
        return trace_keep(trace, node, trace->tree->source.text + of->at.begin + 1,
                          (size_t)(of->at.end - of->at.begin - 2), &out->text);
    case VERTEX_NODE_NAME:
        return trace_name_value(trace, node, out);
    case VERTEX_NODE_FIELD:
        return trace_field(trace, node, out);
    case VERTEX_NODE_INDEX:
        return trace_slice(trace, node, out);
    case VERTEX_NODE_COLUMNS:
        return trace_columns(trace, node, out);
    case VERTEX_NODE_CALL:
        return call_value(trace, node, out);
    case VERTEX_NODE_NEGATIVE:
        return negative(trace, node, out);
    case VERTEX_NODE_BINARY:
        return binary(trace, node, out);
    case VERTEX_NODE_CHOICE:
        return choice(trace, node, out);
    case VERTEX_NODE_REDUCE:
        return trace_reduce(trace, node, out);
    default:
        return logic(trace, node, out);
    }
}

enum status trace_value(struct trace *trace, int32_t node, struct value *out)
{
    enum status status = trace_charge(trace, node, 1);
    if (status != STATUS_OK) {
        return status;
    }
    if (++trace->depth > TRACE_DEPTH_MOST) {
        return TRACE_FAIL(trace, node, "expressions and calls are nested more than %d deep", TRACE_DEPTH_MOST);
    }
    status = value_of(trace, node, out);
    trace->depth--;
    return status;
}
