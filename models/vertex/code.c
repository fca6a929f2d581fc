/* Operations of a tile program, appended one after another. */
#include "models/vertex/code_state.h"

#include "protocol/base/memory.h"

#include <stdlib.h>
#include <string.h>

void code_release(struct code *code)
{
    free(code->instruction);
    free(code->result);
    free(code->buffer);
    free(code->leaf);
    free(code->gradient);
    *code = (struct code){0};
}

static void *copied(const void *from, int n, size_t size)
{
    void *out = NULL;
    for (int i = 0; i < n; i++) {
        out = memory_list_grow(out, i, size);
    }
    if (n > 0) {
        memcpy(out, from, (size_t)n * size);
    }
    return out;
}

void code_copy(const struct code *from, struct code *out)
{
    *out = *from;
    out->instruction = copied(from->instruction, from->n_instruction, sizeof *from->instruction);
    out->result = copied(from->result, from->n_result, sizeof *from->result);
    out->buffer = copied(from->buffer, from->n_buffer, sizeof *from->buffer);
    out->leaf = copied(from->leaf, from->n_leaf, sizeof *from->leaf);
    out->gradient = copied(from->gradient, from->n_gradient, sizeof *from->gradient);
}

/* --- values --- */

struct code_value code_number(double number)
{
    return (struct code_value){{.kind = TILE_NUMBER, .number = (float)number}, 1, 1};
}

struct code_value code_row(enum tile_rows rows, int64_t at, int64_t n_head, int64_t n_column)
{
    return (struct code_value){
        {.kind = TILE_ROW, .which = (int)rows, .at = at, .head = n_column, .column = 1}, n_head, n_column};
}

struct code_value code_leaf(struct code *code, int value, enum tile_rows end, bool wants_gradient, int64_t n_head,
                            int64_t n_column)
{
    int leaf = 0;
    while (leaf < code->n_leaf && (code->leaf[leaf].value != value || code->leaf[leaf].end != end)) {
        leaf++;
    }
    if (leaf == code->n_leaf) {
        code->leaf = memory_list_grow(code->leaf, code->n_leaf, sizeof *code->leaf);
        code->leaf[code->n_leaf++] = (struct code_leaf){
            .value = value, .end = end, .width = n_head * n_column, .wants_gradient = wants_gradient};
    }
    struct code_value out = code_row(TILE_ROWS_IN_0, 0, n_head, n_column);
    out.at.which = TILE_ROWS_N + leaf;
    return out;
}

bool code_is_flat(const struct code_value *value)
{
    return value->at.kind != TILE_NUMBER && (value->n_column == 1 || value->at.column == 1) &&
           (value->n_head == 1 || value->at.head == value->n_column);
}

/* --- instructions --- */

static int buffer_append(struct code *code, int64_t n_float)
{
    code->buffer = memory_list_grow(code->buffer, code->n_buffer, sizeof *code->buffer);
    code->buffer[code->n_buffer] = n_float;
    return code->n_buffer++;
}

/* Heads of one column, side by side, are the columns of one head: loops run over columns. */
static struct tile_instruction flattened(struct tile_instruction of)
{
    if (of.op != TILE_OP_CONTRACT && of.n_column == 1 && of.out_head == 1 && of.a.head <= 1 && of.b.head <= 1) {
        of.n_column = of.n_head;
        of.n_head = 1;
        of.a.column = of.a.head;
        of.b.column = of.b.head;
    }
    return of;
}

void code_append(struct code *code, const struct tile_instruction *of, int buffer)
{
    if (code->n_instruction >= TILE_INSTRUCTION_MOST) {
        code->overflows = true;
        return;
    }
    code->instruction = memory_list_grow(code->instruction, code->n_instruction, sizeof *code->instruction);
    code->instruction[code->n_instruction++] = (struct code_instruction){flattened(*of), buffer, false};
}

struct code_value code_in_buffer(int buffer, int64_t at, int64_t head, int64_t n_head, int64_t n_column)
{
    return (struct code_value){
        {.kind = TILE_REGISTER, .which = buffer, .at = at, .head = head, .column = 1}, n_head, n_column};
}

struct code_value code_result_add(struct code *code, struct tile_instruction of)
{
    int buffer = buffer_append(code, of.n_head * of.n_column);
    of.out_head = of.n_column;
    of.n_inner = of.n_inner > 0 ? of.n_inner : 1;
    code_append(code, &of, buffer);
    return code_in_buffer(buffer, 0, of.n_column, of.n_head, of.n_column);
}

struct tile_operand code_repeated(const struct code_value *value, int64_t n_head, int64_t n_column)
{
    struct tile_operand out = value->at;
    out.head = value->n_head == n_head && n_head > 1 ? out.head : 0;
    out.column = value->n_column == n_column && n_column > 1 ? out.column : 0;
    return out;
}

struct code_value code_unary(struct code *code, enum tile_op op, struct code_value a, double first, double second)
{
    return code_result_add(code, (struct tile_instruction){.op = op,
                                                           .n_head = a.n_head,
                                                           .n_column = a.n_column,
                                                           .a = code_repeated(&a, a.n_head, a.n_column),
                                                           .number = {(float)first, (float)second}});
}

static bool is_one(const struct code_value *value)
{
    return value->at.kind == TILE_NUMBER && value->at.number == 1.0F;
}

struct code_value code_binary(struct code *code, enum tile_op op, struct code_value a, struct code_value b)
{
    if (op == TILE_OP_MULTIPLY && is_one(&a) && a.n_head <= b.n_head && a.n_column <= b.n_column) {
        return b;
    }
    if (op == TILE_OP_MULTIPLY && is_one(&b) && b.n_head <= a.n_head && b.n_column <= a.n_column) {
        return a;
    }
    int64_t n_head = a.n_head > b.n_head ? a.n_head : b.n_head;
    int64_t n_column = a.n_column > b.n_column ? a.n_column : b.n_column;
    return code_result_add(code, (struct tile_instruction){.op = op,
                                                           .n_head = n_head,
                                                           .n_column = n_column,
                                                           .a = code_repeated(&a, n_head, n_column),
                                                           .b = code_repeated(&b, n_head, n_column)});
}

/* Elements (h, ·, k) */
static struct tile_operand along_columns(const struct code_value *value, int64_t n_head, int64_t n_inner)
{
    struct tile_operand out = code_repeated(value, n_head, n_inner);
    out.inner = out.column;
    out.column = 0;
    return out;
}

struct code_value code_dot(struct code *code, struct code_value a, struct code_value b)
{
    int64_t n_head = a.n_head > b.n_head ? a.n_head : b.n_head;
    int64_t n_inner = a.n_column > b.n_column ? a.n_column : b.n_column;
    return code_result_add(code, (struct tile_instruction){.op = TILE_OP_CONTRACT,
                                                           .n_head = n_head,
                                                           .n_column = 1,
                                                           .n_inner = n_inner,
                                                           .a = along_columns(&a, n_head, n_inner),
                                                           .b = along_columns(&b, n_head, n_inner)});
}

/* Elements (·, c, k) */
static struct tile_operand along_heads(const struct code_value *value, int64_t n_column)
{
    struct tile_operand out = code_repeated(value, value->n_head, n_column);
    out.inner = out.head;
    out.head = 0;
    return out;
}

struct code_value code_sum_heads(struct code *code, struct code_value a, struct code_value b)
{
    int64_t n_column = a.n_column > b.n_column ? a.n_column : b.n_column;
    int n = code->n_instruction;
    struct code_value out = code_result_add(
        code, (struct tile_instruction){.op = TILE_OP_CONTRACT,
                                        .n_head = 1,
                                        .n_column = n_column,
                                        .n_inner = a.n_head > b.n_head ? a.n_head : b.n_head,
                                        .a = along_heads(&a, n_column),
                                        .b = along_heads(&b, n_column)});
    if (code->n_instruction > n) {
        code->instruction[n].sums_heads = true;
    }
    return out;
}

struct code_value code_product(struct code *code, struct code_value a, struct tile_operand matrix, int64_t f_out)
{
    return code_result_add(code, (struct tile_instruction){.op = TILE_OP_CONTRACT,
                                                           .n_head = a.n_head,
                                                           .n_column = f_out,
                                                           .n_inner = a.n_column,
                                                           .a = along_columns(&a, a.n_head, a.n_column),
                                                           .b = matrix});
}

/* Write a value into some columns of each head of a buffer. */
static void copy_into(struct code *code, struct code_value a, int buffer, int64_t at, int64_t head)
{
    const struct tile_instruction of = {.op = TILE_OP_COPY,
                                        .n_head = a.n_head,
                                        .n_column = a.n_column,
                                        .n_inner = 1,
                                        .a = code_repeated(&a, a.n_head, a.n_column),
                                        .out = at,
                                        .out_head = head};
    code_append(code, &of, buffer);
}

struct code_value code_concat(struct code *code, struct code_value a, struct code_value b)
{
    int64_t n_head = a.n_head, n_column = a.n_column + b.n_column;
    int buffer = buffer_append(code, n_head * n_column);
    copy_into(code, a, buffer, 0, n_column);
    copy_into(code, b, buffer, a.n_column, n_column);
    return code_in_buffer(buffer, 0, n_column, n_head, n_column);
}

/* In a buffer of its own, side by side. */
static struct code_value code_copied(struct code *code, struct code_value a)
{
    return code_unary(code, TILE_OP_COPY, a, 0.0, 0.0);
}

struct code_value code_reshape(struct code *code, struct code_value a, int64_t n_head)
{
    int64_t n = a.n_head * a.n_column;
    a = code_is_flat(&a) ? a : code_copied(code, a);
    a.n_head = n_head;
    a.n_column = a.at.head = n / n_head;
    a.at.column = 1;
    return a;
}

void code_result_append(struct code *code, const struct tile_result *of)
{
    code->result = memory_list_grow(code->result, code->n_result, sizeof *code->result);
    code->result[code->n_result++] = *of;
}

struct code_value code_side_by_side(struct code *code, struct code_value value)
{
    value = code_is_flat(&value) ? value : code_copied(code, value);
    value.at.head = 0;
    value.at.column = 1;
    return value;
}

/* Is each of the operand's *n_out numbers repeated for as many of an instruction's, side by side? */
static bool is_factor(const struct tile_instruction *i, const struct tile_operand *o, int64_t *n_out)
{
    const bool by_head = o->column == 0 && (o->head == 1 || i->n_head == 1), one = o->column == 0 && o->head == 0;
    const bool flat = o->column == 1 && (i->n_head == 1 || o->head == i->n_column);
    *n_out = one ? 1 : by_head ? i->n_head : i->n_head * i->n_column;
    return o->kind != TILE_NUMBER && (one || by_head || flat);
}

/* A product that is summed need not be kept: the result has its factors. */
static void product_fold(const struct code *code, struct tile_result *result)
{
    int k = code->n_instruction - 1;
    while (k >= 0 && result->from.kind == TILE_REGISTER && code->instruction[k].buffer != result->from.which) {
        k--;
    }
    const struct tile_instruction *i = k >= 0 ? &code->instruction[k].of : NULL;
    if (result->from.kind != TILE_REGISTER || i == NULL || i->op != TILE_OP_MULTIPLY || result->from.at != 0 ||
        result->n != i->n_head * i->n_column || result->n != code->buffer[result->from.which]) {
        return;
    }
    int64_t n_a, n_b;
    if (is_factor(i, &i->a, &n_a) && is_factor(i, &i->b, &n_b) && (n_a == result->n || n_b == result->n)) {
        const bool swapped = n_a < result->n;
        result->from = swapped ? i->b : i->a;
        result->with = swapped ? i->a : i->b;
        result->n_with = swapped ? n_a : n_b;
        result->from.head = result->with.head = 0;
        result->from.column = result->with.column = 1;
    }
}

void code_result(struct code *code, struct code_value from, struct tile_result result)
{
    from = code_side_by_side(code, from);
    result.from = from.at;
    result.n = from.n_head * from.n_column;
    if (result.target != TILE_TARGET_PARAM && result.reduction == TILE_REDUCTION_SUM) {
        product_fold(code, &result);
    }
    code_result_append(code, &result);
}

void code_result_softmax(struct code *code, struct code_value from, struct code_value scores)
{
    scores = code_side_by_side(code, scores);
    code_result(code, from,
                (struct tile_result){.target = TILE_TARGET_OUT,
                                     .reduction = TILE_REDUCTION_SOFTMAX,
                                     .with = scores.at,
                                     .n_with = scores.n_head * scores.n_column});
}
