/* From operations with a buffer each to a tile: leaves get their places, what no result needs is left out, and
 * buffers that are not needed at the same time share registers. */
#include "models/vertex/code.h"

#include "protocol/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* A leaf is the place that it has got. */
static struct tile_operand placed(const struct code *code, struct tile_operand o)
{
    if (o.kind == TILE_ROW && o.which >= TILE_ROWS_N) {
        const struct code_leaf *leaf = &code->leaf[o.which - TILE_ROWS_N];
        o.which = (int)leaf->rows;
        o.at += leaf->at;
    }
    return o;
}

/* The buffers that an instruction, or a result, reads; -1: none. */
static void operands_of(const struct tile_instruction *i, int buffer[2])
{
    buffer[0] = i->a.kind == TILE_REGISTER ? i->a.which : -1;
    buffer[1] = tile_op_n_operand(i->op) > 1 && i->b.kind == TILE_REGISTER ? i->b.which : -1;
}

static void result_operands_of(const struct tile_result *r, int buffer[2])
{
    buffer[0] = r->from.kind == TILE_REGISTER ? r->from.which : -1;
    buffer[1] = r->n_with > 0 && r->with.kind == TILE_REGISTER ? r->with.which : -1;
}

static void mark(const int buffer[2], bool *needed)
{
    for (int k = 0; k < 2; k++) {
        if (buffer[k] >= 0) {
            needed[buffer[k]] = true;
        }
    }
}

/* What the results need, from the last instruction to the first. */
static void need(const struct code *code, bool *needed, bool *kept)
{
    int buffer[2];
    for (int r = 0; r < code->n_result; r++) {
        result_operands_of(&code->result[r], buffer);
        mark(buffer, needed);
    }
    for (int i = code->n_instruction - 1; i >= 0; i--) {
        kept[i] = needed[code->instruction[i].buffer];
        if (kept[i]) {
            operands_of(&code->instruction[i].of, buffer);
            mark(buffer, needed);
        }
    }
}

/* Instructions from a buffer's first to its last. */
struct life {
    int first, last;
    int64_t at;
};

static void live(struct life *life, int buffer, int instruction)
{
    if (buffer >= 0) {
        life[buffer].first = life[buffer].first < 0 ? instruction : life[buffer].first;
        life[buffer].last = instruction;
    }
}

static struct life *lives_of(const struct code *code, const bool *kept)
{
    struct life *life = memory_alloc((size_t)code->n_buffer + 1, sizeof *life);
    int buffer[2];
    for (int b = 0; b < code->n_buffer; b++) {
        life[b] = (struct life){-1, -1, -1};
    }
    for (int i = 0; i < code->n_instruction; i++) {
        if (kept[i]) {
            operands_of(&code->instruction[i].of, buffer);
            live(life, buffer[0], i);
            live(life, buffer[1], i);
            live(life, code->instruction[i].buffer, i);
        }
    }
    for (int r = 0; r < code->n_result; r++) {
        result_operands_of(&code->result[r], buffer);
        live(life, buffer[0], code->n_instruction);
        live(life, buffer[1], code->n_instruction);
    }
    return life;
}

/* Registers are handed out in multiples of so many floats: a vector of any device. */
#define REGISTER_FLOATS 16

static int64_t rounded(int64_t n)
{
    return (n + REGISTER_FLOATS - 1) / REGISTER_FLOATS * REGISTER_FLOATS;
}

/* Buffers that are alive, in the order of their registers; before `dense` there is no gap between them. */
struct alive {
    const struct code *code;
    struct life *life;
    int *buffer, n, dense;
};

static int64_t end_of(const struct alive *alive, int place)
{
    const int b = place < 0 ? -1 : alive->buffer[place];
    return b < 0 ? 0 : alive->life[b].at + rounded(alive->code->buffer[b]);
}

/* Where n floats fit first. */
static void alive_add(struct alive *alive, int b)
{
    const int64_t n = rounded(alive->code->buffer[b]);
    int place = alive->dense;
    while (place < alive->n && alive->life[alive->buffer[place]].at - end_of(alive, place - 1) < n) {
        place++;
    }
    alive->life[b].at = end_of(alive, place - 1);
    memmove(alive->buffer + place + 1, alive->buffer + place, (size_t)(alive->n - place) * sizeof *alive->buffer);
    alive->buffer[place] = b;
    alive->n++;
    while (alive->dense < alive->n &&
           alive->life[alive->buffer[alive->dense]].at == end_of(alive, alive->dense - 1)) {
        alive->dense++;
    }
}

static void alive_remove(struct alive *alive, int b)
{
    int low = 0, high = alive->n - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (alive->life[alive->buffer[middle]].at < alive->life[b].at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    alive->n--;
    alive->dense = low < alive->dense ? low : alive->dense;
    memmove(alive->buffer + low, alive->buffer + low + 1, (size_t)(alive->n - low) * sizeof *alive->buffer);
}

/* A buffer's registers are free behind its last use: a result may not lie on an operand. */
static int64_t registers_place(const struct code *code, struct life *life)
{
    const size_t n_instruction = (size_t)code->n_instruction + 1, n_buffer = (size_t)code->n_buffer + 1;
    struct alive alive = {.code = code, .life = life, .buffer = memory_alloc(n_buffer, sizeof *alive.buffer)};
    /* by instruction: 1 + the first buffer whose last use it is; by buffer: 1 + the next of these */
    int *first = memory_alloc(n_instruction, sizeof *first), *next = memory_alloc(n_buffer, sizeof *next);
    int64_t n_float = 0;
    for (int b = 0; b < code->n_buffer; b++) {
        if (life[b].last >= 0) {
            next[b] = first[life[b].last];
            first[life[b].last] = b + 1;
        }
    }
    for (int i = 0; i < code->n_instruction; i++) {
        for (int b = i > 0 ? first[i - 1] - 1 : -1; b >= 0; b = next[b] - 1) {
            alive_remove(&alive, b);
        }
        const int b = code->instruction[i].buffer;
        if (life[b].first == i) {
            alive_add(&alive, b);
            const int64_t end = life[b].at + rounded(code->buffer[b]);
            n_float = end > n_float ? end : n_float;
        }
    }
    free(alive.buffer);
    free(first);
    free(next);
    return n_float;
}

static struct tile_operand registered(const struct code *code, const struct life *life, struct tile_operand o)
{
    o = placed(code, o);
    if (o.kind == TILE_REGISTER) {
        o.at += life[o.which].at;
        o.which = 0;
    }
    return o;
}

static void results_place(const struct code *code, const struct life *life, struct tile *out)
{
    out->result = memory_alloc((size_t)code->n_result + 1, sizeof *out->result);
    for (int r = 0; r < code->n_result; r++) {
        struct tile_result *to = &out->result[out->n_result++];
        *to = code->result[r];
        to->from = registered(code, life, to->from);
        to->with = to->n_with > 0 ? registered(code, life, to->with) : to->with;
        if (to->target == TILE_TARGET_GRAD_IN_0) { /* of a leaf */
            const struct code_leaf *leaf = &code->leaf[to->which];
            to->target = (enum tile_target)(TILE_TARGET_GRAD_IN_0 + (int)leaf->rows);
            to->at += leaf->at;
            to->which = 0;
        }
    }
}

void code_tile(const struct code *code, struct tile *out)
{
    bool *needed = memory_alloc((size_t)code->n_buffer + 1, sizeof *needed),
         *kept = memory_alloc((size_t)code->n_instruction + 1, sizeof *kept);
    *out = (struct tile){.instruction = memory_alloc((size_t)code->n_instruction + 1, sizeof *out->instruction)};
    need(code, needed, kept);
    struct life *life = lives_of(code, kept);
    out->n_float = registers_place(code, life);
    for (int i = 0; i < code->n_instruction; i++) {
        if (!kept[i]) {
            continue;
        }
        struct tile_instruction *to = &out->instruction[out->n_instruction++];
        *to = code->instruction[i].of;
        to->out += life[code->instruction[i].buffer].at;
        to->a = registered(code, life, to->a);
        to->b = registered(code, life, to->b);
        out->draws = out->draws || to->op == TILE_OP_DROP;
    }
    results_place(code, life, out);
    free(life);
    free(needed);
    free(kept);
}
