/* Calls of a text's functions, and the trace as a whole. */
#include "protocol/vertex/trace.h"

#include "protocol/base/memory.h"
#include "protocol/vertex/trace_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- calls --- */

static enum status unknown_parameter(struct trace *trace, int32_t node, const struct vertex_function *function)
{
    char name[VERTEX_NAME_BYTES], callee[VERTEX_NAME_BYTES], what[2 * VERTEX_NAME_BYTES];
    struct nearest nearest;
    trace_name(trace, trace_node(trace, node)->name, name);
    nearest_init(name, &nearest);
    for (int32_t p = function->parameters; p >= 0; p = trace_node(trace, p)->next) {
        nearest_offer(&nearest, trace_keep_name(trace, trace_node(trace, p)->name));
    }
    trace_name(trace, function->name, callee);
    snprintf(what, sizeof what, "parameter of %s is called", callee);
    return trace_unknown(trace, node, what, name, &nearest);
}

/* Run a function whose parameters are in their slots already, but for those that have a default. */
static enum status run(struct trace *trace, int32_t node, const struct vertex_function *function, struct frame *frame)
{
    struct frame *caller = trace->frame;
    enum status status = STATUS_OK;
    char name[VERTEX_NAME_BYTES], callee[VERTEX_NAME_BYTES];
    trace_name(trace, function->name, callee);
    trace->frame = NULL; /* defaults see no variables */
    for (int32_t p = function->parameters; p >= 0 && status == STATUS_OK; p = trace_node(trace, p)->next) {
        struct value *slot = &frame->slot[trace_node(trace, p)->slot];
        if (slot->kind != VALUE_NONE) {
            continue;
        }
        trace_name(trace, trace_node(trace, p)->name, name);
        status = trace_node(trace, p)->a >= 0 ? trace_value(trace, trace_node(trace, p)->a, slot)
                                              : TRACE_FAIL(trace, node, "%s lacks its argument %s", callee, name);
    }
    trace->frame = frame;
    if (status == STATUS_OK) {
        status = trace_block(trace, function->body);
    }
    trace->frame = caller;
    if (status == STATUS_OK && frame->result.kind == VALUE_NONE) {
        return vertex_fail(&trace->tree->source, function->at, "%s returns nothing; expected return and a value",
                           callee);
    }
    return status;
}

enum status trace_call(struct trace *trace, int32_t node, int32_t number, struct value *out)
{
    const struct vertex_function *function = &trace->tree->function[number];
    char name[VERTEX_NAME_BYTES];
    trace_name(trace, function->name, name);
    if (trace->active[number]) {
        return TRACE_FAIL(trace, node, "%s calls itself; expected a loop over range(…)", name);
    }
    enum status status = trace_charge(trace, node, function->n_slot / 8);
    if (status != STATUS_OK) {
        return status;
    }
    struct frame frame = {.function = function,
                          .slot = memory_alloc((size_t)function->n_slot + 1, sizeof *frame.slot)};
    int32_t parameter = function->parameters;
    for (int32_t a = trace_node(trace, node)->b; a >= 0 && status == STATUS_OK; a = trace_node(trace, a)->next) {
        bool by_name = trace_node(trace, a)->kind == VERTEX_NODE_KEYWORD;
        int32_t to = by_name ? function->parameters : parameter;
        while (by_name && to >= 0 && trace_node(trace, to)->name != trace_node(trace, a)->name) {
            to = trace_node(trace, to)->next;
        }
        if (to < 0) {
            status = by_name ? unknown_parameter(trace, a, function)
                             : TRACE_FAIL(trace, a, "%s takes fewer arguments", name);
            break;
        }
        if (frame.slot[trace_node(trace, to)->slot].kind != VALUE_NONE) {
            status = TRACE_FAIL(trace, a, "%s has this argument already", name);
            break;
        }
        status = trace_value(trace, by_name ? trace_node(trace, a)->a : a, &frame.slot[trace_node(trace, to)->slot]);
        parameter = by_name ? parameter : trace_node(trace, parameter)->next;
    }
    trace->active[number] = true;
    if (status == STATUS_OK) {
        status = run(trace, node, function, &frame);
    }
    trace->active[number] = false;
    *out = frame.result;
    free(frame.slot);
    return status;
}

/* --- the text as a whole --- */

static const struct vertex_function *function_named(const struct vertex_tree *tree, const char *name)
{
    for (int32_t f = 0; f < tree->n_function; f++) {
        if (vertex_name_is(tree, tree->function[f].name, name)) {
            return &tree->function[f];
        }
    }
    return NULL;
}

enum status vertex_entry(const struct vertex_tree *tree, bool *is_model_out)
{
    const struct vertex_function *layer = function_named(tree, "layer"), *model = function_named(tree, "model");
    const struct vertex_function *entry = model != NULL ? model : layer;
    const struct vertex_span begin = {0, 0};
    if (entry == NULL) {
        return vertex_fail(&tree->source, begin, "no function layer(v, out, …) or model(v, classes, …)");
    }
    if (layer != NULL && model != NULL) {
        return vertex_fail(&tree->source, model->at, "a text has layer or model, not both; layer is on line %d",
                           vertex_line(&tree->source, layer->at.begin));
    }
    int32_t first = entry->parameters, second = first >= 0 ? tree->node[first].next : -1;
    const char *wanted = model != NULL ? "classes" : "out";
    if (second < 0 || !vertex_name_is(tree, tree->node[first].name, "v") ||
        !vertex_name_is(tree, tree->node[second].name, wanted)) {
        return vertex_fail(&tree->source, entry->at, "expected %s(v, %s, …)", model != NULL ? "model" : "layer",
                           wanted);
    }
    *is_model_out = model != NULL;
    return STATUS_OK;
}

/* A function may call its edge as it likes; a name that a text assigns to nodes is theirs there. */
int vertex_reads(const struct vertex_tree *tree, const char *field)
{
    int line = 0;
    bool of_nodes = vertex_assigned(tree, VERTEX_NODE_FIELD, vertex_tree_name(tree, field)) > 0;
    for (int32_t i = 0; i < tree->n_node; i++) {
        const struct vertex_node *node = &tree->node[i];
        if (node->kind != VERTEX_NODE_FIELD || tree->node[node->a].kind != VERTEX_NODE_NAME ||
            !vertex_name_is(tree, node->name, field)) {
            continue;
        }
        int32_t owner = tree->node[node->a].name;
        if (vertex_name_is(tree, owner, "e") || (!of_nodes && !vertex_name_is(tree, owner, "v"))) {
            int here = vertex_line(&tree->source, node->at.begin);
            line = line == 0 || here < line ? here : line;
        }
    }
    return line;
}

enum status vertex_score(const struct vertex_tree *tree)
{
    const struct vertex_function *score = function_named(tree, "score");
    const struct vertex_span begin = {0, 0};
    if (score == NULL) {
        return vertex_fail(&tree->source, begin, "no function score(e, …)");
    }
    if (score->parameters < 0 || !vertex_name_is(tree, tree->node[score->parameters].name, "e")) {
        return vertex_fail(&tree->source, score->at, "expected score(e, …)");
    }
    return STATUS_OK;
}

static void trace_open(const struct vertex_tree *tree, const struct vertex_args *args,
                       const struct vertex_facts *facts, struct trace *out)
{
    size_t n_name = (size_t)tree->n_name + 1;
    int32_t n_relation = facts->n_relation > 0 ? (int32_t)facts->n_relation : 0;
    *out = (struct trace){.tree = tree,
                          .args = args,
                          .facts = facts,
                          .out = {.out = -1},
                          .field = memory_alloc(n_name, sizeof *out->field),
                          .global = memory_alloc(n_name, sizeof *out->global),
                          .function_of = memory_alloc(n_name, sizeof *out->function_of),
                          .active = memory_alloc((size_t)tree->n_function + 1, sizeof *out->active),
                          .n_op_most = VERTEX_OP_MOST + 5 * n_relation,
                          .own = {VERTEX_STEPS_MOST + 32 * n_relation, VERTEX_STRINGS_MOST}};
    out->budget = facts->budget != NULL ? facts->budget : &out->own;
    out->n_step_most = (int)out->own.n_step;
    for (size_t i = 0; i < n_name; i++) {
        out->field[i] = out->function_of[i] = -1;
    }
    for (int32_t f = 0; f < tree->n_function; f++) {
        out->function_of[tree->function[f].name] = f;
    }
}

static void trace_close(struct trace *trace)
{
    vertex_ops_forget(&trace->same);
    free(trace->field);
    free(trace->global);
    free(trace->function_of);
    free(trace->active);
    for (int32_t i = 0; i < trace->n_text; i++) {
        free(trace->text[i]);
    }
    free(trace->text);
}

/* Settings, one after another: each sees those above it. */
static enum status settings(struct trace *trace)
{
    enum status status = STATUS_OK;
    for (int32_t s = trace->tree->settings; s >= 0 && status == STATUS_OK; s = trace_node(trace, s)->next) {
        struct value value;
        status = trace_value(trace, trace_node(trace, s)->b, &value);
        if (status == STATUS_OK && value.kind != VALUE_NUMBER && value.kind != VALUE_BOOL &&
            value.kind != VALUE_TEXT) {
            return trace_refuse(trace, trace_node(trace, s)->b, &value, "a value that is known before training");
        }
        trace->global[trace_node(trace, trace_node(trace, s)->a)->name] = value;
    }
    return status;
}

enum status vertex_setting(const struct vertex_tree *tree, const char *name, bool otherwise, bool *out)
{
    struct trace trace;
    const struct vertex_args args = {0};
    const struct vertex_facts facts = {0};
    trace_open(tree, &args, &facts, &trace);
    trace.own.n_step = trace.n_step_most = VERTEX_SETTINGS_MOST; /* a daemon asks, too */
    int32_t number = vertex_tree_name(tree, name);
    enum status status = settings(&trace);
    *out = otherwise;
    if (status == STATUS_OK && number >= 0 && trace.global[number].kind != VALUE_NONE) {
        *out = trace.global[number].number != 0.0;
        if (trace.global[number].kind != VALUE_BOOL) {
            status = vertex_fail(&tree->source, tree->name[number],
                                 "%s is no setting of this value; expected True or False", name);
        }
    }
    vertex_trace_release(&trace.out);
    trace_close(&trace);
    return status;
}

/* A job's argument for a parameter, or what the stack fills in; NONE: the parameter's default. */
static struct value given(const struct trace *trace, const char *name)
{
    for (int i = 0; i < trace->args->n; i++) {
        const struct vertex_arg *arg = &trace->args->of[i];
        if (strcmp(arg->name, name) == 0) {
            static const enum value_kind kinds[] = {VALUE_NUMBER, VALUE_BOOL, VALUE_TEXT};
            return (struct value){.kind = kinds[arg->kind], .number = arg->number, .text = arg->text};
        }
    }
    bool layer = trace->facts->index >= 0;
    if (layer && strcmp(name, "index") == 0) {
        return (struct value){.kind = VALUE_NUMBER, .number = trace->facts->index};
    }
    if (layer && strcmp(name, "last") == 0) {
        return (struct value){.kind = VALUE_BOOL, .number = trace->facts->is_last};
    }
    return (struct value){.kind = VALUE_NONE};
}

static enum status unknown_argument(struct trace *trace, const struct vertex_function *entry, const char *entry_name,
                                    const char *name)
{
    const struct vertex_tree *tree = trace->tree;
    struct nearest nearest;
    char list[256] = "";
    int k = 0;
    nearest_init(name, &nearest);
    for (int32_t p = entry->parameters; p >= 0; p = tree->node[p].next, k++) {
        const char *known = trace_keep_name(trace, tree->node[p].name);
        if (k < 2 || strcmp(known, "index") == 0 || strcmp(known, "last") == 0) {
            continue;
        }
        nearest_offer(&nearest, known);
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", n > 0 ? ", " : "", known);
    }
    return status_fail(STATUS_CONFIG, "model.args.%s: the program has no parameter of that name%s%s%s (%s: %s)", name,
                       nearest.best != NULL ? "; did you mean " : "", nearest.best != NULL ? nearest.best : "",
                       nearest.best != NULL ? "?" : "", entry_name,
                       list[0] != '\0' ? list : "it has only those that the stack fills in");
}

/* Is it a parameter behind the first ones, which the job does not give? */
static bool takes(const struct vertex_tree *tree, const struct vertex_function *entry, int n_first, const char *name)
{
    bool found = false;
    int k = 0;
    for (int32_t p = entry->parameters; p >= 0 && !found; p = tree->node[p].next, k++) {
        found = k >= n_first && vertex_name_is(tree, tree->node[p].name, name);
    }
    return found && strcmp(name, "index") != 0 && strcmp(name, "last") != 0;
}

bool vertex_takes(const struct vertex_tree *tree, const char *name)
{
    const struct vertex_function *model = function_named(tree, "model"), *score = function_named(tree, "score");
    const struct vertex_function *entry = model != NULL ? model : function_named(tree, "layer");
    return entry != NULL ? takes(tree, entry, 2, name) : score != NULL && takes(tree, score, 1, name);
}

/* Every argument of the job is a parameter of the entry. */
static enum status check_args(struct trace *trace, const struct vertex_function *entry, const char *entry_name)
{
    enum status status = STATUS_OK;
    for (int i = 0; i < trace->args->n && status == STATUS_OK; i++) {
        const char *name = trace->args->of[i].name;
        status = takes(trace->tree, entry, trace->facts->of_pairs ? 1 : 2, name)
                     ? trace_charge(trace, entry->parameters, 1 + entry->n_slot / 8)
                     : unknown_argument(trace, entry, entry_name, name);
    }
    return status;
}

/* The returned value is one of nodes, without heads; of the last layer, as wide as the classes. */
static enum status check_result(struct trace *trace, const struct vertex_function *entry, const struct value *result)
{
    const struct vertex_source *source = &trace->tree->source;
    if (result->kind != VALUE_OP) {
        return vertex_fail(source, entry->at, "returns %s; expected a value of %s", trace_value_text(trace, result),
                           trace->facts->of_pairs ? "pairs" : "nodes");
    }
    const struct vertex_op *op = &trace->out.op[result->op];
    int64_t columns = shape_columns(&op->shape), n_out = trace->facts->n_out;
    if (op->place == VERTEX_PLACE_WEIGHT) {
        return vertex_fail(source, op->at, "a weight is returned; expected a value of nodes");
    }
    if (op->shape.n_dim > 1) {
        return vertex_fail(source, op->at, "a value with heads is returned; .flat() or .mean_heads() joins them");
    }
    if (trace->facts->of_pairs && columns != 1 && columns != VERTEX_UNKNOWN) {
        return vertex_fail(source, op->at, "%lld columns are returned; expected one number, a pair's score",
                           (long long)columns);
    }
    if (trace->facts->is_last && columns != n_out && columns != VERTEX_UNKNOWN && n_out != VERTEX_UNKNOWN) {
        return vertex_fail(source, op->at, "%lld columns are returned; expected the %lld classes", (long long)columns,
                           (long long)n_out);
    }
    trace->out.out = result->op;
    return STATUS_OK;
}

static enum status build(struct trace *trace)
{
    const struct vertex_tree *tree = trace->tree;
    bool is_model = false, scores = trace->facts->of_pairs;
    enum status status = scores ? vertex_score(tree) : vertex_entry(tree, &is_model);
    if (status != STATUS_OK) {
        return status;
    }
    const char *name_of_entry = scores ? "score" : is_model ? "model" : "layer";
    const struct vertex_function *entry = function_named(tree, name_of_entry);
    if ((status = check_args(trace, entry, name_of_entry)) != STATUS_OK || (status = settings(trace)) != STATUS_OK) {
        return status;
    }
    struct frame frame = {.function = entry, .slot = memory_alloc((size_t)entry->n_slot + 1, sizeof *frame.slot)};
    int64_t n_out = trace->facts->n_out;
    int k = 0;
    for (int32_t p = entry->parameters; p >= 0; p = tree->node[p].next, k++) {
        char name[VERTEX_NAME_BYTES];
        trace_name(trace, tree->node[p].name, name);
        frame.slot[tree->node[p].slot] = k == 0 ? (struct value){.kind = scores ? VALUE_EDGE : VALUE_NODE}
                                         : k == 1 && !scores
                                             ? (struct value){.kind = VALUE_NUMBER,
                                                              .number = n_out == VERTEX_UNKNOWN ? NAN : (double)n_out}
                                             : given(trace, name);
    }
    trace->active[entry - tree->function] = true;
    status = run(trace, tree->function[0].body, entry, &frame);
    trace->out.complete = status != TRACE_STOPPED;
    if (status == STATUS_OK) {
        status = check_result(trace, entry, &frame.result);
    }
    free(frame.slot);
    return status == TRACE_STOPPED ? STATUS_OK : status;
}

struct vertex_facts vertex_facts_unknown(void)
{
    return (struct vertex_facts){.n_in = VERTEX_UNKNOWN,
                                 .n_out = VERTEX_UNKNOWN,
                                 .index = -1,
                                 .is_last = true,
                                 .n_node = VERTEX_UNKNOWN,
                                 .n_edge = VERTEX_UNKNOWN,
                                 .n_relation = VERTEX_UNKNOWN,
                                 .n_type = VERTEX_UNKNOWN,
                                 .n_class = VERTEX_UNKNOWN,
                                 .n_edge_feature = VERTEX_UNKNOWN,
                                 .mean_degree = NAN,
                                 .mean_log_degree = NAN};
}

enum status vertex_trace_build(const struct vertex_tree *tree, const struct vertex_args *args,
                               const struct vertex_facts *facts, struct vertex_trace *out)
{
    struct trace trace;
    trace_open(tree, args, facts, &trace);
    enum status status = build(&trace);
    if (status == STATUS_OK) {
        *out = trace.out;
    } else {
        vertex_trace_release(&trace.out);
    }
    trace_close(&trace);
    return status;
}

void vertex_trace_release(struct vertex_trace *trace)
{
    free(trace->op);
    free(trace->weight);
    free(trace->output);
    *trace = (struct vertex_trace){0};
}
