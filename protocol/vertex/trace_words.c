/* The functions and reductions of vertex programs: arguments are bound to the parameters of a word's form, and become
 * an operation. */
#include "protocol/vertex/trace_state.h"

#include "protocol/base/memory.h"

#include <math.h>
#include <string.h>

enum form {
    ELEMENT,
    SLOPE,
    CLAMP,
    PAIR,
    DOT,
    COLUMN,
    SAME,
    NORM,
    CONCAT,
    SOFTMAX,
    DROPOUT,
    OUTPUT,
    LINEAR,
    PARAM,
    NAMES,
    N_FORM
};

/* The parameters of each form; those from n_required on have a default. A form without names takes any number. */
static const struct {
    int n_required;
    const char *name[TRACE_N_ARGUMENT];
} forms[N_FORM] = {
    [ELEMENT] = {1, {"x"}},      [SLOPE] = {1, {"x", "slope"}}, [CLAMP] = {3, {"x", "least", "most"}},
    [PAIR] = {2, {"x", "y"}},    [DOT] = {2, {"x", "y"}},       [COLUMN] = {1, {"x"}},
    [SAME] = {1, {"x"}},         [NORM] = {2, {"name", "x"}},   [SOFTMAX] = {1, {"x"}},
    [DROPOUT] = {2, {"x", "p"}}, [OUTPUT] = {2, {"name", "x"}}, [LINEAR] = {3, {"name", "x", "out", "bias", "init"}},
};

static const struct word {
    const char *name;
    enum vertex_op_kind op;
    enum form form;
} words[] = {
#define WORD(name, op, form) {#name, VERTEX_OP_##op, form},
#include "protocol/vertex/words.def"
#undef WORD
};

/* --- binding --- */

static enum status unknown_argument(struct trace *trace, int32_t node, const struct word *word, const char *name)
{
    struct nearest nearest;
    nearest_init(name, &nearest);
    for (int i = 0; i < TRACE_N_ARGUMENT && forms[word->form].name[i] != NULL; i++) {
        nearest_offer(&nearest, forms[word->form].name[i]);
    }
    char what[64];
    snprintf(what, sizeof what, "argument of %s is called", word->name);
    char instead[TRACE_FOREIGN_BYTES];
    if (nearest.best == NULL && trace_foreign(name, instead)) {
        return TRACE_FAIL(trace, node, "no %s %s%s", what, name, instead);
    }
    return trace_unknown(trace, node, what, name, &nearest);
}

/* A call begins with the text that names its weights: does this one begin with something else? */
static bool lacks_name(struct trace *trace, const struct word *word, int32_t first)
{
    struct value value;
    return strcmp(forms[word->form].name[0], "name") == 0 && first >= 0 &&
           trace_value(trace, first, &value) == STATUS_OK && value.kind != VALUE_TEXT;
}

/* The call's arguments by parameter; -1: left out. */
static enum status bind(struct trace *trace, int32_t node, const struct word *word,
                        int32_t argument[TRACE_N_ARGUMENT])
{
    int at = 0, n = 0;
    while (n < TRACE_N_ARGUMENT && forms[word->form].name[n] != NULL) {
        argument[n++] = -1;
    }
    for (int32_t a = trace_node(trace, node)->b; a >= 0; a = trace_node(trace, a)->next) {
        int to = at++;
        int32_t value = a;
        if (trace_node(trace, a)->kind == VERTEX_NODE_KEYWORD) {
            char name[VERTEX_NAME_BYTES];
            trace_name(trace, trace_node(trace, a)->name, name);
            for (to = 0; to < n && strcmp(forms[word->form].name[to], name) != 0; to++) {
            }
            value = trace_node(trace, a)->a;
            if (to == n) {
                return unknown_argument(trace, a, word, name);
            }
        }
        if (to >= n) {
            return TRACE_FAIL(trace, a, "%s takes %d argument%s", word->name, n, n == 1 ? "" : "s");
        }
        if (argument[to] >= 0) {
            return TRACE_FAIL(trace, a, "%s has its argument %s already", word->name, forms[word->form].name[to]);
        }
        argument[to] = value;
    }
    for (int i = 0; i < forms[word->form].n_required; i++) {
        if (argument[i] < 0) {
            bool name = lacks_name(trace, word, argument[0]);
            return TRACE_FAIL(trace, node, "%s lacks its argument %s%s", word->name,
                              forms[word->form].name[name ? 0 : i],
                              name ? ", the text before its others that names its weights" : "");
        }
    }
    return STATUS_OK;
}

/* --- rows --- */

/* A function of statics, or -1 × NAN where there is no such. */
static double compute(enum vertex_op_kind kind, double x, double y)
{
    switch (kind) {
    case VERTEX_OP_EXP:
        return exp(x);
    case VERTEX_OP_LOG:
        return log(x);
    case VERTEX_OP_SQRT:
        return sqrt(x);
    case VERTEX_OP_ABS:
        return fabs(x);
    case VERTEX_OP_MINIMUM:
        return x < y || isnan(x) ? x : y;
    case VERTEX_OP_MAXIMUM:
        return x > y || isnan(x) ? x : y;
    default:
        return INFINITY;
    }
}

/* f(x), f(x, slope), f(x, least, most), f(x, y): of numbers a number */
static enum status word_element(struct trace *trace, int32_t node, const struct word *word,
                                const int32_t argument[TRACE_N_ARGUMENT], struct value *out)
{
    struct value x, y = {.kind = VALUE_NUMBER};
    bool pair = word->form == PAIR;
    enum status status = trace_value(trace, argument[0], &x);
    status = status == STATUS_OK && pair ? trace_value(trace, argument[1], &y) : status;
    if (status != STATUS_OK) {
        return status;
    }
    if (x.kind == VALUE_NUMBER && y.kind == VALUE_NUMBER) {
        double result = isnan(x.number) || isnan(y.number) ? NAN : compute(word->op, x.number, y.number);
        *out = (struct value){.kind = VALUE_NUMBER, .number = result};
        if (isfinite(result) || isnan(x.number) || isnan(y.number)) {
            return STATUS_OK;
        }
        return trace_fail_quoted(trace, node, node, "is no number that is known before training");
    }
    struct vertex_op op = {.kind = word->op, .in = {-1, -1, -1}, .number = {0.01}, .relation = -1};
    int32_t right = -1;
    *out = (struct value){.kind = VALUE_OP};
    status = trace_row_make(trace, argument[0], &x, &op.in[0]);
    if (status == STATUS_OK && pair) {
        status = trace_row_make(trace, argument[1], &y, &right);
        if (status != STATUS_OK) {
            return status;
        }
        return trace_binary(trace, node, word->op, op.in[0], right, &out->op);
    }
    if (status == STATUS_OK && word->form == SLOPE && argument[1] >= 0) {
        status = trace_number(trace, argument[1], "a slope that is known before training", &op.number[0]);
    }
    for (int k = 0; k < 2 && word->form == CLAMP && status == STATUS_OK; k++) {
        status = trace_number(trace, argument[k + 1], "a limit that is known before training", &op.number[k]);
    }
    op.number[0] = word->form == ELEMENT ? 0.0 : op.number[0];
    if (status == STATUS_OK) {
        op.shape = trace->out.op[op.in[0]].shape;
        status = trace_op(trace, node, op, &out->op);
    }
    return status;
}

/* Columns side by side. */
static enum status word_concat(struct trace *trace, int32_t node, int32_t *out)
{
    int32_t first = trace_node(trace, node)->b;
    enum status status = first >= 0 ? STATUS_OK : TRACE_FAIL(trace, node, "concat lacks an argument");
    for (int32_t a = first; a >= 0 && status == STATUS_OK; a = trace_node(trace, a)->next) {
        int32_t row = -1;
        if (trace_node(trace, a)->kind == VERTEX_NODE_KEYWORD) {
            return TRACE_FAIL(trace, a, "concat takes rows alone, and joins their columns: concat(x, y)");
        }
        status = trace_row(trace, a, &row);
        const struct vertex_op *left = &trace->out.op[*out], *right = &trace->out.op[row];
        if (status != STATUS_OK || a == first) {
            *out = row;
            continue;
        }
        bool heads = left->shape.n_dim == right->shape.n_dim &&
                     shape_heads(&left->shape) == shape_heads(&right->shape);
        if (!heads || left->shape.n_dim > 2 || left->place == VERTEX_PLACE_WEIGHT ||
            right->place == VERTEX_PLACE_WEIGHT) {
            return TRACE_FAIL(trace, a, "concat joins columns of rows with equally many heads");
        }
        if (left->place != right->place) {
            int32_t none = -1; /* for its message */
            return trace_binary(trace, node, VERTEX_OP_ADD, *out, row, &none);
        }
        int64_t x = shape_columns(&left->shape), y = shape_columns(&right->shape);
        bool known = x != VERTEX_UNKNOWN && y != VERTEX_UNKNOWN;
        struct vertex_op op = {.kind = VERTEX_OP_CONCAT,
                               .shape = shape_make(shape_heads(&left->shape), known ? x + y : VERTEX_UNKNOWN),
                               .in = {*out, row, -1},
                               .relation = -1};
        status = trace_op(trace, node, op, out);
    }
    return status;
}

/* f(x) of one row each: what it has to be, and the shape of the result */
static enum status word_row(struct trace *trace, int32_t node, const struct word *word,
                            const int32_t argument[TRACE_N_ARGUMENT], int32_t *out)
{
    struct vertex_op op = {.kind = word->op, .in = {-1, -1, -1}, .relation = -1};
    enum status status = trace_row(trace, argument[0], &op.in[0]);
    if (status == STATUS_OK && word->form == DROPOUT) {
        status = trace_number(trace, argument[1], "a probability that is known before training", &op.number[0]);
        if (status == STATUS_OK && !isnan(op.number[0]) && !(op.number[0] >= 0.0 && op.number[0] < 1.0)) {
            return TRACE_FAIL(trace, argument[1], "%g is no probability; expected 0 or more, less than 1",
                              op.number[0]);
        }
    }
    if (status != STATUS_OK) {
        return status;
    }
    const struct vertex_op *x = &trace->out.op[op.in[0]];
    if (word->form == SOFTMAX && x->place != VERTEX_PLACE_EDGE) {
        return TRACE_FAIL(trace, node, "softmax(…) is over the in-edges of a node: expected a value of edges");
    }
    if (word->form == DROPOUT && (x->place == VERTEX_PLACE_WEIGHT || op.number[0] == 0.0)) {
        *out = op.in[0];
        return x->place != VERTEX_PLACE_WEIGHT ? STATUS_OK
                                               : TRACE_FAIL(trace, node, "dropout of a weight; expected rows");
    }
    op.shape = word->form == COLUMN ? shape_make(x->shape.n_dim == 2 ? x->shape.dim[0] : 0, 1) : x->shape;
    return trace_op(trace, node, op, out);
}

/* names("convs", 0, "weight") is "convs.0.weight" */
static enum status word_names(struct trace *trace, int32_t node, struct value *out)
{
    char text[VERTEX_STRING_MOST + 1];
    size_t n = 0;
    enum status status = STATUS_OK;
    for (int32_t a = trace_node(trace, node)->b; a >= 0 && status == STATUS_OK; a = trace_node(trace, a)->next) {
        struct value value;
        status = trace_value(trace, a, &value);
        if (status == STATUS_OK && value.kind != VALUE_TEXT && value.kind != VALUE_NUMBER) {
            status = trace_refuse(trace, a, &value, "a text or a number");
        } else if (status == STATUS_OK) {
            char number[32];
            snprintf(number, sizeof number, "%.10g", isnan(value.number) ? 0.0 : value.number);
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", a == trace_node(trace, node)->b ? "" : ".",
                                  value.kind == VALUE_TEXT ? value.text : number);
        }
        if (n > VERTEX_STRING_MOST) {
            status = TRACE_FAIL(trace, node, "the name is longer than %d bytes", VERTEX_STRING_MOST);
        }
    }
    *out = (struct value){.kind = VALUE_TEXT};
    if (status != STATUS_OK) {
        return status;
    }
    return trace_keep(trace, node, text, n, &out->text);
}

/* output(name, x): x itself */
static enum status word_output(struct trace *trace, const int32_t argument[TRACE_N_ARGUMENT], int32_t *out)
{
    struct vertex_trace *list = &trace->out;
    struct vertex_output output = {0};
    const char *name = NULL;
    enum status status = trace_text(trace, argument[0], "the name of the output", &name);
    if (status == STATUS_OK) {
        status = trace_row(trace, argument[1], out);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (list->op[*out].place != VERTEX_PLACE_NODE) {
        return trace_fail_quoted(trace, argument[1], argument[1],
                                 "does not belong to nodes; expected a value of nodes");
    }
    if ((size_t)snprintf(output.name, sizeof output.name, "%s", name) >= sizeof output.name) {
        return TRACE_FAIL(trace, argument[0], "the name is longer than %zu bytes", sizeof output.name - 1);
    }
    output.op = *out;
    list->output = memory_list_grow(list->output, list->n_output, sizeof *list->output);
    list->output[list->n_output++] = output;
    return STATUS_OK;
}

static enum status unknown_function(struct trace *trace, int32_t node, const char *name)
{
    const struct vertex_tree *tree = trace->tree;
    struct nearest nearest;
    nearest_init(name, &nearest);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        nearest_offer(&nearest, words[i].name);
    }
    for (int32_t f = 0; f < tree->n_function; f++) {
        nearest_offer(&nearest, trace_keep_name(trace, tree->function[f].name));
    }
    bool reduces = strcmp(name, "sum") == 0 || strcmp(name, "mean") == 0 || strcmp(name, "max") == 0 ||
                   strcmp(name, "min") == 0 || strcmp(name, "var") == 0 || strcmp(name, "std") == 0;
    if (reduces) {
        char quoted[VERTEX_QUOTE_BYTES] = "v.x";
        int32_t argument = trace_node(trace, node)->b;
        if (argument >= 0) {
            trace_quote(trace, argument, quoted);
        }
        bool is_two = argument >= 0 && trace_node(trace, argument)->next >= 0;
        if (is_two && (strcmp(name, "max") == 0 || strcmp(name, "min") == 0)) {
            return TRACE_FAIL(trace, node,
                              "%s(…) is over v.in_edges: %s(… for e in v.in_edges); of two rows: %simum(x, y)", name,
                              name, name);
        }
        return TRACE_FAIL(trace, node,
                          "%s(…) is over v.in_edges: %s(… for e in v.in_edges); columns of one row: sum_columns(%s)",
                          name, name, quoted);
    }
    char instead[TRACE_FOREIGN_BYTES];
    if (trace_foreign(name, instead)) {
        return TRACE_FAIL(trace, node, "no function %s%s", name, instead);
    }
    return trace_unknown(trace, trace_node(trace, node)->a, "function", name, &nearest);
}

static const struct word *word_find(const char *name)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i].name, name) == 0) {
            return &words[i];
        }
    }
    return NULL;
}

bool trace_word_known(const char *name)
{
    return word_find(name) != NULL;
}

const char *trace_word_at(int index)
{
    return index < (int)(sizeof words / sizeof *words) ? words[index].name : NULL;
}

void trace_word_form(int index, char out[64])
{
    enum form form = words[index].form;
    int n = snprintf(out, 64, "%s(", words[index].name);
    for (int i = 0; i < forms[form].n_required; i++) {
        n += snprintf(out + n, 64 - (size_t)n, "%s%s", i > 0 ? ", " : "", forms[form].name[i]);
    }
    snprintf(out + n, 64 - (size_t)n, "%s)", forms[form].n_required == 0 ? "…" : "");
}

enum status trace_word(struct trace *trace, int32_t node, struct value *out)
{
    char name[VERTEX_NAME_BYTES];
    int32_t argument[TRACE_N_ARGUMENT], left = -1, right = -1;
    trace_name(trace, trace_node(trace, trace_node(trace, node)->a)->name, name);
    const struct word *word = word_find(name);
    if (word == NULL) {
        bool draws = strcmp(name, "uniform") == 0 || strcmp(name, "constant") == 0;
        return draws ? trace_drawn(trace, node, name, out) : unknown_function(trace, node, name);
    }
    if (word->form == NAMES) {
        return word_names(trace, node, out);
    }
    *out = (struct value){.kind = VALUE_OP, .op = -1};
    if (word->form == PARAM || word->form == CONCAT) {
        out->op = 0;
        return word->form == PARAM ? trace_param(trace, node, &out->op) : word_concat(trace, node, &out->op);
    }
    enum status status = bind(trace, node, word, argument);
    if (status != STATUS_OK) {
        return status;
    }
    switch (word->form) {
    case OUTPUT:
        return word_output(trace, argument, &out->op);
    case LINEAR:
        return trace_linear(trace, node, argument, &out->op);
    case NORM:
        return trace_norm(trace, node, word->op, argument, &out->op);
    case DOT:
        status = trace_row(trace, argument[0], &left);
        if (status == STATUS_OK) {
            status = trace_row(trace, argument[1], &right);
        }
        if (status != STATUS_OK) {
            return status;
        }
        return trace_binary(trace, node, VERTEX_OP_DOT, left, right, &out->op);
    case ELEMENT:
    case SLOPE:
    case CLAMP:
    case PAIR:
        return word_element(trace, node, word, argument, out);
    default:
        return word_row(trace, node, word, argument, &out->op);
    }
}

/* --- reductions --- */

enum status trace_reduce(struct trace *trace, int32_t node, struct value *out)
{
    static const struct {
        const char *name;
        enum vertex_op_kind kind;
    } kinds[] = {{"sum", VERTEX_OP_SUM}, {"mean", VERTEX_OP_MEAN}, {"max", VERTEX_OP_MAX},
                 {"min", VERTEX_OP_MIN}, {"var", VERTEX_OP_VAR},   {"std", VERTEX_OP_STD}};
    const struct vertex_node *of = trace_node(trace, node);
    struct value owner;
    char name[VERTEX_NAME_BYTES];
    size_t kind = 0;
    trace_name(trace, of->name, name);
    while (kind < sizeof kinds / sizeof *kinds && strcmp(kinds[kind].name, name) != 0) {
        kind++;
    }
    if (kind == sizeof kinds / sizeof *kinds) {
        return TRACE_FAIL(trace, node, "%s is over edges; expected sum, mean, max, min, var or std", name);
    }
    enum status status = trace_value(trace, of->b, &owner);
    if (status == STATUS_OK && (owner.kind != VALUE_NODE || trace->over_edges)) {
        return trace->over_edges ? TRACE_FAIL(trace, node, "a layer sees one hop; use two layers")
                                 : trace_refuse(trace, of->b, &owner, "v, whose edges are v.in_edges");
    }
    struct vertex_op op = {.kind = kinds[kind].kind, .place = VERTEX_PLACE_NODE, .in = {-1, -1, -1}, .relation = -1};
    int64_t relation = -1;
    if (status == STATUS_OK && of->c >= 0) {
        int64_t n = trace->facts->n_relation;
        status = trace_whole(trace, of->c, "a relation", 0, n > 0 ? n - 1 : n == 0 ? 0 : INT32_MAX, &relation);
        op.relation = (int32_t)relation;
    }
    if (status != STATUS_OK) {
        return status;
    }
    struct value *edge = &trace->frame->slot[of->slot], before = *edge;
    *edge = (struct value){.kind = VALUE_EDGE};
    trace->over_edges = true;
    status = trace_row(trace, of->a, &op.in[0]);
    trace->over_edges = false;
    *edge = before;
    if (status != STATUS_OK) {
        return status;
    }
    const struct vertex_op *x = &trace->out.op[op.in[0]];
    if (x->place == VERTEX_PLACE_NODE) {
        return trace_fail_quoted(trace, of->a, of->a,
                                 "belongs to nodes; expected a value of edges, such as one of e.src");
    }
    op.shape = x->shape;
    *out = (struct value){.kind = VALUE_OP};
    return trace_op(trace, node, op, &out->op);
}
