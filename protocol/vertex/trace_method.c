/* The methods of rows, which give them heads and join these. */
#include "protocol/vertex/trace_state.h"

/* x.heads(h): columns become h heads of as many columns each */
static enum status method_heads(struct trace *trace, int32_t node, int32_t row, int32_t argument, int32_t *out)
{
    const struct vertex_shape x = trace->out.op[row].shape;
    int64_t heads = 0, columns = shape_columns(&x);
    enum status status = trace_whole(trace, argument, "the number of heads", 1, VERTEX_WIDTH_MOST, &heads);
    if (status != STATUS_OK) {
        return status;
    }
    bool known = heads != VERTEX_UNKNOWN && columns != VERTEX_UNKNOWN;
    if (x.n_dim > 1 || (known && columns % heads != 0)) {
        char shape[SHAPE_TEXT_BYTES];
        shape_text(&x, true, shape);
        return TRACE_FAIL(trace, node, "%s do not become %lld heads", shape, (long long)heads);
    }
    return trace_unary(trace, node, VERTEX_OP_HEADS, row, shape_make(heads, known ? columns / heads : VERTEX_UNKNOWN),
                       out);
}

enum status trace_method(struct trace *trace, int32_t node, struct value *out)
{
    static const char *const names[] = {"heads", "flat", "mean_heads", "sum_heads"};
    const struct vertex_node *callee = trace_node(trace, trace_node(trace, node)->a);
    char name[VERTEX_NAME_BYTES];
    int32_t row = -1, argument = trace_node(trace, node)->b;
    trace_name(trace, callee->name, name);
    int method = name_find(names, 4, name);
    if (method < 0) {
        char instead[TRACE_FOREIGN_BYTES];
        bool is_known = trace_foreign(name, instead);
        return TRACE_FAIL(trace, trace_node(trace, node)->a, ".%s(…) is not part of programs%s", name,
                          is_known ? instead : "; expected .heads(n), .flat(), .mean_heads() or .sum_heads()");
    }
    enum status status = trace_row(trace, callee->a, &row);
    bool wants = method == 0, has = argument >= 0;
    if (status == STATUS_OK && (wants != has || (has && trace_node(trace, argument)->next >= 0))) {
        return TRACE_FAIL(trace, node, "%s takes %d argument%s", name, wants, wants ? "" : "s");
    }
    if (status != STATUS_OK) {
        return status;
    }
    const struct vertex_op *x = &trace->out.op[row];
    *out = (struct value){.kind = VALUE_OP};
    if (x->place == VERTEX_PLACE_WEIGHT || (method > 0 && x->shape.n_dim != 2)) {
        return trace_fail_quoted(trace, node, callee->a, "has no heads; .heads(n) gives a row some");
    }
    int64_t size = shape_size(&x->shape), columns = shape_columns(&x->shape);
    switch (method) {
    case 0:
        return method_heads(trace, node, row, argument, &out->op);
    case 1:
        return trace_unary(trace, node, VERTEX_OP_FLAT, row, shape_make(0, size), &out->op);
    case 2:
        return trace_unary(trace, node, VERTEX_OP_MEAN_HEADS, row, shape_make(0, columns), &out->op);
    default:
        return trace_unary(trace, node, VERTEX_OP_SUM_HEADS, row, shape_make(0, columns), &out->op);
    }
}
