/* What a row's elements alone say: maps, norms, optimisers. */
#include "models/device/statistics.h"
#include "tests/support/operations/operation.h"
#include "tests/support/tolerance.h"

#include <math.h>

/* n, f, activation, thousandths dropped */
static void activate(struct operation_run *run, const int64_t *shape)
{
    const struct device_ops *ops = run->ops;
    int64_t n = shape[0], f = shape[1];
    const struct device_activate how = {.activation = (enum device_activation)shape[2],
                                        .p = (double)shape[3] / 1000.0,
                                        .key = {.seed = 5, .op = 3, .stream = RANDOM_STREAM_DROPOUT},
                                        .now = operation_now(run, (struct device_now){.epoch = 9}),
                                        .node = operation_numbers(run, n, 7, 13)};
    const float *x = operation_random(run, n * f), *grad_y = operation_random(run, n * f);
    float *y = operation_floats(run, n * f);
    ops->axpby(run->device, n * f, 4.0F, NULL, x, 0.0F, NULL,
               (float *)(uintptr_t)x); /* into the tails of elu and gelu */
    ops->activate_forward(run->device, n, f, &how, x, y);
    for (int add = 0; add < 2; add++) {
        ops->activate_backward(run->device, n, f, &how, how.activation == DEVICE_ACTIVATION_GELU ? x : NULL, y,
                               grad_y, add, operation_floats(run, n * f));
    }
}

/* n, f */
static void pointwise(struct operation_run *run, const int64_t *shape)
{
    const struct device_ops *ops = run->ops;
    int64_t n = shape[0], f = shape[1], size = n * f;
    const float *x = operation_random(run, size), *y = operation_random(run, size), *bias = operation_random(run, f);
    const float *eps = operation_random(run, 1), *wide = operation_random(run, n * (f + 3));
    float *largest = operation_floats(run, size);
    ops->bias_add(run->device, n, f, x, bias, operation_floats(run, size));
    ops->axpby(run->device, size, 0.3F, NULL, x, -1.7F, y, operation_floats(run, size));
    ops->axpby(run->device, size, 0.3F, NULL, x, 0.0F, NULL, operation_floats(run, size));
    ops->axpby(run->device, size, 1.0F, eps, x, 1.0F, y, operation_floats(run, size));
    ops->axpby(run->device, size, 1.0F, eps, x, 1.0F, NULL, operation_floats(run, size));
    ops->max_forward(run->device, size, x, y, largest);
    for (int add = 0; add < 2; add++) {
        ops->columns_copy(run->device, n, f, wide + 2, f + 3, operation_floats(run, size), f, add);
        ops->max_backward(run->device, size, x, largest, y, add, operation_floats(run, size), !add,
                          operation_floats(run, size));
    }
}

/* n, f */
static void norms_of_rows(struct operation_run *run, const int64_t *shape)
{
    const struct device_ops *ops = run->ops;
    int64_t n = shape[0], f = shape[1];
    const float *x = operation_random(run, n * f), *y = operation_random(run, n * f),
                *grad = operation_random(run, n);
    float *norm = operation_floats(run, n);
    ops->inverse_norm(run->device, n, f, x, norm);
    for (int add = 0; add < 2; add++) {
        ops->inverse_norm_backward(run->device, n, f, x, norm, grad, add, operation_floats(run, n * f));
        ops->rows_multiply(run->device, n, f, norm, x, add, operation_floats(run, n * f));
        ops->rows_dot(run->device, n, f, x, y, add, operation_floats(run, n));
    }
}

/* n, f */
static void layer_norm(struct operation_run *run, const int64_t *shape)
{
    const struct device_ops *ops = run->ops;
    int64_t n = shape[0], f = shape[1];
    const float *x = operation_random(run, n * f), *weight = operation_random(run, f),
                *bias = operation_random(run, f);
    float *mean_rstd = operation_floats(run, 2 * n);
    struct device_norm_backward how = {.n = n, .f = f, .x = x, .weight = weight, .mean_rstd = mean_rstd};
    how.grad_y = operation_random(run, n * f);
    how.scratch = operation_scratch(run, DEVICE_BYTES(ops, LAYER_NORM, n, f));
    ops->layer_norm_forward(run->device, n, f, x, weight, bias, mean_rstd, operation_floats(run, n * f));
    for (int add = 0; add < 2; add++) {
        how.add = how.add_weight = how.add_bias = add;
        how.grad_x = operation_floats(run, n * f);
        how.grad_weight = operation_floats(run, f);
        how.grad_bias = operation_floats(run, f);
        ops->layer_norm_backward(run->device, &how);
    }
}

/* n, f: of two parts, whose sums are merged */
static void batch_norm(struct operation_run *run, const int64_t *shape)
{
    const struct device_ops *ops = run->ops;
    int64_t n = shape[0], f = shape[1], n_left = n / 3;
    const float *x = operation_random(run, n * f), *weight = operation_random(run, f),
                *bias = operation_random(run, f);
    double *left = operation_doubles(run, STATISTICS_N(f)), *right = operation_doubles(run, STATISTICS_N(f));
    double *mean_rstd = operation_doubles(run, 2 * f), *sums = operation_doubles(run, STATISTICS_N(f));
    float *mean = operation_floats(run, f), *variance = operation_floats(run, f);
    struct device_norm_backward how = {.n = n, .f = f, .x = x, .weight = weight, .mean_rstd = mean_rstd};
    how.grad_y = operation_random(run, n * f);
    how.scratch = operation_scratch(run, DEVICE_BYTES(ops, BATCH_NORM, n, f));
    how.grad_weight = operation_floats(run, f);
    how.grad_bias = operation_floats(run, f);
    ops->batch_norm_statistics(run->device, n_left, f, x, how.scratch, left);
    ops->batch_norm_statistics(run->device, n - n_left, f, x + n_left * f, how.scratch, right);
    ops->doubles_merge(run->device, true, STATISTICS_N(f), right, left);
    ops->batch_norm_begin(run->device, f, left, 0.5, mean, variance, mean_rstd);
    ops->batch_norm_forward(run->device, n, f, x, mean_rstd, weight, bias, operation_floats(run, n * f));
    ops->batch_norm_sums(run->device, &how, sums);
    for (int add = 0; add < 2; add++) {
        how.add = add;
        how.grad_x = operation_floats(run, n * f);
        ops->batch_norm_backward(run->device, &how, sums);
    }
}

/* kind: sgd, sgd with momentum, adam, adamw; three steps, of which the last is of a clipped gradient, and one that is
 * left out as the loss is not finite */
static void optimizer(struct operation_run *run, const int64_t *shape)
{
    enum { N = 5000 };
    static const struct device_step kinds[] = {
        {.optimizer = DEVICE_OPTIMIZER_SGD, .weight_decay = 0.01},
        {.optimizer = DEVICE_OPTIMIZER_SGD, .weight_decay = 0.01, .momentum = 0.9},
        {.optimizer = DEVICE_OPTIMIZER_ADAM, .weight_decay = 5e-4, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
        {.optimizer = DEVICE_OPTIMIZER_ADAMW, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
    };
    static const double losses[] = {1.0, 0.5, 0.25, HUGE_VAL};
    struct device_step how = kinds[shape[0]];
    float *w = operation_floats(run, N), *m = operation_floats(run, N), *v = operation_floats(run, N);
    run->ops->fill_zero(run->device, m, N * sizeof *m);
    run->ops->fill_zero(run->device, v, N * sizeof *v);
    for (int t = 0; t < 4; t++) {
        const float *grad = operation_random(run, N);
        struct device_now *now = operation_now(
            run, (struct device_now){.lr = 0.01, .correction_1 = 0.1 + 0.08 * t, .correction_2 = 1e-3 * (t + 1)});
        double *squares = operation_doubles(run, 1);
        run->ops->fill_zero(run->device, squares, sizeof *squares);
        run->ops->squares_add(run->device, N, grad, squares);
        run->ops->clip_factor(run->device, 3.0, squares, now);
        how.now = now;
        how.clip = t == 2 ? &now->clip : NULL;
        how.loss = operation_copy(run, &losses[t], sizeof losses[t]);
        run->ops->step(run->device, &how, N, grad, w, m, v);
    }
}

const struct operation_case operation_rows_cases[] = {
    {"activate-none", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, activate, {300, 17, DEVICE_ACTIVATION_NONE, 500}},
    {"activate-none-1", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, activate, {5000, 1, DEVICE_ACTIVATION_NONE, 0}},
    {"activate-relu-3", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, activate, {300, 3, DEVICE_ACTIVATION_RELU, 0}},
    {"activate-elu-256", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, activate, {300, 256, DEVICE_ACTIVATION_ELU, 0}},
    {"activate-leaky-200",
     OPERATION_SAME_CPU,
     TOLERANCE_ELEMENT,
     activate,
     {300, 200, DEVICE_ACTIVATION_LEAKY_RELU, 600}},
    {"activate-relu", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, activate, {300, 64, DEVICE_ACTIVATION_RELU, 300}},
    {"activate-elu", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, activate, {300, 33, DEVICE_ACTIVATION_ELU, 300}},
    {"activate-leaky", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, activate, {300, 5, DEVICE_ACTIVATION_LEAKY_RELU, 0}},
    {"activate-gelu", OPERATION_SAME_EMULATED, 1e-6, activate, {300, 33, DEVICE_ACTIVATION_GELU, 300}},
    {"pointwise-300x33", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, pointwise, {300, 33}},
    {"pointwise-1000x64", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, pointwise, {1000, 64}},
    {"norms-of-rows-700x33", OPERATION_SAME_CPU, TOLERANCE_SUM, norms_of_rows, {700, 33}},
    {"norms-of-rows-100x256", OPERATION_SAME_CPU, TOLERANCE_SUM, norms_of_rows, {100, 256}},
    {"layer-norm-700x33", OPERATION_SAME_CPU, TOLERANCE_SUM, layer_norm, {700, 33}},
    {"pointwise-1x2", OPERATION_SAME_CPU, TOLERANCE_ELEMENT, pointwise, {1, 2}},
    {"norms-of-rows-9x1", OPERATION_SAME_CPU, TOLERANCE_SUM, norms_of_rows, {9, 1}},
    {"layer-norm-1x300", OPERATION_SAME_CPU, TOLERANCE_SUM, layer_norm, {1, 300}},
    {"layer-norm-1100x128", OPERATION_SAME_CPU, TOLERANCE_SUM, layer_norm, {1100, 128}},
    {"batch-norm-3100x16", OPERATION_SAME_CPU, TOLERANCE_SUM, batch_norm, {3100, 16}},
    {"batch-norm-700x33", OPERATION_SAME_CPU, TOLERANCE_SUM, batch_norm, {700, 33}},
    {"sgd", OPERATION_SAME_CPU, TOLERANCE_STEPS, optimizer, {0}},
    {"sgd-momentum", OPERATION_SAME_CPU, TOLERANCE_STEPS, optimizer, {1}},
    {"adam", OPERATION_SAME_CPU, TOLERANCE_STEPS, optimizer, {2}},
    {"adamw", OPERATION_SAME_CPU, TOLERANCE_STEPS, optimizer, {3}},
    {0},
};
