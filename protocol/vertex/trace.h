/* What a vertex program does in one layer: the list of its operations after functions are inlined, loops unrolled and
 * statics folded, each operation once.
 *
 * Independent of devices and of the ops of models. An operation is of weights, of nodes (a row for every node) or of
 * edges (a row for every in-edge, which is never stored). The list depends on the text, arguments and facts alone.
 */
#ifndef PROTOCOL_VERTEX_TRACE_H
#define PROTOCOL_VERTEX_TRACE_H

#include "protocol/vertex/tree.h"

#include <stdio.h>

#define VERTEX_OP_MOST 16384    /* operations of a layer, and 5 more for each relation */
#define VERTEX_STEP_MOST 1024   /* of a loop, or as many as relations */
#define VERTEX_WIDTH_MOST 65536 /* columns, heads × columns, of what is wider than v.x */
#define VERTEX_N_DIM 4
#define VERTEX_N_IN 3
#define VERTEX_NAME_BYTES 64
#define VERTEX_STRING_MOST 255 /* bytes of a text in the program */
#define VERTEX_UNKNOWN (-1)    /* a number that only the data knows, in a check without data */

enum vertex_place { VERTEX_PLACE_WEIGHT, VERTEX_PLACE_NODE, VERTEX_PLACE_EDGE };

/* Operations. The functions and methods that users call are words.def. */
/* clang-format off */
#define VERTEX_OP_LIST(X)                                                                                            \
    X(INPUT, "input") X(RELATION_ROW, "relation_row") X(DEGREE, "degree") X(EDGE_WEIGHT, "edge_weight")              \
    X(EDGE_NORM, "edge_norm") X(EDGE_FEATURE, "edge_feature") X(SOURCE, "source") X(TARGET, "target")                \
    X(PARAMETER, "parameter")                                                                                        \
    X(NUMBER, "number")                                                                                              \
    X(RELU, "relu") X(LEAKY_RELU, "leaky_relu") X(ELU, "elu") X(GELU, "gelu") X(SILU, "silu") X(SIGMOID, "sigmoid")  \
    X(TANH, "tanh") X(SOFTPLUS, "softplus") X(EXP, "exp") X(LOG, "log") X(SQRT, "sqrt") X(ABS, "abs")                \
    X(CLAMP, "clamp") X(ADD, "add") X(SUBTRACT, "subtract") X(MULTIPLY, "multiply") X(DIVIDE, "divide")              \
    X(POWER, "power") X(MINIMUM, "minimum") X(MAXIMUM, "maximum") X(GATE, "gate")                                    \
    X(PRODUCT, "product") X(LINEAR, "linear") X(DOT, "dot") X(SUM_COLUMNS, "sum_columns") X(NORM, "norm")            \
    X(NORMALIZE, "normalize") X(LAYER_NORM, "layer_norm") X(BATCH_NORM, "batch_norm") X(CONCAT, "concat")            \
    X(SOFTMAX, "softmax") X(DROPOUT, "dropout") X(HEADS, "heads") X(FLAT, "flat") X(MEAN_HEADS, "mean_heads")        \
    X(SUM_HEADS, "sum_heads") X(COLUMNS, "columns") X(SLICE, "slice")                                                \
    X(SUM, "sum") X(MEAN, "mean") X(MAX, "max") X(MIN, "min") X(VAR, "var") X(STD, "std")
/* clang-format on */

enum vertex_op_kind {
#define X(name, text) VERTEX_OP_##name,
    VERTEX_OP_LIST(X)
#undef X
        VERTEX_OP_N
};

/* Of a row: columns, or heads × columns. Of a weight: all its dimensions. */
struct vertex_shape {
    int n_dim;
    int64_t dim[VERTEX_N_DIM];
};

struct vertex_op {
    enum vertex_op_kind kind;
    enum vertex_place place;
    struct vertex_shape shape;
    int32_t in[VERTEX_N_IN]; /* operations; -1 nothing */
    double number[2];        /* NUMBER; slope, limits, exponent, probability; COLUMNS: from, to; SLICE, INPUT: at */
    int32_t weight;          /* PARAMETER */
    int32_t relation;        /* reductions: of this relation's edges; -1: of all */
    struct vertex_span at;
};

enum vertex_init { VERTEX_INIT_GLOROT, VERTEX_INIT_KAIMING, VERTEX_INIT_UNIFORM, VERTEX_INIT_CONSTANT };

struct vertex_weight {
    char name[VERTEX_NAME_BYTES]; /* as in the text: a layer's number is not in it */
    struct vertex_shape shape;
    enum vertex_init init;
    double number;           /* UNIFORM: the bound; CONSTANT: the value */
    int64_t fan_in, fan_out; /* GLOROT, KAIMING */
    bool trains;
    struct vertex_span at; /* of its first use */
};

/* A value of nodes that a prediction may write (output.embeddings). */
struct vertex_output {
    char name[VERTEX_NAME_BYTES]; /* as in the text */
    int32_t op;
};

struct vertex_trace {
    int32_t n_op, n_weight, n_output;
    struct vertex_op *op;
    struct vertex_weight *weight; /* in the order of the text */
    struct vertex_output *output; /* likewise */
    int32_t out;                  /* the operation that is returned; -1: the data decides what that is */
    bool complete;                /* false: a check without data that ends where the data decides */
};

/* A value of [model.args]. */
#define VERTEX_ARG_BYTES 64
#define VERTEX_ARG_MOST 64
enum vertex_arg_kind { VERTEX_ARG_NUMBER, VERTEX_ARG_BOOL, VERTEX_ARG_TEXT };
struct vertex_arg {
    char name[VERTEX_NAME_BYTES];
    enum vertex_arg_kind kind;
    double number; /* NUMBER, BOOL */
    char text[VERTEX_ARG_BYTES];
};

struct vertex_args {
    int n;
    struct vertex_arg of[VERTEX_ARG_MOST];
};

/* What is left to trace with: steps (about a node of the tree, 0.1 µs), and bytes of texts. */
struct vertex_budget {
    int64_t n_step, n_byte;
};
#define VERTEX_STEPS_MOST 1000000
#define VERTEX_SETTINGS_MOST 20000 /* steps of the settings before the functions */
#define VERTEX_STRINGS_MOST (16 << 20)

/* graph.NAME, and what a layer is traced for. Numbers may be VERTEX_UNKNOWN, means NAN. */
struct vertex_facts {
    int64_t n_in, n_out; /* columns of v.x, of `out` or `classes` */
    int index;           /* of the layer; -1: the text is a whole model */
    bool is_last;
    bool of_pairs; /* the text is score(e, …), of rows of pairs: e.src.x is INPUT 0 and e.dst.x INPUT 1 */
    int64_t n_node, n_edge, n_relation, n_type, n_class, n_edge_feature;
    double mean_degree, mean_log_degree;
    struct vertex_budget *budget; /* of all layers of a job; NULL: one of this layer's own */
};

/* Those of a layer or model before the data is read. */
struct vertex_facts vertex_facts_unknown(void);

/* Is the text a whole model (`model`), or layers for a stack (`layer`)?
 * errors  STATUS_CONFIG it has neither, or both, or its first parameters are others */
enum status vertex_entry(const struct vertex_tree *tree, bool *is_model_out);

/* Is the text a decoder of links?  errors  STATUS_CONFIG it has no function score(e, …) */
enum status vertex_score(const struct vertex_tree *tree);

/* The first line that reads e.FIELD; 0: none does. */
int vertex_reads(const struct vertex_tree *tree, const char *field);

/* Is it a parameter of layer, model or score that a job may give? */
bool vertex_takes(const struct vertex_tree *tree, const char *name);

/* Settings before the functions, such as self_loops = True: a bool by name; `otherwise`: not in the text.
 * errors  STATUS_CONFIG it is no bool */
enum status vertex_setting(const struct vertex_tree *tree, const char *name, bool otherwise, bool *out);

/* Trace the text for these arguments and facts.
 *
 *   owns    the caller owns *out: vertex_trace_release
 *   errors  STATUS_CONFIG "ORIGIN:LINE:COLUMN: …": a name, place or shape that does not fit, a limit; *out untouched
 *   cost    the budget */
enum status vertex_trace_build(const struct vertex_tree *tree, const struct vertex_args *args,
                               const struct vertex_facts *facts, struct vertex_trace *out);
void vertex_trace_release(struct vertex_trace *trace);

bool vertex_shape_equal(const struct vertex_shape *a, const struct vertex_shape *b);

/* The number of an equal operation in the list, or of this one, appended: always of dropout, which draws anew. The
 * list may move. same: finds operations by what they compute; NULL at first.
 *
 *   owns    the caller owns list->op, and *same: vertex_ops_forget
 *   cost    O(log n_op), O(n_op · log n_op) where the list doubles */
int32_t vertex_op_add(struct vertex_trace *list, void **same, const struct vertex_op *op);
void vertex_ops_forget(void **same);

/* One line for each operation: "%3 = add node 8×16 %1 %2". */
void vertex_trace_print(const struct vertex_trace *trace, FILE *file);

#endif
