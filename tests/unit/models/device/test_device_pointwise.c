#include "models/cpu/kernels/kernels.h"
#include "models/device/device.h"
#include "tests/support/device/device_case.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pointwise {
    int64_t n, f;
    struct device_activate activate;
    const float *x, *grad_y, *bias;
    bool add;
};

static const int64_t widths[] = {1, 3, 7, 16, 17, 33, 64, 100, 128, 200, 256, 300};
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

static void forward(struct device *device, const void *context, float *out)
{
    const struct pointwise *p = context;
    device->ops->activate_forward(device, p->n, p->f, &p->activate, p->x, out);
}

static void backward(struct device *device, const void *context, float *out)
{
    const struct pointwise *p = context;
    float *y = device_scratch((size_t)(p->n * p->f) * sizeof *y);
    bool gelu = p->activate.activation == DEVICE_ACTIVATION_GELU;
    device->ops->activate_forward(device, p->n, p->f, &p->activate, p->x, y);
    device->ops->activate_backward(device, p->n, p->f, &p->activate, gelu ? p->x : NULL, gelu ? NULL : y, p->grad_y,
                                   p->add, out);
    free(y);
}

Test(pointwise, activation_with_dropout_agrees_with_the_reference_for_every_kind_and_width)
{
    char what[64];
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        int64_t n = 80, f = widths[i];
        uint32_t *node = node_ids(n);
        float *x = device_random((size_t)(n * f), 1), *grad_y = device_random((size_t)(n * f), 2);
        for (int64_t j = 0; j < n * f; j++) {
            x[j] *= 6.0f;
        }
        for (size_t k = 0; k < sizeof activations / sizeof *activations; k++) {
            for (int drop = 0; drop < 2; drop++) {
                struct pointwise p = {n,
                                      f,
                                      {.activation = activations[k],
                                       .p = drop ? 0.4 : 0.0,
                                       .node = node,
                                       .key = {.seed = 9, .epoch = 3, .op = 5, .stream = RANDOM_STREAM_DROPOUT}},
                                      x,
                                      grad_y,
                                      NULL,
                                      false};
                snprintf(what, sizeof what, "activation %d, f = %d, dropout %d", (int)k, (int)f, drop);
                void (*compare)(const char *, device_run, const void *, size_t, double) =
                    activations[k] == DEVICE_ACTIVATION_GELU ? device_check_close : device_check;
                compare(what, forward, &p, (size_t)(n * f), TOLERANCE_ELEMENT);
                compare(what, backward, &p, (size_t)(n * f), TOLERANCE_ELEMENT);
                p.add = true;
                compare(what, backward, &p, (size_t)(n * f), TOLERANCE_ELEMENT);
            }
        }
        free(node);
        free(x);
        free(grad_y);
    }
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

static void bias_add(struct device *device, const void *context, float *out)
{
    const struct pointwise *p = context;
    device->ops->bias_add(device, p->n, p->f, p->x, p->bias, out);
}

static void axpby(struct device *device, const void *context, float *out)
{
    const struct pointwise *p = context;
    device->ops->axpby(device, p->n * p->f, 0.3f, p->x, p->grad_y != NULL ? -1.5f : 0.0f, p->grad_y, out);
}

static void eps_add(struct device *device, const void *context, float *out)
{
    const struct pointwise *p = context;
    device->ops->eps_add(device, p->n * p->f, p->bias, p->x, p->grad_y, out);
}

static void eps_scale(struct device *device, const void *context, float *out)
{
    const struct pointwise *p = context;
    device->ops->eps_add(device, p->n * p->f, p->bias, p->x, p->add ? out : NULL, out);
}

static void columns_copy(struct device *device, const void *context, float *out)
{
    const struct pointwise *p = context;
    int64_t half = p->f / 2; /* the right half of x to the left half of out, whose right half stays */
    device->ops->columns_copy(device, p->n, half, p->x + p->f - half, p->f, out, p->f, p->add);
}

/* out: the greater, then both gradients */
static void max(struct device *device, const void *context, float *out)
{
    const struct pointwise *p = context;
    int64_t size = p->n * p->f;
    device->ops->max_forward(device, size, p->x, p->grad_y, out);
    device->ops->max_backward(device, size, p->x, out, p->bias, p->add, out + size, !p->add, out + 2 * size);
}

Test(pointwise, copied_columns_and_maxima_agree_with_the_reference)
{
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        int64_t n = 150, f = widths[i];
        size_t size = (size_t)(n * f);
        float *x = device_random(size, 1), *y = device_random(size, 2), *grad = device_random(size, 3);
        for (size_t k = 0; k < size; k += 5) {
            y[k] = x[k];
        }
        for (int add = 0; add < 2; add++) {
            struct pointwise p = {n, f, {.p = 0.0}, x, y, grad, add == 1};
            device_check("columns_copy", columns_copy, &p, size, 0.0);
            device_check("max", max, &p, 3 * size, 0.0);
        }
        free(x);
        free(y);
        free(grad);
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

Test(pointwise, bias_and_weighted_sums_agree_with_the_reference)
{
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        int64_t n = 150, f = widths[i];
        size_t n_out = (size_t)(n * f);
        float *x = device_random(n_out, 1), *y = device_random(n_out, 2), *bias = device_random((size_t)f, 3);
        struct pointwise p = {n, f, {.p = 0.0}, x, y, bias, false};
        device_check("bias_add", bias_add, &p, n_out, TOLERANCE_ELEMENT);
        device_check("axpby", axpby, &p, n_out, TOLERANCE_ELEMENT);
        device_check("eps_add", eps_add, &p, n_out, TOLERANCE_ELEMENT);
        device_check("eps_scale", eps_scale, &p, n_out, TOLERANCE_ELEMENT);
        p.add = true;
        p.grad_y = NULL;
        device_check("axpby without y", axpby, &p, n_out, TOLERANCE_ELEMENT);
        device_check("eps_scale adding", eps_scale, &p, n_out, TOLERANCE_ELEMENT);
        free(x);
        free(y);
        free(bias);
    }
}

/* out: y, mean and rstd, grad_x, grad_weight, grad_bias */
static void layer_norm(struct device *device, const void *context, float *out)
{
    const struct pointwise *p = context;
    int64_t size = p->n * p->f;
    float *mean_rstd = out + size, *grad_x = mean_rstd + 2 * p->n, *grad_weight = grad_x + size;
    void *scratch = device_scratch(device->ops->layer_norm_scratch(p->n, p->f));
    device->ops->layer_norm_forward(device, p->n, p->f, p->x, p->bias, p->bias + p->f, mean_rstd, out);
    const struct device_norm_backward how = {.n = p->n,
                                             .f = p->f,
                                             .x = p->x,
                                             .weight = p->bias,
                                             .mean_rstd = mean_rstd,
                                             .grad_y = p->grad_y,
                                             .add = p->add,
                                             .add_param = p->add,
                                             .grad_x = grad_x,
                                             .grad_weight = grad_weight,
                                             .grad_bias = grad_weight + p->f,
                                             .scratch = scratch};
    device->ops->layer_norm_backward(device, &how);
    free(scratch);
}

Test(norm, layer_norm_and_its_gradients_agree_with_the_reference)
{
    const int64_t heights[] = {0, 1, 2500};
    const int64_t norm_widths[] = {3, 16, 33, 128};
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < 4; j++) {
            int64_t n = heights[i], f = norm_widths[j];
            size_t size = (size_t)(n * f);
            float *x = device_random(size, 1), *grad_y = device_random(size, 2),
                  *weight = device_random((size_t)f * 2, 3);
            struct pointwise p = {n, f, {.p = 0.0}, x, grad_y, weight, false};
            device_check("layer norm", layer_norm, &p, 2 * size + (size_t)(2 * n + 2 * f), TOLERANCE_SUM);
            p.add = true;
            device_check("layer norm, adding", layer_norm, &p, 2 * size + (size_t)(2 * n + 2 * f), TOLERANCE_SUM);
            free(x);
            free(grad_y);
            free(weight);
        }
    }
}
