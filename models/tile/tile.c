#include "models/tile/tile.h"

#include <inttypes.h>
#include <stdlib.h>

static const struct {
    const char *text;
    int n_operand;
} ops[] = {
#define X(name, text, n) {text, n},
    TILE_OP_LIST(X)
#undef X
};

int tile_op_n_operand(enum tile_op op)
{
    return ops[op].n_operand;
}

/* --- check --- */

/* Are floats at … at + span among n? */
static bool fits(int64_t at, int64_t span, int64_t n)
{
    return at >= 0 && at < n && span >= 0 && span < n - at;
}

static bool is_step(int64_t step)
{
    return step >= 0 && step <= TILE_FLOAT_MOST;
}

/* Columns are side by side, or one of them is repeated, but where sums are made or ends looked at. */
static bool steps_fit(const struct tile_instruction *i, const struct tile_operand *o)
{
    const bool any = i->op == TILE_OP_CONTRACT || i->op == TILE_OP_WON || i->op == TILE_OP_DROP;
    return is_step(o->head) && is_step(o->inner) && is_step(o->column) && (any || o->column <= 1);
}

static bool operand_fits(const struct tile *tile, const struct tile_instruction *i, const struct tile_operand *o)
{
    const int64_t span = (i->n_head - 1) * o->head + (i->n_column - 1) * o->column + (i->n_inner - 1) * o->inner;
    switch (o->kind) {
    case TILE_REGISTER:
        return fits(o->at, span, tile->n_float);
    case TILE_ROW:
        return o->which >= 0 && o->which < TILE_ROWS_N && fits(o->at, span, tile->width[o->which]);
    case TILE_PARAM:
        return o->which >= 0 && o->which < TILE_N_PARAM && fits(o->at, span, tile->param[o->which]);
    case TILE_NUMBER:
        return o->head == 0 && o->column == 0 && o->inner == 0;
    }
    return false;
}

/* Draws have a probability and a first number; a winner's node id is in a row, not a number that was computed. */
static bool op_fits(const struct tile_instruction *i)
{
    const bool draws = i->op == TILE_OP_DROP;
    return i->op < TILE_OP_N && (i->op == TILE_OP_CONTRACT || i->n_inner == 1) &&
           (i->op != TILE_OP_WON || i->b.kind == TILE_ROW) &&
           (!draws || (i->number[0] >= 0.0F && i->number[0] < 1.0F && i->number[1] >= 0.0F &&
                       i->number[1] <= (float)(TILE_DRAW_MOST - 1)));
}

static bool instruction_fits(const struct tile *tile, const struct tile_instruction *i)
{
    const int64_t most = TILE_FLOAT_MOST;
    if (!op_fits(i) || i->n_head < 1 || i->n_column < 1 || i->n_inner < 1 || i->n_head > most || i->n_column > most ||
        i->n_inner > most || !is_step(i->out_head) || (i->n_head > 1 && i->out_head < i->n_column)) {
        return false;
    }
    const bool reads_b = ops[i->op].n_operand > 1;
    return fits(i->out, (i->n_head - 1) * i->out_head + i->n_column - 1, tile->n_float) && steps_fit(i, &i->a) &&
           operand_fits(tile, i, &i->a) && (!reads_b || (steps_fit(i, &i->b) && operand_fits(tile, i, &i->b)));
}

/* Numbers side by side that leave. */
static bool leaving_fit(const struct tile *tile, const struct tile_operand *o, int64_t n)
{
    const struct tile_instruction row = {.n_head = 1, .n_column = n, .n_inner = 1};
    return n >= 1 && n <= TILE_FLOAT_MOST && o->kind != TILE_NUMBER && o->column == 1 && operand_fits(tile, &row, o);
}

/* Products for a parameter's gradient. */
static bool products_fit(const struct tile *tile, const struct tile_result *r)
{
    return is_step(r->step) && is_step(r->step_with) && leaving_fit(tile, &r->with, r->n_with) &&
           fits(r->at, (r->n - 1) * r->step + (r->n_with - 1) * r->step_with, tile->param[r->which]);
}

/* What a reduction saves. */
static bool saves_fit(const struct tile *tile, const struct tile_result *r)
{
    const bool is_sum = r->reduction == TILE_REDUCTION_SUM, weighs = r->reduction == TILE_REDUCTION_SOFTMAX;
    const int64_t n = weighs ? 2 * r->n_with : r->n;
    if ((weighs || r->n_with > 0) &&
        (!(is_sum || weighs) || !leaving_fit(tile, &r->with, r->n_with) || r->n % r->n_with != 0)) {
        return false;
    }
    return is_sum ? r->saved == 0 : r->target == TILE_TARGET_OUT && fits(r->saved, n - 1, tile->saved);
}

static bool result_fits(const struct tile *tile, const struct tile_result *r)
{
    if (!is_step(r->n_with) || r->target > TILE_TARGET_PARAM || r->reduction > TILE_REDUCTION_SOFTMAX ||
        !leaving_fit(tile, &r->from, r->n)) {
        return false;
    }
    if (r->target != TILE_TARGET_PARAM) {
        return fits(r->at, r->n - 1, tile->target[r->target]) && saves_fit(tile, r);
    }
    bool sums = r->reduction == TILE_REDUCTION_SUM && r->which >= 0 && r->which < TILE_N_PARAM;
    return sums && (r->n_with > 0 ? products_fit(tile, r) : fits(r->at, r->n - 1, tile->param[r->which]));
}

bool tile_check(const struct tile *tile)
{
    bool all = tile->n_instruction >= 0 && tile->n_instruction <= TILE_INSTRUCTION_MOST && tile->n_float >= 0 &&
               tile->n_float <= TILE_FLOAT_MOST && tile->n_result >= 0;
    for (int k = TILE_ROWS_SCALE_0; k <= TILE_ROWS_WEIGHT; k++) {
        all = all && tile->width[k] <= 1;
    }
    for (int i = 0; all && i < tile->n_instruction; i++) {
        all = instruction_fits(tile, &tile->instruction[i]);
    }
    for (int i = 0; all && i < tile->n_result; i++) {
        all = result_fits(tile, &tile->result[i]);
    }
    return all;
}

void tile_release(struct tile *tile)
{
    free(tile->instruction);
    free(tile->result);
    *tile = (struct tile){0};
}

/* --- gradients of parameters --- */

static bool gets_gradient(const struct tile *tile, int param)
{
    bool any = false;
    for (int i = 0; i < tile->n_result; i++) {
        any = any || (tile->result[i].target == TILE_TARGET_PARAM && tile->result[i].which == param);
    }
    return any;
}

int64_t tile_grad_at(const struct tile *tile, int param)
{
    int64_t at = 0;
    for (int p = 0; p < param; p++) {
        at += gets_gradient(tile, p) ? tile->param[p] : 0;
    }
    return gets_gradient(tile, param) ? at : -1;
}

int64_t tile_n_grad(const struct tile *tile)
{
    int64_t n = 0;
    for (int p = 0; p < TILE_N_PARAM; p++) {
        n += gets_gradient(tile, p) ? tile->param[p] : 0;
    }
    return n;
}

/* --- text --- */

static void operand_print(const struct tile_operand *o, FILE *file)
{
    static const char *const rows[] = {"in0", "in1", "in2", "grad", "saved", "scale0", "scale2", "weight", "feature"};
    switch (o->kind) {
    case TILE_REGISTER:
        fprintf(file, " r%" PRId64, o->at);
        break;
    case TILE_ROW:
        fprintf(file, " %s[%" PRId64 "]", rows[o->which], o->at);
        break;
    case TILE_PARAM:
        fprintf(file, " w%d[%" PRId64 "]", o->which, o->at);
        break;
    case TILE_NUMBER:
        fprintf(file, " %.9g", (double)o->number);
        return;
    }
    if (o->head != 0 || o->column != 1 || o->inner != 0) {
        fprintf(file, ":%" PRId64 ",%" PRId64 ",%" PRId64, o->head, o->column, o->inner);
    }
}

void tile_print(const struct tile *tile, FILE *file)
{
    static const char *const reductions[] = {"sum", "max", "min", "logsumexp", "softmax"};
    static const char *const targets[] = {"out", "grad_in0", "grad_in1", "grad_in2"};
    for (int i = 0; i < tile->n_instruction; i++) {
        const struct tile_instruction *at = &tile->instruction[i];
        fprintf(file, "r%" PRId64 " = %s %" PRId64 "x%" PRId64, at->out, ops[at->op].text, at->n_head, at->n_column);
        if (at->op == TILE_OP_CONTRACT) {
            fprintf(file, "x%" PRId64, at->n_inner);
        }
        operand_print(&at->a, file);
        if (ops[at->op].n_operand > 1) {
            operand_print(&at->b, file);
        }
        if (at->number[0] != 0.0F || at->number[1] != 0.0F) {
            fprintf(file, " (%.9g, %.9g)", (double)at->number[0], (double)at->number[1]);
        }
        fputc('\n', file);
    }
    for (int i = 0; i < tile->n_result; i++) {
        const struct tile_result *r = &tile->result[i];
        if (r->target == TILE_TARGET_PARAM) {
            fprintf(file, "grad_w%d[%" PRId64 "]", r->which, r->at);
        } else {
            fprintf(file, "%s[%" PRId64 "]", targets[r->target], r->at);
        }
        fprintf(file, " = %s", reductions[r->reduction]);
        operand_print(&r->from, file);
        fprintf(file, " x%" PRId64, r->n);
        if (r->n_with > 0) {
            operand_print(&r->with, file);
            fprintf(file, " x%" PRId64, r->n_with);
        }
        fputc('\n', file);
    }
}
