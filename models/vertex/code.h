/* A tile program under construction: operations in the order in which they run, each with a buffer of its own, before
 * they share registers.
 */
#ifndef MODELS_VERTEX_CODE_H
#define MODELS_VERTEX_CODE_H

#include "models/tile/tile.h"

/* heads × columns somewhere: of a TILE_REGISTER `which` is the buffer. TILE_ROW: `which` is an enum tile_rows, or
 * TILE_ROWS_N + a leaf, whose place is known when all are. */
struct code_value {
    struct tile_operand at;
    int64_t n_head, n_column;
};

struct code_instruction {
    struct tile_instruction of;
    int buffer;      /* of the result */
    bool sums_heads; /* a contraction over heads, not over columns */
};

/* Rows that are read of a value of the model's program. */
struct code_leaf {
    int value;          /* of the program */
    enum tile_rows end; /* IN_0: at the source, IN_2: at the destination */
    int64_t width;
    bool wants_gradient;
    enum tile_rows rows; /* the array, and the first float in its rows: known when all leaves are */
    int64_t at;
};

/* The gradient of what lies in a buffer, or at a leaf; NONE: it is 0. */
struct code_gradient {
    struct code_value of; /* the leaf */
    struct code_value is;
    bool there, owned; /* owned: nothing else reads it, so that it is added to in place */
};

struct code {
    int n_instruction, n_result, n_buffer, n_leaf, n_gradient;
    struct code_instruction *instruction;
    struct tile_result *result; /* operands as of code_value; GRAD_IN_0: of leaf `which` */
    int64_t *buffer;            /* floats */
    struct code_leaf *leaf;
    struct code_gradient *gradient; /* of leaves: rows and weights */
    bool param_trains[TILE_N_PARAM];
    int64_t n_draw; /* of dropout, for each row */
    bool overflows; /* more instructions, or floats, than a tile may have: nothing is appended any more */
};

void code_release(struct code *code);

/* A copy, as deep. */
void code_copy(const struct code *from, struct code *out);

struct code_value code_number(double number);
struct code_value code_row(enum tile_rows rows, int64_t at, int64_t n_head, int64_t n_column);
/* All of a program's value, at an end (nodes: IN_0). */
struct code_value code_leaf(struct code *code, int value, enum tile_rows end, bool wants_gradient, int64_t n_head,
                            int64_t n_column);

/* Is the value side by side, so that it may have other heads? */
bool code_is_flat(const struct code_value *value);

/* Results, in fresh buffers; operands of one head, or column, are repeated. */
struct code_value code_unary(struct code *code, enum tile_op op, struct code_value a, double first, double second);
struct code_value code_binary(struct code *code, enum tile_op op, struct code_value a, struct code_value b);
/* Σ over columns of a · b, of each head: heads × 1 */
struct code_value code_dot(struct code *code, struct code_value a, struct code_value b);
/* Σ over heads of a · b, which may be a number: 1 × columns */
struct code_value code_sum_heads(struct code *code, struct code_value a, struct code_value b);
/* Each head times a matrix of its own or (n_head 1) the same: b's head, inner (input) and column (output) steps */
struct code_value code_product(struct code *code, struct code_value a, struct tile_operand matrix, int64_t f_out);
/* Side by side, of each head. */
struct code_value code_concat(struct code *code, struct code_value a, struct code_value b);
/* The same numbers as heads. */
struct code_value code_reshape(struct code *code, struct code_value a, int64_t n_head);

/* What leaves. */
void code_result(struct code *code, struct code_value from, struct tile_result result);
/* The same by SOFTMAX of scores, each of as many numbers of `from` side by side. */
void code_result_softmax(struct code *code, struct code_value from, struct code_value scores);

/* A value whose gradient is given. */
struct code_root {
    struct code_value value, gradient;
};

/* code_adjoint.c: append what computes the gradients of all leaves and weights that want one, given those of roots,
 * and the results that add them up: rows' to GRAD_IN_0 or GRAD_IN_2 of their end, where `ends` has the bit of it, and
 * weights' where `params`. false: a matrix that is no weight itself wants one. */
bool code_differentiate(struct code *code, int n_root, const struct code_root *root, unsigned ends, bool params);

/* Leaves have their rows. The tile with what the results need, in as few registers as fit.
 * owns  the caller owns *out: tile_release */
void code_tile(const struct code *code, struct tile *out);

#endif
