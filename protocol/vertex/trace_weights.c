/* The words that make weights, and how weights are drawn. */
#include "protocol/vertex/trace_state.h"

#include <string.h>

static const struct {
    const char *name;
    struct value value;
} inits[] = {{"glorot", {.kind = VALUE_INIT, .init = VERTEX_INIT_GLOROT}},
             {"kaiming", {.kind = VALUE_INIT, .init = VERTEX_INIT_KAIMING}},
             {"zeros", {.kind = VALUE_INIT, .init = VERTEX_INIT_CONSTANT}},
             {"ones", {.kind = VALUE_INIT, .init = VERTEX_INIT_CONSTANT, .number = 1.0}}};

bool trace_init_find(const char *name, struct value *out)
{
    for (size_t i = 0; i < sizeof inits / sizeof *inits; i++) {
        if (strcmp(inits[i].name, name) == 0) {
            *out = inits[i].value;
            return true;
        }
    }
    return false;
}

/* uniform(bound), constant(value) */
enum status trace_drawn(struct trace *trace, int32_t node, const char *name, struct value *out)
{
    int32_t argument = trace_node(trace, node)->b;
    bool one = argument >= 0 && trace_node(trace, argument)->next < 0 &&
               trace_node(trace, argument)->kind != VERTEX_NODE_KEYWORD;
    *out = (struct value){.kind = VALUE_INIT,
                          .init = strcmp(name, "uniform") == 0 ? VERTEX_INIT_UNIFORM : VERTEX_INIT_CONSTANT};
    return one ? trace_number(trace, argument, "a number that is known before training", &out->number)
               : TRACE_FAIL(trace, node, "%s takes 1 argument", name);
}

/* The name of a weight, with what is appended to it. */
static enum status weight_name(struct trace *trace, int32_t node, const char *name, const char *end,
                               char out[VERTEX_NAME_BYTES])
{
    bool fits = name[0] != '\0';
    for (const char *c = name; *c != '\0'; c++) {
        fits = fits &&
               (*c == '_' || *c == '.' || (*c >= '0' && *c <= '9') || ((*c | 0x20) >= 'a' && (*c | 0x20) <= 'z'));
    }
    if (!fits) {
        return TRACE_FAIL(trace, node, "\"%.40s\" names no weight; expected letters, digits, _ and .", name);
    }
    if ((size_t)snprintf(out, VERTEX_NAME_BYTES, "%s%s", name, end) >= VERTEX_NAME_BYTES - 12) {
        return TRACE_FAIL(trace, node, "\"%.40s…\" is too long for a weight's name; expected at most %d characters",
                          name, VERTEX_NAME_BYTES - 13);
    }
    return STATUS_OK;
}

/* How a weight is drawn: a name, uniform(bound) or constant(value). */
static enum status init_value(struct trace *trace, int32_t node, struct vertex_weight *weight)
{
    struct value value;
    enum status status = trace_value(trace, node, &value);
    if (status == STATUS_OK && value.kind != VALUE_INIT) {
        return trace_refuse(trace, node, &value, "glorot, kaiming, zeros, ones, uniform(bound) or constant(value)");
    }
    if (status == STATUS_OK) {
        weight->init = value.init;
        weight->number = value.number;
    }
    return status;
}

/* torch's Linear: name.weight is out × in */
enum status trace_linear(struct trace *trace, int32_t node, const int32_t argument[TRACE_N_ARGUMENT], int32_t *out)
{
    const char *name = NULL;
    int32_t x = -1, weight = -1, bias = -1;
    int64_t f_out = 0;
    double with_bias = 1.0;
    struct vertex_weight w = {.init = VERTEX_INIT_KAIMING, .trains = true};
    enum status status = trace_text(trace, argument[0], "the name of the weight", &name);
    if (status == STATUS_OK) {
        status = trace_row(trace, argument[1], &x);
    }
    if (status == STATUS_OK) {
        status = trace_whole(trace, argument[2], "columns", 1, VERTEX_WIDTH_MOST, &f_out);
    }
    status = status == STATUS_OK && argument[3] >= 0 ? trace_truth(trace, argument[3], &with_bias) : status;
    status = status == STATUS_OK && argument[4] >= 0 ? init_value(trace, argument[4], &w) : status;
    if (status == STATUS_OK) {
        status = weight_name(trace, argument[0], name, ".weight", w.name);
    }
    if (status != STATUS_OK) {
        return status;
    }
    const struct vertex_op *row = &trace->out.op[x];
    if (row->place == VERTEX_PLACE_WEIGHT || row->shape.n_dim > 1) {
        return trace_fail_quoted(trace, argument[1], argument[1],
                                 "has no rows of columns that linear could multiply; .flat() joins heads");
    }
    struct vertex_op op = {.kind = VERTEX_OP_LINEAR, .shape = shape_make(0, f_out), .relation = -1};
    w.fan_in = shape_columns(&row->shape);
    w.fan_out = f_out;
    w.shape = (struct vertex_shape){2, {f_out, w.fan_in}};
    status = trace_weight(trace, argument[0], &w, &weight);
    if (status == STATUS_OK && with_bias != 0.0) {
        struct vertex_weight b = {
            .init = VERTEX_INIT_KAIMING, .trains = true, .fan_in = w.fan_in, .shape = {1, {f_out}}};
        status = weight_name(trace, argument[0], name, ".bias", b.name);
        if (status == STATUS_OK) {
            status = trace_weight(trace, argument[0], &b, &bias);
        }
    }
    op.in[0] = x;
    op.in[1] = weight;
    op.in[2] = bias;
    if (status != STATUS_OK) {
        return status;
    }
    return trace_op(trace, node, op, out);
}

/* param(name, dimension, …, init=glorot, train=True) */
enum status trace_param(struct trace *trace, int32_t node, int32_t *out)
{
    struct vertex_weight w = {.init = VERTEX_INIT_GLOROT, .trains = true};
    const char *name = NULL;
    double trains = 1.0;
    enum status status = STATUS_OK;
    int32_t first = trace_node(trace, node)->b;
    for (int32_t a = first; a >= 0 && status == STATUS_OK; a = trace_node(trace, a)->next) {
        const struct vertex_node *argument = trace_node(trace, a);
        char keyword[VERTEX_NAME_BYTES];
        if (argument->kind != VERTEX_NODE_KEYWORD && a != first && w.shape.n_dim == VERTEX_N_DIM) {
            return TRACE_FAIL(trace, a, "a weight has at most %d dimensions", VERTEX_N_DIM);
        }
        if (argument->kind != VERTEX_NODE_KEYWORD) {
            status = a == first ? trace_text(trace, a, "the name of the weight", &name)
                                : trace_whole(trace, a, "a dimension", 1, INT32_MAX, &w.shape.dim[w.shape.n_dim++]);
            continue;
        }
        trace_name(trace, argument->name, keyword);
        if (strcmp(keyword, "init") == 0) {
            status = init_value(trace, argument->a, &w);
        } else if (strcmp(keyword, "train") == 0) {
            status = trace_truth(trace, argument->a, &trains);
        } else {
            return TRACE_FAIL(trace, a, "no argument of param is called %s; expected init or train", keyword);
        }
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (name == NULL || w.shape.n_dim == 0) {
        return TRACE_FAIL(trace, node, "expected param(\"name\", dimension, …)");
    }
    if ((status = weight_name(trace, first, name, "", w.name)) != STATUS_OK) {
        return status;
    }
    w.trains = trains != 0.0;
    w.fan_in = shape_columns(&w.shape);
    w.fan_out = w.shape.n_dim > 1 ? shape_heads(&w.shape) : 0;
    return trace_weight(trace, node, &w, out);
}

/* A norm's weights, each as wide as the row. It reads two; the op that it becomes moves running statistics on. */
static enum status norm_weights(struct trace *trace, int32_t node, const char *name, const struct vertex_shape *shape,
                                struct vertex_op *op)
{
    static const char *const ends[] = {".weight", ".bias", ".running_mean", ".running_var"};
    const int n = op->kind == VERTEX_OP_BATCH_NORM ? 4 : 2;
    for (int i = 0; i < n; i++) {
        struct vertex_weight w = {
            .shape = *shape, .init = VERTEX_INIT_CONSTANT, .number = i % 3 == 0, .trains = i < 2};
        int32_t weight;
        enum status status = weight_name(trace, node, name, ends[i], w.name);
        if (status != STATUS_OK || (status = trace_weight(trace, node, &w, &weight)) != STATUS_OK) {
            return status;
        }
        if (i < 2) {
            op->in[1 + i] = weight;
        }
    }
    return STATUS_OK;
}

/* layer_norm, batch_norm: name.weight and name.bias, as wide as x; of batch_norm also its running statistics */
enum status trace_norm(struct trace *trace, int32_t node, enum vertex_op_kind kind,
                       const int32_t argument[TRACE_N_ARGUMENT], int32_t *out)
{
    const char *name = NULL;
    int32_t x = -1;
    struct vertex_op op = {.kind = kind, .relation = -1};
    enum status status = trace_text(trace, argument[0], "the name of its weights", &name);
    if (status == STATUS_OK) {
        status = trace_row(trace, argument[1], &x);
    }
    if (status == STATUS_OK && (trace->out.op[x].place != VERTEX_PLACE_NODE || trace->out.op[x].shape.n_dim > 1)) {
        return trace_fail_quoted(trace, argument[1], argument[1],
                                 "is no value of nodes without heads, which is what is normalised");
    }
    if (status == STATUS_OK) {
        op.in[0] = x;
        op.shape = trace->out.op[x].shape;
        status = norm_weights(trace, argument[0], name, &op.shape, &op);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return trace_op(trace, node, op, out);
}
