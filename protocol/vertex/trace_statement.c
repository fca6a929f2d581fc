/* Statements: assignments, branches, loops and return. */
#include "protocol/base/memory.h"
#include "protocol/vertex/trace_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool has_returned(const struct trace *trace)
{
    return trace->frame->result.kind != VALUE_NONE;
}

/* v.NAME = a value of nodes */
static enum status assign_field(struct trace *trace, int32_t target, const struct value *value)
{
    const struct vertex_node *of = trace_node(trace, target);
    const struct value *owner = trace_node(trace, of->a)->slot >= 0
                                    ? &trace->frame->slot[trace_node(trace, of->a)->slot]
                                    : NULL;
    char name[VERTEX_NAME_BYTES];
    trace_name(trace, of->name, name);
    if (owner == NULL || owner->kind != VALUE_NODE) {
        return TRACE_FAIL(trace, target, "there is no node v here; expected a function of v");
    }
    static const char *const own[] = {"x", "degree", "type", "in_edges"};
    if (name_find(own, 4, name) >= 0) {
        return TRACE_FAIL(trace, target, "v.%s is there already; expected another name", name);
    }
    if (value->kind != VALUE_OP || trace->out.op[value->op].place != VERTEX_PLACE_NODE) {
        return trace_refuse(trace, target, value, "a value of nodes");
    }
    trace->field[of->name] = value->op;
    return STATUS_OK;
}

/* All values are traced before the first name is assigned, as in Python. */
static enum status assign(struct trace *trace, int32_t node)
{
    enum { MOST = 64 };
    const struct vertex_node *of = trace_node(trace, node);
    struct value values[MOST];
    int n = 0;
    enum status status = STATUS_OK;
    for (int32_t v = of->b; v >= 0 && status == STATUS_OK; v = trace_node(trace, v)->next) {
        status = n < MOST ? trace_value(trace, v, &values[n++])
                          : TRACE_FAIL(trace, node, "more than %d names in one statement", MOST);
    }
    n = 0;
    for (int32_t t = of->a; t >= 0 && status == STATUS_OK; t = trace_node(trace, t)->next, n++) {
        if (trace_node(trace, t)->kind == VERTEX_NODE_FIELD) {
            status = assign_field(trace, t, &values[n]);
        } else {
            trace->frame->slot[trace_node(trace, t)->slot] = values[n];
        }
    }
    return status;
}

/* Where the data decides which branch is taken, both are checked, and nothing behind them. */
static enum status branch(struct trace *trace, int32_t node)
{
    const struct vertex_node *of = trace_node(trace, node);
    double which = 0.0;
    enum status status = trace_truth(trace, of->a, &which);
    if (status != STATUS_OK || !isnan(which)) {
        if (status != STATUS_OK) {
            return status;
        }
        return trace_block(trace, which != 0.0 ? of->b : of->c);
    }
    size_t n_slot = (size_t)trace->frame->function->n_slot, n_name = (size_t)trace->tree->n_name;
    if ((status = trace_charge(trace, node, (int64_t)(n_slot + n_name) / 8)) != STATUS_OK) {
        return status;
    }
    struct value *slots = memory_alloc(n_slot, sizeof *slots), result = trace->frame->result;
    int32_t *fields = memory_alloc(n_name, sizeof *fields), n_weight = trace->out.n_weight;
    memcpy(slots, trace->frame->slot, n_slot * sizeof *slots);
    memcpy(fields, trace->field, n_name * sizeof *fields);
    const int depth = trace->depth;
    status = trace_block(trace, of->b);
    trace->depth = depth;
    memcpy(trace->frame->slot, slots, n_slot * sizeof *slots);
    memcpy(trace->field, fields, n_name * sizeof *fields);
    trace->frame->result = result;
    for (int32_t w = n_weight; w < trace->out.n_weight; w++) { /* a name may be another weight in the other branch */
        trace->out.weight[w].name[0] = '\0';
    }
    status = status == STATUS_OK || status == TRACE_STOPPED ? trace_block(trace, of->c) : status;
    free(slots);
    free(fields);
    if (status != STATUS_OK) {
        return status;
    }
    return TRACE_STOPPED;
}

static enum status loop(struct trace *trace, int32_t node)
{
    const struct vertex_node *of = trace_node(trace, node);
    int64_t from = 0, to = 0;
    enum status status = STATUS_OK;
    if (of->a >= 0) {
        status = trace_whole(trace, of->a, "the loop's first number", 0, INT32_MAX, &from);
    }
    if (status == STATUS_OK) {
        status = trace_whole(trace, of->b, "the number behind the loop's last", 0, INT32_MAX, &to);
    }
    bool known = to != VERTEX_UNKNOWN && from != VERTEX_UNKNOWN;
    const int64_t n_relation = trace->facts->n_relation;
    int64_t most = n_relation > VERTEX_STEP_MOST ? n_relation : VERTEX_STEP_MOST;
    if (status == STATUS_OK && known && to - from > most) {
        return TRACE_FAIL(trace, node, "the loop has %lld steps; expected at most %lld", (long long)(to - from),
                          (long long)most);
    }
    for (int64_t i = from; status == STATUS_OK && (known ? i < to : i == from) && !has_returned(trace); i++) {
        trace->frame->slot[of->slot] = (struct value){.kind = VALUE_NUMBER, .number = known ? (double)i : NAN};
        status = trace_block(trace, of->body);
    }
    return status == STATUS_OK && !known ? TRACE_STOPPED : status;
}

static enum status statement(struct trace *trace, int32_t node)
{
    switch (trace_node(trace, node)->kind) {
    case VERTEX_NODE_ASSIGN:
        return assign(trace, node);
    case VERTEX_NODE_RETURN:
        return trace_value(trace, trace_node(trace, node)->a, &trace->frame->result);
    case VERTEX_NODE_IF:
        return branch(trace, node);
    default:
        return loop(trace, node);
    }
}

enum status trace_block(struct trace *trace, int32_t first)
{
    enum status status = STATUS_OK;
    if (++trace->depth > TRACE_DEPTH_MOST) {
        return TRACE_FAIL(trace, first, "blocks and calls are nested more than %d deep", TRACE_DEPTH_MOST);
    }
    for (int32_t s = first; s >= 0 && status == STATUS_OK && !has_returned(trace); s = trace_node(trace, s)->next) {
        status = statement(trace, s);
    }
    trace->depth--;
    return status;
}
