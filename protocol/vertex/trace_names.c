/* What a name stands for, the fields of nodes, edges and the graph, and slices. */
#include "protocol/vertex/trace_state.h"

#include <math.h>
#include <string.h>

/* Is it a variable of the function that is traced? */
static bool is_variable(const struct trace *trace, int32_t name)
{
    const struct vertex_tree *tree = trace->tree;
    for (int32_t p = trace->frame != NULL ? trace->frame->function->parameters : -1; p >= 0; p = tree->node[p].next) {
        if (tree->node[p].name == name) {
            return true;
        }
    }
    return false;
}

enum status trace_name_value(struct trace *trace, int32_t node, struct value *out)
{
    const struct vertex_node *of = trace_node(trace, node);
    char name[VERTEX_NAME_BYTES];
    trace_name(trace, of->name, name);
    if (of->slot >= 0 && trace->frame != NULL) {
        *out = trace->frame->slot[of->slot];
        if (out->kind == VALUE_NONE && strcmp(name, "e") == 0) {
            return TRACE_FAIL(trace, node,
                              "e is known within sum(… for e in v.in_edges) and its like alone; a function "
                              "may take it, as def message(e): …");
        }
        return out->kind != VALUE_NONE ? STATUS_OK : TRACE_FAIL(trace, node, "%s is not assigned yet", name);
    }
    if (trace->global[of->name].kind != VALUE_NONE) {
        *out = trace->global[of->name];
        return STATUS_OK;
    }
    if (strcmp(name, "graph") == 0) {
        *out = (struct value){.kind = VALUE_GRAPH};
        return STATUS_OK;
    }
    if (trace_init_find(name, out)) {
        return STATUS_OK;
    }
    if (trace->function_of[of->name] >= 0 || trace_word_known(name)) {
        return TRACE_FAIL(trace, node, "%s is a function; expected %s(…)", name, name);
    }
    if (strcmp(name, "e") == 0) {
        return TRACE_FAIL(trace, node, "there is no edge here; expected e inside of sum(… for e in v.in_edges)");
    }
    struct nearest nearest;
    nearest_init(name, &nearest);
    nearest_offer(&nearest, "graph");
    for (int32_t i = 0; i < trace->tree->n_name; i++) {
        if (trace->global[i].kind != VALUE_NONE || is_variable(trace, i)) {
            nearest_offer(&nearest, trace_keep_name(trace, i));
        }
    }
    return trace_unknown(trace, node, "value", name, &nearest);
}

/* v.NAME, also as it stands at an edge's end */
static enum status field_of_node(struct trace *trace, int32_t node, const char *name, const char *owner, int32_t *out)
{
    int32_t number = trace_node(trace, node)->name;
    if (strcmp(name, "x") == 0) {
        return trace_leaf(trace, node, VERTEX_OP_INPUT, VERTEX_PLACE_NODE, trace->facts->n_in, 0, out);
    }
    if (strcmp(name, "degree") == 0) {
        return trace_leaf(trace, node, VERTEX_OP_DEGREE, VERTEX_PLACE_NODE, 1, 0, out);
    }
    if (trace->field[number] >= 0) {
        *out = trace->field[number];
        return STATUS_OK;
    }
    int line = vertex_assigned(trace->tree, VERTEX_NODE_FIELD, number);
    if (line > 0) {
        return TRACE_FAIL(trace, node, "v.%s is not there yet, it is assigned on line %d", name, line);
    }
    line = vertex_assigned(trace->tree, VERTEX_NODE_NAME, number);
    if (line > 0 && line < vertex_line(&trace->tree->source, trace_node(trace, node)->at.begin)) {
        return TRACE_FAIL(trace, node,
                          "%s has no %s: line %d assigns a name of the function; v.%s = … makes a value of nodes",
                          owner, name, line, name);
    }
    struct nearest nearest;
    nearest_init(name, &nearest);
    nearest_offer(&nearest, "degree");
    for (int32_t i = 0; i < trace->tree->n_name; i++) {
        if (trace->field[i] >= 0) {
            nearest_offer(&nearest, trace_keep_name(trace, i));
        }
    }
    char instead[TRACE_FOREIGN_BYTES];
    if (nearest.best == NULL && trace_foreign(name, instead)) {
        return TRACE_FAIL(trace, node, "%s has no %s%s", owner, name, instead);
    }
    return TRACE_FAIL(trace, node, "%s has no %s%s%s%s", owner, name, nearest.best != NULL ? "; did you mean " : "",
                      nearest.best != NULL ? nearest.best : "", nearest.best != NULL ? "?" : "");
}

static enum status field_of_edge(struct trace *trace, int32_t node, const char *name, struct value *out)
{
    static const char *const names[] = {"src", "dst", "weight", "norm", "feature", "relation"};
    const struct vertex_facts *facts = trace->facts;
    *out = (struct value){.kind = VALUE_OP};
    switch (name_find(names, 6, name)) {
    case 0:
        out->kind = VALUE_SOURCE;
        return STATUS_OK;
    case 1:
        out->kind = VALUE_TARGET;
        return STATUS_OK;
    case 2:
        return trace_leaf(trace, node, VERTEX_OP_EDGE_WEIGHT, VERTEX_PLACE_EDGE, 1, 0, &out->op);
    case 3:
        return trace_leaf(trace, node, VERTEX_OP_EDGE_NORM, VERTEX_PLACE_EDGE, 1, 0, &out->op);
    case 4:
        if (facts->n_edge_feature == 0) {
            (void)TRACE_FAIL(trace, node, "reads e.feature, and the data set has no edge_attr.npy");
            return status_fail_lines(STATUS_DATA, status_reason());
        }
        return trace_leaf(trace, node, VERTEX_OP_EDGE_FEATURE, VERTEX_PLACE_EDGE, facts->n_edge_feature, 0, &out->op);
    case 5:
        out->kind = VALUE_RELATION;
        return STATUS_OK;
    default:
        break;
    }
    char instead[TRACE_FOREIGN_BYTES];
    if (trace_foreign(name, instead)) {
        return TRACE_FAIL(trace, node, "e has no %s%s", name, instead);
    }
    struct nearest nearest;
    nearest_init(name, &nearest);
    for (int i = 0; i < 6; i++) {
        nearest_offer(&nearest, names[i]);
    }
    return TRACE_FAIL(trace, node, "e has no %s; expected one of src, dst, weight, norm, feature, relation%s%s%s",
                      name, nearest.best != NULL ? ": did you mean " : "", nearest.best != NULL ? nearest.best : "",
                      nearest.best != NULL ? "?" : "");
}

static enum status field_of_graph(struct trace *trace, int32_t node, const char *name, struct value *out)
{
    const struct vertex_facts *facts = trace->facts;
    const struct {
        const char *name;
        double number;
    } rows[] = {{"nodes", (double)facts->n_node},         {"edges", (double)facts->n_edge},
                {"relations", (double)facts->n_relation}, {"types", (double)facts->n_type},
                {"classes", (double)facts->n_class},      {"edge_features", (double)facts->n_edge_feature},
                {"mean_degree", facts->mean_degree},      {"mean_log_degree", facts->mean_log_degree}};
    struct nearest nearest;
    nearest_init(name, &nearest);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            *out = (struct value){.kind = VALUE_NUMBER, .number = rows[i].number < 0.0 ? NAN : rows[i].number};
            return STATUS_OK;
        }
        nearest_offer(&nearest, rows[i].name);
    }
    return trace_unknown(trace, node, "number of the graph,", name, &nearest);
}

enum status trace_field(struct trace *trace, int32_t node, struct value *out)
{
    const struct vertex_node *of = trace_node(trace, node);
    struct value owner;
    char name[VERTEX_NAME_BYTES], quoted[VERTEX_QUOTE_BYTES];
    enum status status = trace_value(trace, of->a, &owner);
    if (status != STATUS_OK) {
        return status;
    }
    trace_name(trace, of->name, name);
    trace_quote(trace, of->a, quoted);
    bool source = owner.kind == VALUE_SOURCE;
    *out = (struct value){.kind = VALUE_OP};
    switch (owner.kind) {
    case VALUE_NODE:
        if (strcmp(name, "type") == 0) {
            out->kind = VALUE_TYPE;
            return STATUS_OK;
        }
        if (strcmp(name, "in_edges") == 0) {
            return TRACE_FAIL(trace, node,
                              "a loop runs over range(…); over edges there are sum(…), mean(…), max(…), "
                              "min(…), var(…) and std(…)");
        }
        return field_of_node(trace, node, name, quoted, &out->op);
    case VALUE_EDGE:
        return field_of_edge(trace, node, name, out);
    case VALUE_SOURCE:
    case VALUE_TARGET:
        if (strcmp(name, "src") == 0 || strcmp(name, "dst") == 0 || strcmp(name, "in_edges") == 0) {
            return TRACE_FAIL(trace, node, "a layer sees one hop; use two layers");
        }
        if (trace->facts->of_pairs && strcmp(name, "x") == 0) {
            return trace_leaf(trace, node, VERTEX_OP_INPUT, VERTEX_PLACE_NODE, trace->facts->n_in, !source, &out->op);
        }
        status = field_of_node(trace, node, name, quoted, &out->op);
        if (status != STATUS_OK) {
            return status;
        }
        return trace_unary(trace, node, source ? VERTEX_OP_SOURCE : VERTEX_OP_TARGET, out->op,
                           trace->out.op[out->op].shape, &out->op);
    case VALUE_GRAPH:
        return field_of_graph(trace, node, name, out);
    case VALUE_OP:
        if (strcmp(name, "width") == 0) {
            int64_t size = shape_size(&trace->out.op[owner.op].shape);
            *out = (struct value){.kind = VALUE_NUMBER, .number = size == VERTEX_UNKNOWN ? NAN : (double)size};
            return STATUS_OK;
        }
        break;
    default:
        break;
    }
    char instead[TRACE_FOREIGN_BYTES];
    (void)trace_foreign(name, instead);
    return TRACE_FAIL(trace, node, "%s has no %s%s", quoted, name, instead);
}

/* --- slices --- */

/* W[e.relation] of pairs: `op` is a slice of W, which has so many. */
static enum status relation_row(struct trace *trace, int32_t node, struct vertex_op op, int64_t n, int32_t *out)
{
    const int64_t n_relation = trace->facts->n_relation;
    if (trace->out.op[op.in[0]].kind != VERTEX_OP_PARAMETER || op.shape.n_dim != 1) {
        return TRACE_FAIL(trace, node,
                          "a relation chooses a row of a weight: expected param(name, graph.relations, "
                          "columns)[e.relation]");
    }
    if (n != VERTEX_UNKNOWN && n_relation != VERTEX_UNKNOWN && n != n_relation) {
        return TRACE_FAIL(trace, node, "the weight has %lld rows; expected one for each of the %lld relations",
                          (long long)n, (long long)n_relation);
    }
    op.kind = VERTEX_OP_RELATION_ROW;
    op.place = VERTEX_PLACE_NODE;
    return trace_op(trace, node, op, out);
}

/* W[number] */
enum status trace_slice(struct trace *trace, int32_t node, struct value *out)
{
    const struct vertex_node *of = trace_node(trace, node);
    int32_t weight = -1;
    struct value index;
    enum status status = trace_row(trace, of->a, &weight);
    if (status == STATUS_OK) {
        status = trace_value(trace, of->b, &index);
    }
    if (status != STATUS_OK) {
        return status;
    }
    struct vertex_op op = {.kind = VERTEX_OP_SLICE, .in = {weight, -1, -1}, .relation = -1};
    const struct vertex_shape shape = trace->out.op[weight].shape;
    if (trace->out.op[weight].place != VERTEX_PLACE_WEIGHT || shape.n_dim < 2) {
        return trace_fail_quoted(trace, node, of->a,
                                 "is not a weight of two dimensions or more; columns are x[:, a:b]");
    }
    op.shape.n_dim = shape.n_dim - 1;
    memcpy(op.shape.dim, shape.dim + 1, (size_t)op.shape.n_dim * sizeof *op.shape.dim);
    *out = (struct value){.kind = VALUE_OP};
    if (index.kind == VALUE_RELATION && trace->facts->of_pairs) {
        return relation_row(trace, node, op, shape.dim[0], &out->op);
    }
    if (index.kind == VALUE_RELATION) {
        char quoted[VERTEX_QUOTE_BYTES];
        trace_quote(trace, of->a, quoted);
        return TRACE_FAIL(
            trace, node,
            "an edge chooses no weight; write y = y + mean(e.src.z for e in v.in_edges if e.relation == "
            "r) @ %s[r] in a loop, for r in range(graph.relations)",
            quoted);
    }
    if (index.kind != VALUE_NUMBER) {
        return trace_refuse(trace, of->b, &index, "a number that is known before training");
    }
    int64_t most = shape.dim[0] == VERTEX_UNKNOWN ? INT32_MAX : shape.dim[0] - 1;
    if (!isnan(index.number) &&
        (index.number != floor(index.number) || index.number < 0.0 || index.number > (double)most)) {
        return TRACE_FAIL(trace, of->b, "index %g; expected a whole number from 0 to %lld", index.number,
                          (long long)most);
    }
    op.number[0] = isnan(index.number) ? 0.0 : index.number;
    return trace_op(trace, node, op, &out->op);
}

/* x[:, a:b] */
enum status trace_columns(struct trace *trace, int32_t node, struct value *out)
{
    const struct vertex_node *of = trace_node(trace, node);
    int32_t row = -1;
    int64_t from = 0, to = 0;
    enum status status = trace_row(trace, of->a, &row);
    if (status != STATUS_OK) {
        return status;
    }
    const struct vertex_op x = trace->out.op[row];
    int64_t width = shape_columns(&x.shape), most = width == VERTEX_UNKNOWN ? VERTEX_WIDTH_MOST : width;
    if (x.place == VERTEX_PLACE_WEIGHT) {
        return TRACE_FAIL(trace, node, "columns are cut of rows; the parts of a weight are W[0], W[1], …");
    }
    to = width;
    if (of->b >= 0) {
        status = trace_whole(trace, of->b, "the first column", 0, most, &from);
    }
    if (status == STATUS_OK && of->c >= 0) {
        status = trace_whole(trace, of->c, "the column behind the last", 0, most, &to);
    }
    if (status != STATUS_OK) {
        return status;
    }
    bool known = from != VERTEX_UNKNOWN && to != VERTEX_UNKNOWN;
    if (known && from >= to) {
        return TRACE_FAIL(trace, node, "columns %lld to %lld are no columns", (long long)from, (long long)to);
    }
    struct vertex_op op = {.kind = VERTEX_OP_COLUMNS,
                           .shape = shape_make(shape_heads(&x.shape), known ? to - from : VERTEX_UNKNOWN),
                           .in = {row, -1, -1},
                           .number = {(double)from, (double)to},
                           .relation = -1};
    *out = (struct value){.kind = VALUE_OP};
    return trace_op(trace, node, op, &out->op);
}
