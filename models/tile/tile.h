/* A tile program: arithmetic on the numbers of one node, or of one edge and its two ends, for many of them at a time.
 *
 * Instructions work on heads × columns in registers, which are floats of a row's own. What they read is a register, a
 * row of an array (of the node; of the edge's source or destination), a weight, or a number. Results leave the
 * registers: they are added up over a row's edges, or over all rows. The same program means the same on every device.
 * Programs are made by models/vertex from users' texts, by each process for itself; tile_check looks at every index.
 */
#ifndef MODELS_TILE_H
#define MODELS_TILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define TILE_N_PARAM 16
#define TILE_INSTRUCTION_MOST 8192
#define TILE_FLOAT_MOST 65536 /* registers of one row */
#define TILE_DRAW_MOST 1024   /* numbers that one row, or edge, draws */

/* NAME, text, operands. f_BACK(g, …): the gradient of what f reads, given that of its result. At borders as the table
 * of docs/programs.md: what is infinite times a gradient of 0 is 0 of SQRT and POWER; SQRT with number[0] = 1 has the
 * slope 0 at 0. */
/* clang-format off */
#define TILE_OP_LIST(X)                                                                                              \
    X(COPY, "copy", 1)                                                                                               \
    X(RELU, "relu", 1) X(LEAKY_RELU, "leaky_relu", 1) X(ELU, "elu", 1) X(GELU, "gelu", 1) X(SILU, "silu", 1)         \
    X(SIGMOID, "sigmoid", 1) X(TANH, "tanh", 1) X(SOFTPLUS, "softplus", 1) X(EXP, "exp", 1) X(LOG, "log", 1)         \
    X(SQRT, "sqrt", 1) X(ABS, "abs", 1) X(CLAMP, "clamp", 1) X(POWER, "power", 1)                                    \
    X(ADD, "add", 2) X(SUBTRACT, "subtract", 2) X(MULTIPLY, "multiply", 2) X(DIVIDE, "divide", 2)                    \
    X(MINIMUM, "minimum", 2) X(MAXIMUM, "maximum", 2)                                                                \
    X(RELU_BACK, "relu_back", 2) X(LEAKY_RELU_BACK, "leaky_relu_back", 2) X(ELU_BACK, "elu_back", 2)                 \
    X(GELU_BACK, "gelu_back", 2) X(SILU_BACK, "silu_back", 2) X(SIGMOID_BACK, "sigmoid_back", 2)                     \
    X(TANH_BACK, "tanh_back", 2) X(SOFTPLUS_BACK, "softplus_back", 2) X(SQRT_BACK, "sqrt_back", 2)                   \
    X(ABS_BACK, "abs_back", 2) X(CLAMP_BACK, "clamp_back", 2) X(POWER_BACK, "power_back", 2)                         \
    X(LESS, "less", 2)           /* 1 where a < b, 1/2 where they are equal, else 0 */                               \
    X(WON, "won", 2)             /* a over the factor of sums where b is the source's node id, else 0 */             \
    X(CONTRACT, "contract", 2)   /* Σ_k a[k] b[k], k ascending */                                                    \
    X(DROP, "drop", 1)           /* dropout: number[0] the probability, number[1] the first draw */
/* clang-format on */

enum tile_op {
#define X(name, text, n) TILE_OP_##name,
    TILE_OP_LIST(X)
#undef X
        TILE_OP_N
};

/* Arrays whose rows a program reads. Of edges: IN_0 at the source, IN_2 at the destination. */
enum tile_rows {
    TILE_ROWS_IN_0,
    TILE_ROWS_IN_1,
    TILE_ROWS_IN_2,
    TILE_ROWS_GRAD,    /* of the op's output */
    TILE_ROWS_SAVED,   /* of the destination: log-sum-exps, and winners' node ids */
    TILE_ROWS_SCALE_0, /* scales of source and destination: one number */
    TILE_ROWS_SCALE_2,
    TILE_ROWS_WEIGHT, /* the edge's: one number */
    TILE_ROWS_FEATURE,
    TILE_ROWS_N
};

enum tile_operand_kind { TILE_REGISTER, TILE_ROW, TILE_PARAM, TILE_NUMBER };

/* Element (h, c), of a contraction (h, c, k), is at + h · head + c · column + k · inner floats behind the first. */
struct tile_operand {
    enum tile_operand_kind kind;
    int which; /* enum tile_rows; parameter */
    int64_t at, head, column, inner;
    float number;
};

struct tile_instruction {
    enum tile_op op;
    int64_t n_head, n_column, n_inner; /* of the result; n_inner: 1 but for CONTRACT */
    int64_t out, out_head;             /* a register: first float, floats from a head to the next */
    struct tile_operand a, b;
    float number[2]; /* slope, limits, exponent */
};

/* Where results go. */
enum tile_target {
    TILE_TARGET_OUT,
    TILE_TARGET_GRAD_IN_0,
    TILE_TARGET_GRAD_IN_1,
    TILE_TARGET_GRAD_IN_2,
    TILE_TARGET_N,
    TILE_TARGET_PARAM = TILE_TARGET_N /* a parameter's gradient: over all rows, or edges */
};

/* Of edges: how the values of a row's edges become one. Rows of nodes are stored: SUM. */
enum tile_reduction {
    TILE_REDUCTION_SUM, /* n_with > 0: each times a factor; `with` has one for as many numbers side by side */
    TILE_REDUCTION_MAX, /* the first greatest in the block's order; node ids of sources at `saved` */
    TILE_REDUCTION_MIN,
    TILE_REDUCTION_LOGSUMEXP, /* also at `saved` */
    TILE_REDUCTION_SOFTMAX    /* Σ y exp(s) / Σ exp(s), with such scores s; at
                               * `saved` the scores' log-sum-exps, and as many zeros */
};

struct tile_result {
    enum tile_target target;
    int which; /* PARAM: which one */
    enum tile_reduction reduction;
    int64_t at, saved; /* first float in the target's row, in the saved row; of a parameter */
    int64_t n, n_with;
    struct tile_operand from; /* n numbers side by side, no TILE_NUMBER */
    struct tile_operand
        with; /* n_with factors or scores. PARAM, n_with > 0: n × n_with products with these, which … */
    int64_t step, step_with; /* … lie at + i · step + j · step_with */
};

struct tile {
    int n_instruction, n_result;
    struct tile_instruction *instruction;
    struct tile_result *result;
    int64_t n_float;               /* registers of a row */
    int64_t width[TILE_ROWS_N];    /* floats of the rows that are read; 0: they are not */
    int64_t target[TILE_TARGET_N]; /* floats of the rows that are written; 0: they are not */
    int64_t param[TILE_N_PARAM];   /* floats of the weights; 0: there are fewer */
    int64_t saved;                 /* floats of a saved row */
    bool scales_mean;              /* OUT's sums are multiplied by the row's scale at the end */
    bool draws;
};

int tile_op_n_operand(enum tile_op op);

/* Is every place that an instruction or result names within its array? */
bool tile_check(const struct tile *tile);

/* One line an instruction and result, for --plan --program and tests. */
void tile_print(const struct tile *tile, FILE *file);

void tile_release(struct tile *tile);

/* Floats of all parameters that get gradients, one behind the other; the first of parameter p's, -1: it gets none. */
int64_t tile_n_grad(const struct tile *tile);
int64_t tile_grad_at(const struct tile *tile, int param);

#endif
