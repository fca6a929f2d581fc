/* Every operation of the device table (tests/support/operations): the cpu device's numbers are the reference's, its
 * bits those of one thread on every variant and thread count; in emulated builds the cuda device's are the cpu's, or
 * near. */
#include "models/cpu/cpu.h"
#include "tests/support/device/device_case.h"
#include "tests/support/operations/results.h"
#include "tests/support/sanitized.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <string.h>

static struct operation_results run_on(const struct device_ops *ops, int n_thread, const struct cpu_kernels *kernels,
                                       const struct operation_case *c, int64_t shift)
{
    struct device *device = NULL;
    cr_assert_eq(ops->open(n_thread, &device), STATUS_OK);
    if (kernels != NULL) {
        ((struct cpu_device *)device)->kernels = kernels;
    }
    struct operation_results out = operation_results(device, c, shift);
    ops->close(device);
    return out;
}

static void expect_same(const struct operation_case *c, const char *on, struct operation_results got,
                        const struct operation_results *expected, double floats, double doubles)
{
    const char *wrong = operation_compare(&got, expected, floats, doubles);
    cr_assert_null(wrong, "%s on %s: %s", c->name, on, wrong != NULL ? wrong : "");
    operation_results_free(&got);
}

/* Rows of more than 65 536 edges: where rows of payloads begin is nothing new to them, and they take long. */
static bool is_of_many_edges(const char *name)
{
    return strstr(name, "-hub") != NULL || strstr(name, "-huge") != NULL || strstr(name, "-pieces") != NULL;
}

/* On other devices and sets of kernels; anywhere: also with rows of payloads that do not begin on 16 bytes. */
#ifdef CUDA_EMULATED
static void others_check(const struct operation_case *c, const struct operation_results *first, bool anywhere)
{
    const double tolerance = c->same == OPERATION_SAME_CPU ? 0.0 : c->tolerance;
    struct operation_results got = run_on(&device_cuda, 1, NULL, c, 0);
    if (anywhere) {
        expect_same(c, device_cuda.name, run_on(&device_cuda, 2, NULL, c, 1), &got, 0.0, 0.0);
    }
    expect_same(c, device_cuda.name, got, first, tolerance, tolerance);
}
#else
static void others_check(const struct operation_case *c, const struct operation_results *first, bool anywhere)
{
    static const int n_threads[] = {1, 2, 3, 5};
    for (int variant = 0; variant < CPU_VARIANT_N; variant++) {
        const struct cpu_kernels *kernels = cpu_kernels_find((enum cpu_variant)variant);
        /* The others, and of large cases: one serial run, one parallel run; under sanitizers the latter. */
        size_t step = c->same == OPERATION_SAME_NUMBERS ? 3 : kernels == cpu_kernels_best() ? 1 : 2;
        for (size_t t = SANITIZED ? 3 : 0; kernels != NULL && t < sizeof n_threads / sizeof *n_threads; t += step) {
            expect_same(c, kernels->name, run_on(&device_cpu, n_threads[t], kernels, c, 0), first, 0.0, 0.0);
        }
    }
    if (anywhere) {
        expect_same(c, device_cpu.name, run_on(&device_cpu, 2, NULL, c, 1), first, 0.0, 0.0);
    }
}
#endif

static void check(const struct operation_case *cases, bool anywhere)
{
    size_t n_large = 0;
    for (const struct operation_case *c = cases; c->name != NULL; c++) {
        if (c->same == OPERATION_SAME_NUMBERS && ways_skip(n_large++, 10)) { /* large ones, in short */
            continue;
        }
        struct operation_results expected = run_on(&device_reference, 1, NULL, c, 0),
                                 first = run_on(&device_cpu, 1, NULL, c, 0);
        const char *wrong = expected.n == 0 /* not for the reference */
                                ? NULL
                                : operation_compare(&first, &expected, c->tolerance, TOLERANCE_SCORE);
        cr_assert_null(wrong, "%s against the reference: %s", c->name, wrong != NULL ? wrong : "");
        others_check(c, &first, anywhere && c->same != OPERATION_SAME_NUMBERS && !is_of_many_edges(c->name));
        operation_results_free(&expected);
        operation_results_free(&first);
    }
}

Test(operations, products_and_sums_over_rows_agree_with_the_reference)
{
    check(operation_dense_cases, false);
}

Test(operations, maps_norms_and_optimisers_agree_with_the_reference)
{
    check(operation_rows_cases, false);
}

Test(operations, sums_and_maxima_over_neighbours_agree_with_the_reference)
{
    check(operation_aggregate_cases, true);
}

Test(operations, attention_agrees_with_the_reference)
{
    check(operation_attention_cases, true);
}

Test(operations, tile_programs_agree_with_the_reference)
{
    check(operation_tile_cases, true);
}

Test(operations, payloads_and_blocks_made_of_others_agree_with_the_reference)
{
    check(operation_payload_cases, false);
}

Test(operations, losses_and_labels_agree_with_the_reference)
{
    check(operation_loss_cases, false);
}
