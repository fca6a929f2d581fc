#include "models/cpu/kernels/kernels.h"
#include "models/device/device.h"
#include "tests/support/device/device_case.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const enum device_activation activations[] = {DEVICE_ACTIVATION_NONE, DEVICE_ACTIVATION_RELU,
                                                     DEVICE_ACTIVATION_ELU, DEVICE_ACTIVATION_LEAKY_RELU,
                                                     DEVICE_ACTIVATION_GELU};

static uint32_t *node_ids(int64_t n)
{
    uint32_t *node = device_scratch((size_t)n * sizeof *node);
    for (int64_t r = 0; r < n; r++) {
        node[r] = (uint32_t)(r * 2654435761u);
    }
    return node;
}

Test(pointwise, elu_and_gelu_are_accurate_to_the_last_places_everywhere)
{
    struct device *device = NULL;
    cr_assert_eq(device_cpu.open(1, &device), STATUS_OK);
    for (int kind = 0; kind < 2; kind++) {
        struct device_activate how = {.activation = kind == 0 ? DEVICE_ACTIVATION_ELU : DEVICE_ACTIVATION_GELU};
        for (double at = -88.0; at < 10.0; at += 0.00037) {
            float x = (float)at, y;
            device_cpu.activate_forward(device, 1, 1, &how, &x, &y);
            double exact = kind == 1 ? 0.5 * x * erfc(-x * M_SQRT1_2) : x > 0.0f ? x : expm1(x);
            if (fabs(exact) > 1e-30) {
                double limit = kind == 0 ? 2 * 0x1p-23 : 2e-6 * fmax(1.0, x * x);
                cr_assert(fabs(y - exact) <= limit * fabs(exact), "kind %d at %.9g: %.9g, expected %.9g", kind,
                          (double)x, (double)y, exact);
            }
        }
    }
    device_cpu.close(device);
}

Test(pointwise, what_is_not_a_number_or_infinite_stays_so_through_every_activation)
{
    for (int kind = 0; kind < 5; kind++) {
        struct device_activate how = {.activation = activations[kind]};
        const float x[] = {NAN, INFINITY, 1000.0f};
        float y[3];
        for (int d = 0; d < DEVICE_TABLE_N; d++) {
            const struct device_ops *ops = device_tables[d];
            struct device *device = NULL;
            cr_assert_eq(ops->open(1, &device), STATUS_OK);
            ops->activate_forward(device, 1, 3, &how, x, y);
            cr_assert(isnan(y[0]) && y[1] == INFINITY && y[2] == 1000.0f, "%s, activation %d", ops->name, kind);
            ops->close(device);
        }
    }
}

Test(pointwise, a_dropped_share_of_p_and_the_rest_scaled_keep_the_mean)
{
    int64_t n = 1000, f = 100;
    uint32_t *node = node_ids(n);
    float *ones = device_scratch((size_t)(n * f) * sizeof *ones);
    struct device_activate how = {.p = 0.3, .node = node, .key = {.seed = 1, .stream = RANDOM_STREAM_DROPOUT}};
    struct device *device = NULL;
    int64_t n_zero = 0;
    for (int64_t i = 0; i < n * f; i++) {
        ones[i] = 1.0f;
    }
    cr_assert_eq(device_cpu.open(2, &device), STATUS_OK);
    device_cpu.activate_forward(device, n, f, &how, ones, ones);
    for (int64_t i = 0; i < n * f; i++) {
        n_zero += ones[i] == 0.0f;
        cr_assert(ones[i] == 0.0f || ones[i] == (float)(1.0 / 0.7));
    }
    cr_assert(llabs(n_zero - 30000) < 1000, "%lld of 100000 dropped, expected about 30000", (long long)n_zero);
    device_cpu.close(device);
    free(node);
    free(ones);
}

Test(pointwise, coefficients_are_dropped_at_the_rate_asked_for)
{
    enum { N = 100000 };
    const struct random_key key = {.seed = 11, .epoch = 3, .op = 5, .stream = RANDOM_STREAM_EDGE};
    int n_dropped = 0;
    for (uint32_t i = 0; i < N; i++) {
        n_dropped += random_edge_u32(&key, 1000 + 17 * (i % 317), 1000 + 17 * (i / 317), i % 6) <
                     random_drop_threshold(0.3);
    }
    cr_expect_lt(abs(n_dropped - 3 * N / 10), 600, "%d of %d, 4 standard deviations are 580", n_dropped, N);
}

Test(pointwise, draws_of_every_variant_are_those_of_the_generic_function)
{
    struct random_key key = {.seed = 0x123456789abcdef0, .epoch = 77, .op = 300, .stream = RANDOM_STREAM_DROPOUT};
    uint32_t out[4 * 37];
    for (int variant = 0; variant < CPU_VARIANT_N; variant++) {
        const struct cpu_kernels *kernels = cpu_kernels_find((enum cpu_variant)variant);
        for (int64_t n_quad = 1; kernels != NULL && n_quad <= 37; n_quad++) {
            memset(out, 0, sizeof out);
            kernels->draw(&key, 0xffff0123, 5, n_quad, out);
            for (int64_t i = 0; i < 4 * 37; i++) {
                uint32_t expected = i < 4 * n_quad ? random_u32(&key, 0xffff0123, (uint32_t)(20 + i)) : 0;
                cr_assert_eq(out[i], expected, "%s: number %d of %d quads", kernels->name, (int)i, (int)n_quad);
            }
        }
    }
}

Test(pointwise, philox_gives_the_published_vectors)
{
    const uint32_t cases[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
         0x24126ea1},
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        random_philox(cases[i], cases[i] + 4, out);
        cr_assert_arr_eq(out, cases[i] + 6, sizeof out);
    }
}

Test(pointwise, of_equals_the_first_has_the_gradient_and_no_nan_is_lost)
{
    const float x[] = {1.0f, 2.0f, 3.0f}, y[] = {2.0f, 2.0f, 2.0f}, grad[] = {5.0f, 6.0f, 7.0f};
    for (int d = 0; d < DEVICE_TABLE_N; d++) {
        const struct device_ops *ops = device_tables[d];
        struct device *device = NULL;
        float out[3], grad_x[3], grad_y[3] = {1.0f, 1.0f, 1.0f};
        cr_assert_eq(ops->open(1, &device), STATUS_OK);
        ops->max_forward(device, 3, x, y, out);
        ops->max_backward(device, 3, x, out, grad, false, grad_x, true, grad_y);
        cr_expect(out[0] == 2.0f && out[1] == 2.0f && out[2] == 3.0f, "%s", ops->name);
        cr_expect(grad_x[0] == 0.0f && grad_x[1] == 6.0f && grad_x[2] == 7.0f, "%s", ops->name);
        cr_expect(grad_y[0] == 6.0f && grad_y[1] == 1.0f && grad_y[2] == 1.0f, "%s", ops->name);
        ops->max_backward(device, 3, x, out, grad, false, NULL, true, grad_y);
        cr_expect(grad_y[0] == 11.0f && grad_y[1] == 1.0f, "%s", ops->name);
        ops->max_forward(device, 2, (const float[]){NAN, 1.0f}, (const float[]){1.0f, NAN}, out);
        cr_expect(isnan(out[0]) && isnan(out[1]), "%s: what is not a number stays so", ops->name);
        ops->close(device);
    }
}
