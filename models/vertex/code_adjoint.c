/* Reverse accumulation: the gradients of a tile program's rows and weights, as further operations of it. */
#include "models/vertex/code_state.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <stdlib.h>
#include <string.h>

struct differentiation {
    struct code *code;
    struct code_gradient *buffer; /* by buffer that forward has */
    bool params, fails;
};

/* Sums over the heads, or columns, that an operand has one of. */
static struct code_value reduced(struct code *code, struct code_value gradient, const struct code_value *operand)
{
    if (operand->n_column == 1 && gradient.n_column > 1) {
        gradient = code_dot(code, gradient, code_number(1.0));
    }
    return operand->n_head == 1 && gradient.n_head > 1 ? code_sum_heads(code, gradient, code_number(1.0)) : gradient;
}

static bool is_same(const struct code_value *a, const struct code_value *b)
{
    return a->at.kind == b->at.kind && a->at.which == b->at.which && a->at.at == b->at.at &&
           a->at.head == b->at.head && a->n_head == b->n_head && a->n_column == b->n_column;
}

static struct code_gradient *leaf_gradient(struct code *code, const struct code_value *of)
{
    int g = 0;
    while (g < code->n_gradient && !is_same(&code->gradient[g].of, of)) {
        g++;
    }
    if (g == code->n_gradient) {
        code->gradient = memory_list_grow(code->gradient, code->n_gradient, sizeof *code->gradient);
        code->gradient[code->n_gradient++] = (struct code_gradient){.of = *of};
    }
    return &code->gradient[g];
}

static void add_in_place(struct code *code, struct code_value to, struct code_value gradient)
{
    const struct tile_instruction of = {.op = TILE_OP_ADD,
                                        .n_head = to.n_head,
                                        .n_column = to.n_column,
                                        .n_inner = 1,
                                        .a = code_repeated(&to, to.n_head, to.n_column),
                                        .b = code_repeated(&gradient, to.n_head, to.n_column),
                                        .out = to.at.at,
                                        .out_head = to.at.head};
    code_append(code, &of, to.at.which);
}

/* gradient (+)= more, for all of what it is of */
static void gradient_add(struct code *code, struct code_gradient *gradient, struct code_value more)
{
    if (!gradient->there) {
        *gradient = (struct code_gradient){gradient->of, more, .there = true};
    } else if (gradient->owned) {
        add_in_place(code, gradient->is, more);
    } else {
        gradient->is = code_binary(code, TILE_OP_ADD, gradient->is, more);
        gradient->owned = true;
    }
}

/* To a part of a buffer: the rest of its gradient begins as 0. */
static void buffer_add(struct differentiation *d, const struct code_value *operand, struct code_value more)
{
    struct code *code = d->code;
    struct code_gradient *gradient = &d->buffer[operand->at.which];
    int64_t n = code->buffer[operand->at.which];
    bool whole = operand->at.at == 0 && code_is_flat(operand) && operand->n_head * operand->n_column == n;
    if (whole) {
        gradient_add(code, gradient, code_reshape(code, more, 1));
        return;
    }
    if (!gradient->there || !gradient->owned) {
        struct code_value start = gradient->there ? gradient->is : code_number(0.0);
        start.n_column = n; /* a number is repeated */
        gradient->is = code_unary(code, TILE_OP_COPY, start, 0.0, 0.0);
        gradient->there = gradient->owned = true;
    }
    struct code_value part = code_in_buffer(gradient->is.at.which, operand->at.at, operand->at.head, operand->n_head,
                                            operand->n_column);
    add_in_place(code, part, more);
}

static bool wants(const struct differentiation *d, const struct code_value *operand)
{
    switch (operand->at.kind) {
    case TILE_REGISTER:
        return true;
    case TILE_ROW:
        return operand->at.which >= TILE_ROWS_N && d->code->leaf[operand->at.which - TILE_ROWS_N].wants_gradient;
    case TILE_PARAM:
        return d->params && d->code->param_trains[operand->at.which];
    case TILE_NUMBER:
        break;
    }
    return false;
}

/* An operand by its steps over two loops of an instruction, with one head or column where it is repeated. */
static struct code_value value_over(const struct tile_operand *o, int64_t head, int64_t n_head, int64_t column,
                                    int64_t n_column)
{
    struct code_value out = {*o, head != 0 ? n_head : 1, column != 0 ? n_column : 1};
    out.at.head = out.n_head > 1 ? head : out.n_column;
    out.at.column = 1;
    out.at.inner = 0;
    return out;
}

/* The value that an operand of an instruction is. */
static struct code_value operand_value(const struct tile_instruction *i, const struct tile_operand *o)
{
    return value_over(o, o->head, i->n_head, o->column, i->n_column);
}

static void give(struct differentiation *d, const struct code_value *operand, struct code_value gradient)
{
    if (!wants(d, operand)) {
        return;
    }
    gradient = reduced(d->code, gradient, operand);
    if (operand->at.kind == TILE_REGISTER) {
        buffer_add(d, operand, gradient);
    } else {
        gradient_add(d->code, leaf_gradient(d->code, operand), gradient);
    }
}

/* dW[k, c] += a[k] g[c] of each head */
static void give_matrix(struct differentiation *d, const struct tile_instruction *i, struct code_value g)
{
    struct code *code = d->code;
    if (i->b.kind != TILE_PARAM) {
        d->fails = d->fails || i->b.kind != TILE_NUMBER;
        return;
    }
    if (!d->params || !code->param_trains[i->b.which]) {
        return;
    }
    struct code_value a = {i->a, i->a.head != 0 ? i->n_head : 1, i->n_inner};
    a.at.column = i->a.inner;
    a.at.inner = 0;
    a = code_side_by_side(code, a);
    g = code_side_by_side(code, g);
    for (int64_t h = 0; h < i->n_head; h++) {
        struct tile_result of = {.target = TILE_TARGET_PARAM,
                                 .which = i->b.which,
                                 .at = i->b.at + h * i->b.head,
                                 .from = a.at,
                                 .n = i->n_inner,
                                 .with = g.at,
                                 .n_with = i->n_column,
                                 .step = i->b.inner,
                                 .step_with = i->b.column};
        of.from.at += (a.n_head > 1 ? h : 0) * i->n_inner;
        of.with.at += h * i->n_column;
        code_result_append(code, &of);
    }
}

/* Σ_c g[h, c] y[h, c, k], heads × k: the gradient of an operand that is the same for all columns. */
static void give_inner(struct differentiation *d, const struct tile_instruction *i, const struct tile_operand *x,
                       const struct tile_operand *y, const struct code_value *g)
{
    struct tile_operand gradient = code_repeated(g, i->n_head, i->n_column), other = *y;
    struct code_value to = value_over(x, x->head, i->n_head, x->inner, i->n_inner);
    if (!wants(d, &to)) {
        return;
    }
    gradient.inner = gradient.column;
    gradient.column = 0;
    other.inner = y->column;
    other.column = y->inner;
    give(d, &to,
         code_result_add(d->code, (struct tile_instruction){.op = TILE_OP_CONTRACT,
                                                            .n_head = i->n_head,
                                                            .n_column = i->n_inner,
                                                            .n_inner = i->n_column,
                                                            .a = gradient,
                                                            .b = other}));
}

/* An operand of a sum over heads, as heads × columns. */
static struct code_value heads_value(const struct tile_instruction *i, const struct tile_operand *o)
{
    return value_over(o, o->inner, i->n_inner, o->column, i->n_column);
}

/* da[k, c] = g[c] b[k, c] */
static void heads_back(struct differentiation *d, const struct tile_instruction *i, struct code_value g)
{
    struct code_value value[2] = {heads_value(i, &i->a), heads_value(i, &i->b)};
    for (int k = 0; k < 2; k++) {
        if (wants(d, &value[k])) {
            struct code_value share = code_binary(d->code, TILE_OP_MULTIPLY, g, value[1 - k]);
            if (share.n_head < value[k].n_head) { /* the same for all heads */
                struct code_value ones = value[k];
                ones.at = code_number(1.0).at;
                share = code_binary(d->code, TILE_OP_MULTIPLY, share, ones);
            }
            give(d, &value[k], share);
        }
    }
}

static void contract_back(struct differentiation *d, const struct tile_instruction *i, struct code_value g)
{
    give_inner(d, i, &i->a, &i->b, &g);
    if (i->b.column != 0) {
        give_matrix(d, i, g);
    } else {
        give_inner(d, i, &i->b, &i->a, &g);
    }
}

/* What reads the operand of f(a) again: a itself, or the result y. */
static const struct {
    enum tile_op op;
    bool of_result;
} backs[TILE_OP_N] = {
    [TILE_OP_RELU] = {TILE_OP_RELU_BACK, false},   [TILE_OP_LEAKY_RELU] = {TILE_OP_LEAKY_RELU_BACK, false},
    [TILE_OP_ELU] = {TILE_OP_ELU_BACK, true},      [TILE_OP_GELU] = {TILE_OP_GELU_BACK, false},
    [TILE_OP_SILU] = {TILE_OP_SILU_BACK, false},   [TILE_OP_SIGMOID] = {TILE_OP_SIGMOID_BACK, true},
    [TILE_OP_TANH] = {TILE_OP_TANH_BACK, true},    [TILE_OP_SOFTPLUS] = {TILE_OP_SOFTPLUS_BACK, false},
    [TILE_OP_EXP] = {TILE_OP_MULTIPLY, true},      [TILE_OP_LOG] = {TILE_OP_DIVIDE, false},
    [TILE_OP_SQRT] = {TILE_OP_SQRT_BACK, true},    [TILE_OP_ABS] = {TILE_OP_ABS_BACK, false},
    [TILE_OP_CLAMP] = {TILE_OP_CLAMP_BACK, false}, [TILE_OP_POWER] = {TILE_OP_POWER_BACK, false},
};

static void binary_back(struct differentiation *d, const struct tile_instruction *i, const struct code_value *y,
                        struct code_value g)
{
    struct code *code = d->code;
    struct code_value a = operand_value(i, &i->a), b = operand_value(i, &i->b), share;
    switch (i->op) {
    case TILE_OP_ADD:
        give(d, &a, g);
        give(d, &b, g);
        return;
    case TILE_OP_SUBTRACT:
        give(d, &a, g);
        if (wants(d, &b)) {
            give(d, &b, code_binary(code, TILE_OP_MULTIPLY, reduced(code, g, &b), code_number(-1.0)));
        }
        return;
    case TILE_OP_MULTIPLY:
        if (wants(d, &a)) {
            give(d, &a, code_binary(code, TILE_OP_MULTIPLY, g, b));
        }
        if (wants(d, &b)) {
            give(d, &b, code_binary(code, TILE_OP_MULTIPLY, g, a));
        }
        return;
    case TILE_OP_DIVIDE:
        share = code_binary(code, TILE_OP_DIVIDE, g, b);
        give(d, &a, share);
        if (wants(d, &b)) {
            share = code_binary(code, TILE_OP_MULTIPLY, share, *y);
            give(d, &b, code_binary(code, TILE_OP_MULTIPLY, share, code_number(-1.0)));
        }
        return;
    case TILE_OP_RELU_BACK: /* a gate: b opens it */
        if (wants(d, &a)) {
            give(d, &a, code_binary(code, TILE_OP_RELU_BACK, g, b));
        }
        return;
    case TILE_OP_MINIMUM:
    case TILE_OP_MAXIMUM:
        for (int turn = 0; turn < 2; turn++) {
            bool less = (i->op == TILE_OP_MINIMUM) == (turn == 0);
            if (wants(d, turn == 0 ? &a : &b)) {
                share = code_binary(code, TILE_OP_LESS, less ? a : b, less ? b : a);
                give(d, turn == 0 ? &a : &b, code_binary(code, TILE_OP_MULTIPLY, g, share));
            }
        }
        return;
    default:
        ASSERT(!"an operation without a gradient");
    }
}

static void unary_back(struct differentiation *d, const struct tile_instruction *i, struct code_value y,
                       struct code_value g)
{
    struct code_value a = operand_value(i, &i->a);
    if (i->op != TILE_OP_COPY && wants(d, &a)) {
        const bool drops = i->op == TILE_OP_DROP;
        g = drops ? code_unary(d->code, i->op, g, 0.0, 0.0)
                  : code_binary(d->code, backs[i->op].op, g, backs[i->op].of_result ? y : a);
        memcpy(d->code->instruction[d->code->n_instruction - 1].of.number, i->number, sizeof i->number);
    }
    give(d, &a, g);
}

static void instruction_back(struct differentiation *d, const struct code_instruction *at)
{
    const struct tile_instruction *i = &at->of;
    const struct code_gradient *gradient = &d->buffer[at->buffer];
    if (!gradient->there) {
        return;
    }
    struct code_value g = code_in_buffer(gradient->is.at.which, gradient->is.at.at + i->out, i->out_head, i->n_head,
                                         i->n_column);
    g.at.kind = gradient->is.at.kind; /* a register, or rows */
    struct code_value y = code_in_buffer(at->buffer, i->out, i->out_head, i->n_head, i->n_column);
    if (at->sums_heads) {
        heads_back(d, i, g);
    } else if (i->op == TILE_OP_CONTRACT) {
        contract_back(d, i, g);
    } else if (tile_op_n_operand(i->op) == 2) {
        binary_back(d, i, &y, g);
    } else {
        unary_back(d, i, y, g);
    }
}

/* Rows of heads that lie apart are several results. */
static void leaf_result(struct code *code, const struct code_gradient *gradient, struct tile_result result)
{
    const struct code_value *of = &gradient->of;
    struct code_value is = gradient->is;
    if (code_is_flat(of)) {
        result.at = of->at.at;
        code_result(code, is, result);
        return;
    }
    for (int64_t h = 0; h < of->n_head; h++) {
        struct code_value head = is;
        head.at.at = is.at.at + h * is.at.head;
        head.n_head = 1;
        result.at = of->at.at + h * of->at.head;
        code_result(code, head, result);
    }
}

bool code_differentiate(struct code *code, int n_root, const struct code_root *root, unsigned ends, bool params)
{
    struct differentiation d = {.code = code, .params = params};
    const int n = code->n_instruction;
    d.buffer = memory_alloc((size_t)code->n_buffer + 1, sizeof *d.buffer);
    for (int leaf = 0; leaf < code->n_leaf; leaf++) {
        code->leaf[leaf].wants_gradient = code->leaf[leaf].wants_gradient && (ends >> code->leaf[leaf].end & 1) != 0;
    }
    for (int k = 0; k < n_root; k++) {
        give(&d, &root[k].value, root[k].gradient);
    }
    for (int i = n - 1; i >= 0; i--) {
        struct code_instruction at = code->instruction[i]; /* the list grows */
        instruction_back(&d, &at);
    }
    for (int g = 0; g < code->n_gradient; g++) {
        const struct code_gradient leaf = code->gradient[g];
        struct tile_result result = {.target = TILE_TARGET_PARAM, .which = leaf.of.at.which};
        if (leaf.of.at.kind == TILE_ROW) {
            result.which = leaf.of.at.which - TILE_ROWS_N; /* the leaf, whose place is not known yet */
            result.target = TILE_TARGET_GRAD_IN_0;
        }
        if (leaf.there) {
            leaf_result(code, &leaf, result);
        }
    }
    free(d.buffer);
    return !d.fails;
}
