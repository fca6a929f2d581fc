#include "models/device/device.h"
#include "tests/support/device/device_case.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

Test(device, auto_is_the_fast_cpu_and_names_find_their_tables)
{
    const struct device_ops *ops = NULL;
    cr_assert_eq(device_find("auto", &ops), STATUS_OK);
    cr_assert_eq(ops, &device_cpu);
    cr_assert_eq(device_find("reference", &ops), STATUS_OK);
    cr_assert_eq(ops, &device_reference);
}

Test(device, an_unknown_name_is_refused_with_the_names_there_are)
{
    const struct device_ops *ops = NULL;
    cr_assert_eq(device_find("gpu", &ops), STATUS_CONFIG);
    cr_assert_not_null(strstr(status_reason(), "'gpu'"));
    cr_assert_not_null(strstr(status_reason(), "auto, cpu, cuda or reference"));
}

Test(device, every_operation_of_every_table_is_there)
{
    /* The list of their names makes the tables, so what it lacks is found only by looking at the tables themselves.
     * Of recordings, of loans, and of sums by a library, all four are there, or none is. */
    enum { N_OPTIONAL = 3, N_TOGETHER = 4 };
    const size_t optional[N_OPTIONAL] = {offsetof(struct device_ops, record), offsetof(struct device_ops, lend),
                                         offsetof(struct device_ops, sums_open)};
    const struct device_ops *const *tables = device_tables;
    for (size_t i = 0; i < DEVICE_TABLE_N; i++) {
        void (*operation)(void);
        for (size_t at = offsetof(struct device_ops, open); at < sizeof *tables[i]; at += sizeof operation) {
            bool lacks = false;
            for (int k = 0; k < N_OPTIONAL; k++) {
                memcpy(&operation, (const char *)tables[i] + optional[k], sizeof operation);
                bool is_one = at >= optional[k] && at < optional[k] + N_TOGETHER * sizeof operation;
                lacks = lacks || (is_one && operation == NULL);
            }
            memcpy(&operation, (const char *)tables[i] + at, sizeof operation);
            cr_assert((operation != NULL) != lacks, "%s lacks what lies at byte %zu", tables[i]->name, at);
        }
    }
}

/* That an epoch takes nothing is told by these counts alone. */
Test(device, what_is_taken_is_counted_where_it_lies_and_as_a_call)
{
    for (size_t i = 0; i < DEVICE_TABLE_N; i++) {
        const struct device_ops *ops = device_tables[i];
        const enum memory_place device_place = ops->unified ? MEMORY_PLACE_HOST : MEMORY_PLACE_DEVICE,
                                dedup_place = ops->unified ? MEMORY_PLACE_HOST : MEMORY_PLACE_PINNED;
        const int64_t n = 1000000 * ((int64_t)i + 1); /* more than of the table before */
        void *host = device_scratch(3000), *of_device, *shared, *copy;
        struct device *device;
        cr_assert_eq(ops->open(1, &device), STATUS_OK, "%s", status_reason());
        int64_t n_call = memory_n_call();
        cr_assert_eq(ops->acquire(device, DEVICE_PLACE_DEVICE, MEMORY_PAYLOADS, (size_t)n, &of_device), STATUS_OK);
        cr_expect_eq(memory_n_call(), n_call + 1, "%s", ops->name);
        cr_expect_eq(memory_peak(device_place, MEMORY_PAYLOADS), n, "%s", ops->name);
        cr_assert_eq(ops->acquire(device, DEVICE_PLACE_SHARED, MEMORY_FEATURES, (size_t)n, &shared), STATUS_OK);
        cr_expect_eq(memory_n_call(), n_call + 2, "%s", ops->name);
        cr_expect_eq(memory_peak(dedup_place, MEMORY_FEATURES), n, "%s", ops->name);
        cr_assert_eq(ops->borrow(device, MEMORY_PAYLOADS, host, 3000, &copy), STATUS_OK);
        cr_expect_eq(memory_n_call(), n_call + 2 + !ops->unified, "%s", ops->name);
        cr_expect_eq(memory_peak(device_place, MEMORY_PAYLOADS), n + (ops->unified ? 0 : 3000), "%s", ops->name);
        ops->giveback(device, MEMORY_PAYLOADS, host, 3000, copy);
        ops->release(device, DEVICE_PLACE_SHARED, MEMORY_FEATURES, shared, (size_t)n);
        ops->release(device, DEVICE_PLACE_DEVICE, MEMORY_PAYLOADS, of_device, (size_t)n);
        cr_expect_eq(memory_n_call(), n_call + 2 + !ops->unified, "%s", ops->name);
        ops->close(device);
        free(host);
    }
}

/* Programs without CUDA plan with these. */
Test(device, cuda_is_there_by_name_and_sizes_in_every_build)
{
    const struct device_ops *ops = NULL;
    const char *name = device_cuda_module.name;
    cr_assert_eq(strncmp(name, "cuda", 4), 0, "%s", name);
    cr_assert_eq(device_find(name, &ops), STATUS_OK);
    cr_assert_eq(ops, &device_cuda_module);
    cr_assert_null(ops->close);
    cr_assert(!ops->unified);
    cr_expect_eq(ops->merged_edges, device_cpu.merged_edges);
    cr_expect_eq(DEVICE_BYTES(ops, CSR_LINEAR, 10, 4), 160);
    cr_expect_eq(DEVICE_BYTES(ops, LINEAR, 512, 64, 64), 0, "one chunk needs no partial sums");
    cr_expect_eq(DEVICE_BYTES(ops, LINEAR, 513, 64, 64), 2 * 64 * 64 * sizeof(float));
    cr_expect_eq(DEVICE_BYTES(ops, BLOCKS, 1, 100, 256), 0, "no row is long");
    cr_expect_gt(DEVICE_BYTES(ops, BLOCKS, 1, 100, 257), 0);
}

/* --- the reference device against numbers worked out by hand --- */

static struct device *reference_device(void)
{
    struct device *device = NULL;
    cr_assert_eq(device_reference.open(1, &device), STATUS_OK);
    return device;
}

static void assert_near(float got, double expected)
{
    cr_assert(fabs(got - expected) <= 1e-6 * fmax(1.0, fabs(expected)), "got %.9g, expected %.9g", (double)got,
              expected);
}

Test(reference, binary_cross_entropy_skips_unknown_labels_and_counts_signs)
{
    struct device *device = reference_device();
    const float logits[] = {0, logf(3), -1, 2}, labels[] = {1, 0, NAN, 1};
    const uint8_t split[] = {1, 1};
    float grad[4];
    struct device_score score;
    const struct device_now now = {.n_loss_row = 3.0};
    const struct device_scoring how = {.loss = DEVICE_LOSS_BCE,
                                       .n = 2,
                                       .c = 2,
                                       .logits = logits,
                                       .labels = labels,
                                       .row_split = split,
                                       .split = 1,
                                       .now = &now,
                                       .grad = grad};
    device_reference.loss(device, &how, &score);
    assert_near((float)score.loss, log(2) + log(4) + log1p(exp(-2)));
    const double expected[] = {-0.5 / 3, 0.75 / 3, 0,
                               (1 / (1 + exp(-2)) - 1) / 3}; /* of the three labels that are known */
    for (int i = 0; i < 4; i++) {
        assert_near(grad[i], expected[i]);
    }
    cr_assert_eq(score.n_true_positive, 1);
    cr_assert_eq(score.n_false_positive, 1);
    cr_assert_eq(score.n_false_negative, 1);
    cr_assert_eq(score.n_row, 2);
    cr_assert_eq(score.weight, 3);
    device_reference.close(device);
}

Test(reference, the_first_adam_step_moves_by_the_learning_rate_against_the_sign)
{
    struct device *device = reference_device();
    const struct device_now now = {.lr = 0.1, .correction_1 = 1.0 - 0.9, .correction_2 = 1.0 - 0.999};
    double loss = 0.5;
    struct device_step how = {.optimizer = DEVICE_OPTIMIZER_ADAM,
                              .beta1 = 0.9,
                              .beta2 = 0.999,
                              .epsilon = 1e-8,
                              .now = &now,
                              .loss = &loss};
    float w[] = {1, 1}, m[2] = {0}, v[2] = {0};
    const float grad[] = {3, -0.01f};
    device_reference.step(device, &how, 2, grad, w, m, v);
    assert_near(w[0], 0.9);
    assert_near(w[1], 1.1);
    assert_near(m[0], 0.3);
    assert_near(v[0], 0.009);
    loss = NAN;
    device_reference.step(device, &how, 2, grad, w, m, v);
    assert_near(w[0], 0.9);
    assert_near(m[0], 0.3);
    device_reference.close(device);
}
