/* tile_check: a program whose places are all within its arrays, and what is refused when one number of it changes. */
#include "models/tile/tile.h"

#include <criterion/criterion.h>

static struct tile_instruction instruction[3];
static struct tile_result result[3];
static struct tile tile;

/* Two heads of three columns: a row times a weight, a sum over columns, what a winner gets; a maximum, a softmax, and the
 * weight's gradient. */
static void begin(void)
{
    const struct tile_operand row = {.kind = TILE_ROW, .which = TILE_ROWS_IN_0, .at = 2, .head = 3, .column = 1},
                              weight = {.kind = TILE_PARAM, .which = 15, .column = 1},
                              ones = {.kind = TILE_NUMBER, .number = 1.0F},
                              saved = {.kind = TILE_ROW, .which = TILE_ROWS_SAVED, .column = 1},
                              sums = {.kind = TILE_REGISTER, .head = 3, .inner = 1};
    instruction[0] = (struct tile_instruction){TILE_OP_MULTIPLY, 2, 3, 1, 0, 3, row, weight, {0.0F, 0.0F}};
    instruction[1] = (struct tile_instruction){TILE_OP_CONTRACT, 2, 1, 3, 6, 1, sums, ones, {0.0F, 0.0F}};
    instruction[2] = (struct tile_instruction){TILE_OP_WON, 1, 3, 1, 8, 3, row, saved, {0.0F, 0.0F}};
    const struct tile_operand product = {.kind = TILE_REGISTER, .column = 1},
                              sum = {.kind = TILE_REGISTER, .at = 6, .column = 1},
                              won = {.kind = TILE_REGISTER, .at = 8, .column = 1};
    result[0] = (struct tile_result){.reduction = TILE_REDUCTION_MAX, .at = 1, .saved = 4, .n = 6, .from = product};
    result[1] = result[0];
    result[1].reduction = TILE_REDUCTION_SOFTMAX;
    result[1].saved = 6;
    result[2] = (struct tile_result){.target = TILE_TARGET_PARAM, .which = 15, .n = 2, .from = won};
    result[1].n_with = result[2].n_with = 2;
    result[1].with = result[2].with = sum;
    result[2].step = result[2].step_with = 1;
    tile = (struct tile){
        .n_instruction = 3, .n_result = 3, .instruction = instruction, .result = result, .n_float = 11};
    tile.width[TILE_ROWS_IN_0] = 8;
    tile.width[TILE_ROWS_SAVED] = tile.param[15] = 3;
    tile.target[TILE_TARGET_OUT] = 7;
    tile.saved = 10;
}

TestSuite(tile, .init = begin);

Test(tile, a_program_whose_places_are_within_its_arrays_is_let_pass)
{
    cr_expect(tile_check(&tile));
}

/* Each number alone that some steps more, or a number that no sum may reach, make wrong. */
Test(tile, a_place_outside_of_its_array_is_refused)
{
    int64_t *const numbers[] = {&instruction[0].out,    &instruction[0].n_head,   &instruction[0].n_column,
                                &instruction[0].a.at,   &instruction[0].a.head,   &instruction[0].a.column,
                                &instruction[0].b.at,   &instruction[0].n_inner,  &instruction[1].n_inner,
                                &instruction[1].b.head, &instruction[1].b.column, &instruction[1].b.inner,
                                &instruction[2].out,    &instruction[2].b.at,     &result[0].at,
                                &result[0].n,           &result[0].saved,         &result[1].with.at,
                                &result[1].n_with,      &result[1].saved,         &result[2].at,
                                &result[2].from.at,     &result[2].n_with,        &result[2].step_with,
                                &result[2].n,           &result[0].from.column};
    static const int64_t others[] = {INT64_MAX, INT64_MIN, -1, TILE_FLOAT_MOST + 1, 0};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
            const int64_t before = *numbers[i];
            *numbers[i] = others[k] != 0 ? others[k] : before + 9;
            cr_expect_not(tile_check(&tile), "number %zu as %lld", i, (long long)*numbers[i]);
            *numbers[i] = before;
        }
    }
}

Test(tile, what_a_device_could_not_read_is_refused)
{
    instruction[2].b.kind = TILE_REGISTER; /* a winner that was computed */
    cr_expect_not(tile_check(&tile));
    begin();
    instruction[0].out_head = 2; /* heads that lie on each other */
    cr_expect_not(tile_check(&tile));
    begin();
    instruction[0].op = TILE_OP_DROP;
    instruction[0].number[0] = 1.0F;
    cr_expect_not(tile_check(&tile));
    begin();
    tile.width[TILE_ROWS_WEIGHT] = 2; /* one number */
    cr_expect_not(tile_check(&tile));
    begin();
    result[2].reduction = TILE_REDUCTION_MIN; /* of all edges, whose least would be of no row */
    cr_expect_not(tile_check(&tile));
}
