/* A trace under construction: shared by the trace_*.c files. */
#ifndef PROTOCOL_VERTEX_TRACE_STATE_H
#define PROTOCOL_VERTEX_TRACE_STATE_H

#include "protocol/base/mistakes.h"
#include "protocol/vertex/trace.h"

/* What an expression is while it is traced. Numbers that only the data knows are NAN. */
enum value_kind {
    VALUE_NONE,     /* a variable that is not assigned yet */
    VALUE_NUMBER,   /* known before training: number */
    VALUE_BOOL,     /* number: 0, 1, or NAN */
    VALUE_TEXT,     /* text */
    VALUE_OP,       /* op */
    VALUE_INIT,     /* init, number: how a weight is drawn */
    VALUE_NODE,     /* v */
    VALUE_EDGE,     /* e */
    VALUE_SOURCE,   /* e.src */
    VALUE_TARGET,   /* e.dst */
    VALUE_RELATION, /* e.relation */
    VALUE_TYPE,     /* v.type */
    VALUE_GRAPH,    /* graph */
};

struct value {
    enum value_kind kind;
    enum vertex_init init;
    double number;
    const char *text;
    int32_t op;
};

struct frame {
    const struct vertex_function *function;
    struct value *slot;
    struct value result; /* NONE: no return so far */
};

struct trace {
    const struct vertex_tree *tree;
    const struct vertex_args *args;
    const struct vertex_facts *facts;
    struct vertex_trace out;
    struct frame *frame; /* the function that is traced */
    int depth;           /* of expressions, blocks and calls */
    struct vertex_budget *budget, own;
    int n_step_most; /* what the budget began with */
    int32_t n_op_most;
    bool over_edges;      /* in a reduction */
    int32_t *field;       /* by name: the operation of v.NAME; -1: not assigned yet */
    struct value *global; /* by name: settings */
    int32_t *function_of; /* by name; -1: no function has it */
    bool *active;         /* by function: it is being traced */
    void *same;           /* finds an equal operation (tsearch) */
    char **text;          /* made by names(…) */
    int32_t n_text;
};

#define TRACE_DEPTH_MOST 512

static inline const struct vertex_node *trace_node(const struct trace *trace, int32_t node)
{
    return &trace->tree->node[node];
}

/* No error: the data decides what follows, and a check without data ends here. */
#define TRACE_STOPPED STATUS_INTERRUPTED

/* trace_expression.c */
enum status trace_value(struct trace *trace, int32_t node, struct value *out);
/* The same, of which something else is expected than what it may be: */
enum status trace_number(struct trace *trace, int32_t node, const char *what, double *out);
enum status trace_whole(struct trace *trace, int32_t node, const char *what, int64_t least, int64_t most,
                        int64_t *out);                                   /* VERTEX_UNKNOWN where the data has it */
enum status trace_truth(struct trace *trace, int32_t node, double *out); /* 0, 1, or NAN */
enum status trace_row(struct trace *trace, int32_t node, int32_t *out);  /* an operation; a number becomes one */
enum status trace_row_make(struct trace *trace, int32_t node, const struct value *value, int32_t *out);
enum status trace_text(struct trace *trace, int32_t node, const char *what, const char **out);
/* What a value is, for messages: "one of edges". */
const char *trace_value_text(const struct trace *trace, const struct value *value);
/* Fail: a node's value is not what is expected. */
enum status trace_refuse(struct trace *trace, int32_t node, const struct value *value, const char *what);

/* Fail at a node: "TEXT WHAT", with the text of another, or of the same. */
enum status trace_fail_quoted(const struct trace *trace, int32_t node, int32_t of, const char *what);

/* trace_names.c: a variable, setting or word; a.name; W[index]; x[:, a:b] */
enum status trace_name_value(struct trace *trace, int32_t node, struct value *out);
enum status trace_field(struct trace *trace, int32_t node, struct value *out);
enum status trace_slice(struct trace *trace, int32_t node, struct value *out);
enum status trace_columns(struct trace *trace, int32_t node, struct value *out);

/* trace.c: call a function of the text with the nodes of a list as arguments */
enum status trace_call(struct trace *trace, int32_t node, int32_t function, struct value *out);

/* trace_statement.c: statements, from `first` on */
enum status trace_block(struct trace *trace, int32_t first);

/* trace_words.c: functions of words.def, and reductions; trace_method.c: methods */
enum status trace_word(struct trace *trace, int32_t node, struct value *out);
bool trace_word_known(const char *name);
const char *trace_word_at(int index);          /* the words in order; NULL behind the last */
void trace_word_form(int index, char out[64]); /* "relu(x)", "linear(name, x, out)" */
enum status trace_method(struct trace *trace, int32_t node, struct value *out);
enum status trace_reduce(struct trace *trace, int32_t node, struct value *out);

/* trace_weights.c: linear, param, layer_norm and batch_norm, by arguments of their form (-1: left out); glorot,
 * kaiming, zeros, ones; uniform(bound), constant(value) */
#define TRACE_N_ARGUMENT 6
enum status trace_linear(struct trace *trace, int32_t node, const int32_t argument[TRACE_N_ARGUMENT], int32_t *out);
enum status trace_param(struct trace *trace, int32_t node, int32_t *out);
enum status trace_norm(struct trace *trace, int32_t node, enum vertex_op_kind kind,
                       const int32_t argument[TRACE_N_ARGUMENT], int32_t *out);
bool trace_init_find(const char *name, struct value *out);
enum status trace_drawn(struct trace *trace, int32_t node, const char *name, struct value *out);

/* trace_ops.c: append an operation, or find an equal one; in[] are operations. Shapes and places are checked, and
 * messages are at `node`. */
enum status trace_op(struct trace *trace, int32_t node, struct vertex_op op, int32_t *out);
enum status trace_binary(struct trace *trace, int32_t node, enum vertex_op_kind kind, int32_t left, int32_t right,
                         int32_t *out);
/* One without inputs. */
enum status trace_leaf(struct trace *trace, int32_t node, enum vertex_op_kind kind, enum vertex_place place,
                       int64_t columns, double number, int32_t *out);
/* An operation on one row of the same place, with another shape. */
enum status trace_unary(struct trace *trace, int32_t node, enum vertex_op_kind kind, int32_t in,
                        struct vertex_shape shape, int32_t *out);
enum status trace_weight(struct trace *trace, int32_t node, const struct vertex_weight *weight, int32_t *out);

struct vertex_shape shape_make(int64_t heads, int64_t columns); /* heads 0: columns alone */
int64_t shape_columns(const struct vertex_shape *shape);
int64_t shape_heads(const struct vertex_shape *shape); /* 0: a row without heads */
int64_t shape_size(const struct vertex_shape *shape);  /* VERTEX_UNKNOWN where a dimension is */
/* "32 columns", "4 heads × 8 columns"; of weights "2 × 3 × 4" */
#define SHAPE_TEXT_BYTES 128
void shape_text(const struct vertex_shape *shape, bool is_row, char out[SHAPE_TEXT_BYTES]);

/* Messages: at a node; with the nearest of the names. */
#define TRACE_FAIL(trace, number, ...)                                                                               \
    vertex_fail(&(trace)->tree->source, (trace)->tree->node[number].at, __VA_ARGS__)
void trace_quote(const struct trace *trace, int32_t node, char out[VERTEX_QUOTE_BYTES]);

/* Fail at a node: "there is no WHAT NAME", with the nearest of the names that were offered. */
enum status trace_unknown(const struct trace *trace, int32_t node, const char *what, const char *name,
                          const struct nearest *nearest);

/* What programs have in place of another library's name, "; write relu(x)"; false, and "": unknown. */
#define TRACE_FOREIGN_BYTES 128
bool trace_foreign(const char *name, char out[TRACE_FOREIGN_BYTES]);

/* A name's text. */
void trace_name(const struct trace *trace, int32_t name, char out[VERTEX_NAME_BYTES]);

/* Take steps of the budget: for work that grows with the text. */
enum status trace_charge(struct trace *trace, int32_t node, int64_t n_step);

/* A copy of n bytes that lives as long as the trace. / of a name of the text, for a message */
enum status trace_keep(struct trace *trace, int32_t node, const char *text, size_t n, const char **out);
const char *trace_keep_name(struct trace *trace, int32_t name);

#endif
