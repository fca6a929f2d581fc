#include "models/device/device.h"
#include "tests/support/device/device_case.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct relation {
    struct device_block block;
    int64_t n_relation, n_base, f, stride;
    const float *comp, *x, *y;
    bool add;
};

static struct device_block opened(struct device *device, const struct relation *a)
{
    struct device_block block = a->block;
    cr_assert_eq(device->ops->block_open(device, &block), STATUS_OK);
    return block;
}

static void sum(struct device *device, const void *context, float *out)
{
    const struct relation *a = context;
    struct device_block block = opened(device, a);
    const struct device_relation how = {&block, a->n_relation, a->n_base, a->f, a->stride, a->x, a->comp};
    device->ops->relation_sum(device, &how, out);
    device->ops->block_close(device, &block);
}

static void pick(struct device *device, const void *context, float *out)
{
    const struct relation *a = context;
    struct device_block block = opened(device, a);
    const struct device_relation how = {&block, a->n_relation, a->n_base, a->f, a->n_base * a->f, a->x, a->comp};
    device->ops->relation_pick(device, &how, out);
    device->ops->block_close(device, &block);
}

static void dot(struct device *device, const void *context, float *out)
{
    const struct relation *a = context;
    struct device_block block = opened(device, a);
    void *scratch = device_scratch(device->ops->relation_dot_scratch(a->n_relation, a->n_base));
    const struct device_relation how = {&block, a->n_relation, a->n_base, a->f, a->f, a->x, NULL};
    device->ops->relation_dot(device, &how, a->y, a->add, scratch, out);
    device->ops->block_close(device, &block);
    free(scratch);
}

/* The same edges with n_relation types, ascending in each row; some rows have few of them. */
static struct device_block typed(int64_t n_row, int64_t n_col, int64_t (*degree)(int64_t, int64_t),
                                 int64_t n_relation)
{
    struct device_block block = device_graph(n_row, n_col, degree);
    uint16_t *types = device_scratch((size_t)block.n_edge * sizeof *types);
    for (int64_t r = 0; r < n_row; r++) {
        int64_t begin = block.indptr[r], n = block.indptr[r + 1] - begin;
        for (int64_t i = 0; i < n; i++) {
            types[begin + i] = (uint16_t)((i + r % 3) * n_relation / (n + 2));
        }
    }
    block.types = types;
    block.weights = device_random((size_t)block.n_edge, 9);
    return block;
}

static void typed_free(struct device_block *block)
{
    free((void *)(uintptr_t)block->types);
    free((void *)(uintptr_t)block->weights);
    device_graph_free(block);
}

static void check(int64_t n_row, int64_t n_col, int64_t (*degree)(int64_t, int64_t), int64_t f)
{
    char what[96];
    struct relation a = {.n_relation = 5, .f = f, .stride = f};
    a.block = typed(n_row, n_col, degree, a.n_relation);
    float *x = device_random((size_t)(n_col * 5 * (f + 3)), 1), *comp = device_random((size_t)(a.n_relation * 3), 2);
    float *y = device_random((size_t)(n_row * 5 * f), 3);
    a.x = x;
    a.y = y;
    for (int mixed = 0; mixed < 2; mixed++) {
        a.n_base = mixed ? 3 : a.n_relation;
        a.comp = mixed ? comp : NULL;
        snprintf(what, sizeof what, "relation sum of %d rows, f = %d, %s", (int)n_row, (int)f,
                 mixed ? "mixed" : "apart");
        for (a.stride = f; a.stride <= f + 3; a.stride += 3) {
            device_check(what, sum, &a, (size_t)(n_row * a.n_base * f), TOLERANCE_SUM);
        }
        device_check("relation pick", pick, &a, (size_t)(n_row * f), TOLERANCE_SUM);
        a.add = mixed;
        device_check("relation dot", dot, &a, (size_t)(a.n_relation * a.n_base), TOLERANCE_SUM);
    }
    free(x);
    free(y);
    free(comp);
    typed_free(&a.block);
}

static int64_t degree_hub(int64_t row, int64_t n_row)
{
    return row == n_row / 2 || row == n_row - 2 ? 70000 : row % 4;
}

Test(relation, sums_and_products_agree_with_the_reference_for_every_width)
{
    static const int64_t widths[] = {1, 3, 16, 17, 64, 100, 256, 300};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        check(700, 300, degree_mixed, widths[i]);
    }
    check(3000, 100, degree_mixed, 16);
}

Test(relation, rows_with_very_many_edges_agree_with_the_reference)
{
    check(40, 70000, degree_hub, 5);
}

Test(relation, a_block_without_edges_changes_nothing)
{
    const int64_t indptr[] = {0, 0, 0};
    struct relation a = {.block = {.n_row = 2, .n_col = 1, .indptr = indptr},
                         .n_relation = 2,
                         .n_base = 2,
                         .f = 3,
                         .stride = 3,
                         .add = true};
    device_check("sum without edges", sum, &a, 12, 0.0);
    device_check("pick without edges", pick, &a, 6, 0.0);
    device_check("dot without edges", dot, &a, 4, 0.0);
}

Test(relation, two_rows_of_three_edges_have_these_sums)
{
    const int64_t indptr[] = {0, 3, 4};
    const uint32_t cols[] = {0, 1, 0, 1}, rows[] = {1, 2};
    const uint16_t types[] = {0, 0, 1, 1};
    const float weights[] = {0.5f, 0.5f, 1.0f, 2.0f}, x[] = {2.0f, 4.0f, 6.0f, 8.0f},
                comp[] = {1.0f, 10.0f, 100.0f, 1000.0f};
    const float apart[] = {7, 7, 7, 7, 11, 13, 9, 11, 7, 7, 19, 23};
    const float mixed[] = {7, 7, 7, 7, 211, 413, 2047, 4067, 1207, 1607, 12007, 16007};
    const float y[] = {0, 0, 0, 0, 1, 1, 0, 1, 1, 0, 0, 0}, dots[] = {10 + 7, 6 + 7, 6 + 12 + 7, 4 + 7};
    struct relation a = {.block = {.n_row = 2,
                                   .n_col = 2,
                                   .n_edge = 4,
                                   .indptr = indptr,
                                   .cols = cols,
                                   .rows = rows,
                                   .types = types,
                                   .weights = weights},
                         .n_relation = 2,
                         .n_base = 2,
                         .f = 2,
                         .stride = 2,
                         .x = x,
                         .y = y,
                         .add = true};
    for (int d = 0; d < DEVICE_TABLE_N; d++) {
        struct device *device = NULL;
        cr_assert_eq(device_tables[d]->open(1, &device), STATUS_OK);
        for (int way = 0; way < 2; way++) { /* rows 1 and 2; x's row 0 is 2, 4, 6, 8 */
            float out[6] = {7, 7, 7, 7, 7, 7};
            struct relation wide = a;
            const float x_rows[] = {2, 4, 6, 8, 1, 3, 5, 7};
            const float picked[2][6] = {{7, 7, 7 + 1.5f + 6, 7 + 3.5f + 8, 7 + 10, 7 + 14},
                                        {7, 7, 7 + 56.5f + 6200, 7 + 78.5f + 8400, 7 + 10200, 7 + 14600}};
            wide.x = x_rows;
            wide.comp = way == 1 ? comp : NULL;
            pick(device, &wide, out);
            for (int i = 0; i < 6; i++) {
                cr_assert_eq(out[i], picked[way][i], "%s, rows, way %d: element %d is %g", device_tables[d]->name,
                             way, i, (double)out[i]);
            }
        }
        for (int way = 0; way < 3; way++) {
            float out[12];
            for (int i = 0; i < 12; i++) {
                out[i] = 7.0f;
            }
            a.comp = way == 1 ? comp : NULL;
            (way < 2 ? sum : dot)(device, &a, out);
            const float *expected = way == 0 ? apart : way == 1 ? mixed : dots;
            for (int i = 0; i < (way < 2 ? 12 : 4); i++) {
                cr_assert_eq(out[i], expected[i], "%s, way %d: element %d is %g", device_tables[d]->name, way, i,
                             (double)out[i]);
            }
        }
        device_tables[d]->close(device);
    }
}

struct swap {
    int64_t a, b, c;
    const float *x;
};

static void swap(struct device *device, const void *context, float *out)
{
    const struct swap *s = context;
    device->ops->swap_axes(device, s->a, s->b, s->c, s->x, out);
}

Test(relation, axes_are_swapped_row_by_row)
{
    float *x = device_random(60 * 70 * 5, 1), back[6], there[6];
    for (int64_t c = 1; c <= 5; c += 2) {
        struct swap s = {60, 70, c, x};
        device_check("swap", swap, &s, (size_t)(60 * 70 * c), 0.0);
    }
    struct device *device = NULL;
    cr_assert_eq(device_reference.open(1, &device), STATUS_OK);
    device_reference.swap_axes(device, 3, 2, 1, x, there);
    cr_assert(there[1] == x[2] && there[2] == x[4] && there[3] == x[1]);
    device_reference.swap_axes(device, 2, 3, 1, there, back);
    cr_assert_arr_eq(back, x, sizeof back);
    device_reference.close(device);
    free(x);
}
