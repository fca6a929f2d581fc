#include "models/device/device.h"
#include "tests/support/device/device_case.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dense {
    int64_t n, f_in, f_out;
    const float *x, *w, *bias, *grad_y;
    bool add;
};

static const int64_t rows[] = {0, 1, 300, 1100};
static const int64_t shapes[][2] = {{1, 1}, {3, 7}, {16, 16}, {33, 17}, {64, 100}, {200, 3}, {300, 128}, {7, 256}};

static void forward(struct device *device, const void *context, float *out)
{
    const struct dense *d = context;
    device->ops->linear_forward(device, d->n, d->f_in, d->f_out, d->x, d->w, d->bias, d->add, out);
}

static void backward_input(struct device *device, const void *context, float *out)
{
    const struct dense *d = context;
    device->ops->linear_backward_input(device, d->n, d->f_in, d->f_out, d->grad_y, d->w, d->add, out);
}

static void backward_weight(struct device *device, const void *context, float *out)
{
    const struct dense *d = context;
    void *scratch = device_scratch(device->ops->linear_scratch(d->n, d->f_in, d->f_out));
    device->ops->linear_backward_weight(device, d->n, d->f_in, d->f_out, d->x, d->grad_y, scratch, d->add, out);
    free(scratch);
}

static void check_shape(int64_t n, int64_t f_in, int64_t f_out)
{
    char what[96];
    float *x = device_random((size_t)(n * f_in), 1), *w = device_random((size_t)(f_out * f_in), 2);
    float *bias = device_random((size_t)f_out, 3), *grad_y = device_random((size_t)(n * f_out), 4);
    struct dense d = {n, f_in, f_out, x, w, bias, grad_y, false};
    snprintf(what, sizeof what, "linear %d x %d x %d", (int)n, (int)f_in, (int)f_out);
    device_check_close(what, forward, &d, (size_t)(n * f_out), TOLERANCE_SUM);
    device_check_close(what, backward_input, &d, (size_t)(n * f_in), TOLERANCE_SUM);
    device_check_close(what, backward_weight, &d, (size_t)(f_out * f_in), TOLERANCE_SUM);
    d.bias = NULL;
    d.add = true;
    device_check_close(what, forward, &d, (size_t)(n * f_out), TOLERANCE_SUM);
    device_check_close(what, backward_input, &d, (size_t)(n * f_in), TOLERANCE_SUM);
    device_check_close(what, backward_weight, &d, (size_t)(f_out * f_in), TOLERANCE_SUM);
    free(x);
    free(w);
    free(bias);
    free(grad_y);
}

Test(dense, a_linear_layer_and_its_gradients_agree_with_the_reference_and_keep_their_bits)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t j = 0; j < sizeof shapes / sizeof *shapes; j++) {
            check_shape(rows[i], shapes[j][0], shapes[j][1]);
        }
    }
}

Test(dense, many_rows_go_in_more_than_one_piece_and_chunk)
{
    check_shape(20001, 33, 5);
    check_shape(2708, 300, 16);
}

static void column_sum(struct device *device, const void *context, float *out)
{
    const struct dense *d = context;
    void *scratch = device_scratch(device->ops->column_sum_scratch(d->n, d->f_in));
    device->ops->column_sum(device, d->n, d->f_in, d->x, scratch, d->add, out);
    free(scratch);
}

static void dot(struct device *device, const void *context, float *out)
{
    const struct dense *d = context;
    void *scratch = device_scratch(device->ops->column_sum_scratch(d->n, d->f_in));
    device->ops->dot(device, d->n, d->f_in, d->x, d->grad_y, scratch, d->add, out);
    free(scratch);
}

Test(dense, sums_over_rows_are_double_sums_whatever_the_threads)
{
    const int64_t heights[] = {0, 1, 1023, 1025, 140000};
    const int64_t widths[] = {1, 3, 17, 100};
    for (size_t i = 0; i < sizeof heights / sizeof *heights; i++) {
        for (size_t j = 0; j < sizeof widths / sizeof *widths; j++) {
            int64_t n = heights[i] > 100000 && widths[j] > 3 ? 5000 : heights[i];
            float *x = device_random((size_t)(n * widths[j]), 1), *y = device_random((size_t)(n * widths[j]), 2);
            struct dense d = {.n = n, .f_in = widths[j], .x = x, .grad_y = y};
            device_check("column_sum", column_sum, &d, (size_t)widths[j], TOLERANCE_DOUBLE_SUM);
            device_check("dot", dot, &d, 1, TOLERANCE_DOUBLE_SUM);
            d.add = true;
            device_check("column_sum", column_sum, &d, (size_t)widths[j], TOLERANCE_DOUBLE_SUM);
            device_check("dot", dot, &d, 1, TOLERANCE_DOUBLE_SUM);
            free(x);
            free(y);
        }
    }
}

/* x: n chunks of f_in floats */
static void chunks_add(struct device *device, const void *context, float *out)
{
    const struct dense *d = context;
    device->ops->chunks_add(device, d->f_in, d->n, d->x, out);
}

/* x: f_in doubles, added to as many */
static void doubles_add(struct device *device, const void *context, float *out)
{
    const struct dense *d = context;
    double *sum = device_scratch((size_t)d->f_in * sizeof *sum),
           *more = device_scratch((size_t)d->f_in * sizeof *more);
    for (int64_t i = 0; i < d->f_in; i++) {
        sum[i] = d->x[i];
        more[i] = 3.0 * (double)d->w[i];
    }
    device->ops->doubles_add(device, d->f_in, more, sum);
    for (int64_t i = 0; i < d->f_in; i++) {
        out[i] = (float)sum[i];
    }
    free(sum);
    free(more);
}

Test(dense, partial_results_are_added_one_after_another)
{
    const int64_t widths[] = {1, 3, 64, 1003};
    for (size_t j = 0; j < sizeof widths / sizeof *widths; j++) {
        float *x = device_random((size_t)(9 * widths[j]), 1), *w = device_random((size_t)widths[j], 2);
        for (int64_t n = 1; n < 10; n += 4) {
            struct dense d = {.n = n, .f_in = widths[j], .x = x, .w = w};
            device_check("chunks_add", chunks_add, &d, (size_t)widths[j], TOLERANCE_SUM);
        }
        struct dense d = {.f_in = widths[j], .x = x, .w = w};
        device_check("doubles_add", doubles_add, &d, (size_t)widths[j], TOLERANCE_ELEMENT);
        free(x);
        free(w);
    }
}
