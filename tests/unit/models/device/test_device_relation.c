#include "models/device/device.h"
#include "tests/support/device/device_case.h"

#include <criterion/criterion.h>
#include <stdlib.h>

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
    const struct device_relation how = {&block, a->n_relation, a->n_base, a->f, a->stride, a->x, a->comp, false};
    device->ops->relation_sum(device, &how, out);
    device->ops->block_close(device, &block);
}

static void pick(struct device *device, const void *context, float *out)
{
    const struct relation *a = context;
    struct device_block block = opened(device, a);
    const struct device_relation how = {&block,           a->n_relation, a->n_base, a->f,
                                        a->n_base * a->f, a->x,          a->comp,   true};
    device->ops->relation_sum(device, &how, out);
    device->ops->block_close(device, &block);
}

static void dot(struct device *device, const void *context, float *out)
{
    const struct relation *a = context;
    struct device_block block = opened(device, a);
    void *scratch = device_scratch(DEVICE_BYTES(device->ops, RELATION_DOT, a->n_relation, a->n_base));
    const struct device_relation how = {&block, a->n_relation, a->n_base, a->f, a->f, a->x, NULL, false};
    device->ops->relation_dot(device, &how, a->y, a->add, scratch, out);
    device->ops->block_close(device, &block);
    free(scratch);
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
