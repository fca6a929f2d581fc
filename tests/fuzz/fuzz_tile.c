/* Any bytes as a tile program: refused, or every place that it names is within arrays of the sizes that it says, and two
 * devices that run it, over rows and over edges, write nowhere else and agree. */
#include "tests/fuzz/seeds.h"
#include "tests/fuzz/tile_run.h"

#include <math.h>
#include <stdint.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#define INSTRUCTION_MOST 8
#define RESULT_MOST 4
#define WORK_MOST 200000

static struct device *cpu;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char *const seeds[] = {
        "01234567890123456789012345678901234567890123456789012345678901234567890123456789",
        "aZ!@#$%^&*()_+aaaaaaaaaaaabbbbbbbbbbbbbbbccccccccccccddddddddddddddddddeeeeeeeeee",
        "@@@@@@@@HHHHHHHHPPPPPPPPXXXXXXXX````````hhhhhhhhppppppppxxxxxxxx        ((((((((0",
    };
    ASSERT(device_cpu.open(1, &cpu) == STATUS_OK);
    seeds_write(*argc, *argv, seeds, sizeof seeds / sizeof *seeds);
    return 0;
}

/* --- bytes as a program --- */

struct reader {
    const uint8_t *at, *end;
};

static int64_t byte_of(struct reader *r)
{
    return r->at < r->end ? *r->at++ : 0;
}

/* 0 … most, or at times a number that no index may be. */
static int64_t number_of(struct reader *r, int64_t most)
{
    static const int64_t wild[] = {-1, INT64_MIN, INT64_MAX, INT64_MAX - 1, INT32_MAX, 65536, 65537, -65536};
    int64_t byte = byte_of(r);
    return byte < 250 ? byte % (most + 1) : wild[byte_of(r) % 8];
}

static struct tile_operand operand_of(struct reader *r)
{
    struct tile_operand o = {.kind = (enum tile_operand_kind)(byte_of(r) % 5), .number = (float)byte_of(r) / 64.0F};
    o.which = (int)number_of(r, TILE_ROWS_N);
    o.at = number_of(r, 7);
    o.head = number_of(r, 8);
    o.column = number_of(r, 2);
    o.inner = number_of(r, 2);
    return o;
}

static struct tile_instruction instruction_of(struct reader *r)
{
    struct tile_instruction i = {.op = (enum tile_op)(byte_of(r) % (TILE_OP_N + 1))};
    i.n_head = number_of(r, 3);
    i.n_column = number_of(r, 8);
    i.n_inner = i.op == TILE_OP_CONTRACT ? number_of(r, 8) : 1;
    i.out = number_of(r, 40);
    i.out_head = number_of(r, 8);
    i.a = operand_of(r);
    i.b = operand_of(r);
    i.number[0] = (float)byte_of(r) / 128.0F;
    i.number[1] = (float)number_of(r, 8);
    return i;
}

static struct tile_result result_of(struct reader *r)
{
    struct tile_result to = {.target = (enum tile_target)(byte_of(r) % 7), .which = (int)number_of(r, TILE_N_PARAM)};
    to.reduction = (enum tile_reduction)(byte_of(r) % 6);
    to.at = number_of(r, 8);
    to.saved = number_of(r, 8);
    to.from = operand_of(r);
    to.n = number_of(r, 8);
    to.with = operand_of(r);
    to.n_with = number_of(r, 4);
    to.step = number_of(r, 4);
    to.step_with = number_of(r, 4);
    return to;
}

/* Registers begin as 0 in the first instruction. */
static struct tile tile_of(struct reader *r, struct tile_instruction *instruction, struct tile_result *result)
{
    struct tile tile = {.instruction = instruction, .result = result, .n_float = 1 + byte_of(r) % 64};
    tile.n_instruction = 1 + (int)(byte_of(r) % INSTRUCTION_MOST);
    tile.n_result = (int)(byte_of(r) % (RESULT_MOST + 1));
    tile.saved = byte_of(r) % 17;
    tile.scales_mean = byte_of(r) % 2 == 1;
    for (int k = 0; k < TILE_ROWS_N; k++) {
        const bool is_one = k >= TILE_ROWS_SCALE_0 && k <= TILE_ROWS_WEIGHT && byte_of(r) < 250;
        tile.width[k] = byte_of(r) % (is_one ? 2 : 17);
    }
    for (int k = 0; k < TILE_TARGET_N; k++) {
        tile.target[k] = byte_of(r) % 17;
    }
    for (int k = 0; k < TILE_N_PARAM; k++) {
        tile.param[k] = byte_of(r) % 33;
    }
    instruction[0] = (struct tile_instruction){
        .op = TILE_OP_COPY, .n_head = 1, .n_column = tile.n_float, .n_inner = 1, .a = {.kind = TILE_NUMBER}};
    for (int k = 1; k < tile.n_instruction; k++) {
        instruction[k] = instruction_of(r);
    }
    for (int k = 0; k < tile.n_result; k++) {
        result[k] = result_of(r);
    }
    return tile;
}

/* --- what is let pass --- */

/* The least and the greatest index of an operand are at corners of its shape. */
static void expect_inside(const struct tile *tile, const struct tile_instruction *i, const struct tile_operand *o)
{
    const int64_t n = o->kind == TILE_REGISTER ? tile->n_float
                      : o->kind == TILE_ROW    ? tile->width[o->which]
                      : o->kind == TILE_PARAM  ? tile->param[o->which]
                                               : 1;
    for (int corner = 0; corner < 8; corner++) {
        __int128 at = o->kind == TILE_NUMBER ? 0 : o->at;
        at += (corner & 1) != 0 ? (__int128)(i->n_head - 1) * o->head : 0;
        at += (corner & 2) != 0 ? (__int128)(i->n_column - 1) * o->column : 0;
        at += (corner & 4) != 0 ? (__int128)(i->n_inner - 1) * o->inner : 0;
        ASSERT(at >= 0 && at < n);
    }
}

/* Work of a row; every place is inside. */
static int64_t check(const struct tile *tile)
{
    int64_t work = 0;
    for (int k = 0; k < tile->n_instruction; k++) {
        const struct tile_instruction *i = &tile->instruction[k];
        expect_inside(tile, i, &i->a);
        if (tile_op_n_operand(i->op) > 1) {
            expect_inside(tile, i, &i->b);
        }
        ASSERT(i->out >= 0 && i->out + (i->n_head - 1) * i->out_head + i->n_column <= tile->n_float);
        work += i->n_head * i->n_column * i->n_inner;
    }
    for (int k = 0; k < tile->n_result; k++) {
        const struct tile_result *r = &tile->result[k];
        const struct tile_instruction from = {.n_head = 1, .n_column = r->n, .n_inner = 1},
                                      with = {.n_head = 1, .n_column = r->n_with, .n_inner = 1};
        expect_inside(tile, &from, &r->from);
        if (r->n_with > 0) {
            expect_inside(tile, &with, &r->with);
        }
    }
    return work;
}

/* --- running it --- */

/* Of one instruction rounding stays small; its operands are no registers, where a result might lie on a part of one.
 * Saved node ids are no numbers, and differ where two edges are as good. */
static bool compares(const struct tile *tile)
{
    const struct tile_instruction *i = &tile->instruction[1];
    return tile->n_instruction == 2 && tile->n_result == 1 && i->op != TILE_OP_WON && i->a.kind != TILE_REGISTER &&
           (tile_op_n_operand(i->op) < 2 || i->b.kind != TILE_REGISTER);
}

static void expect_same(const struct arrays *a, const struct arrays *b)
{
    const int n = TILE_ROWS_N + TILE_TARGET_N + 2 * TILE_N_PARAM;
    for (int k = 0; k < n; k++) {
        float most = 1.0F;
        for (size_t i = 0; i < a->n_float[k]; i++) {
            most = fabsf(a->list[k][i]) > most ? fabsf(a->list[k][i]) : most;
        }
        for (size_t i = 0; i < a->n_float[k] && isfinite(most) && most < 1e6F; i++) {
            ASSERT(!isfinite(b->list[k][i]) || fabsf(a->list[k][i] - b->list[k][i]) <= 1e-3F * most);
        }
    }
}

static void run(const struct tile *tile,
                void (*by)(const struct device_ops *, struct device *, const struct tile *, struct arrays *))
{
    struct arrays arrays[2] = {{{NULL}, {0}, 0}, {{NULL}, {0}, 0}};
    by(&device_reference, NULL, tile, &arrays[0]);
    by(&device_cpu, cpu, tile, &arrays[1]);
    if (compares(tile)) {
        expect_same(&arrays[0], &arrays[1]);
    }
    arrays_free(&arrays[0]);
    arrays_free(&arrays[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct tile_instruction instruction[INSTRUCTION_MOST];
    struct tile_result result[RESULT_MOST];
    struct reader reader = {bytes, bytes + n};
    const struct tile tile = tile_of(&reader, instruction, result);
    if (!tile_check(&tile) || check(&tile) > WORK_MOST) {
        return 0;
    }
    run(&tile, edges_run);
    if (!is_of_edges(&tile)) {
        run(&tile, rows_run);
    }
    return 0;
}
