#include "models/device/device.h"
#include "tests/support/device/device_case.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

struct norms {
    int64_t n;
    double most;
    const float *x;
};

static const struct device_now one_row = {.n_loss_row = 1.0};

/* out: norm and factor, with 0.75 already in the sum of squares */
static void norm(struct device *device, const void *context, float *out)
{
    const struct norms *how = context;
    struct device_now now = {.lr = 1.0};
    double squares = 0.75;
    device->ops->squares_add(device, how->n, how->x, &squares);
    device->ops->clip_factor(device, how->most, &squares, &now);
    out[0] = (float)now.grad_norm;
    out[1] = (float)now.clip;
}

Test(optimizer, gradients_longer_than_the_norm_are_scaled_to_it_and_shorter_ones_left)
{
    enum { MOST = 100000 };
    float *x = device_random(MOST, 3);
    const int64_t lengths[] = {0, 1, 255, 256, 257, 5000, MOST};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const struct norms tight = {lengths[i], 0.01, x}, wide = {lengths[i], 1e6, x};
        device_check("norm", norm, &tight, 2, TOLERANCE_DOUBLE_SUM);
        device_check("norm", norm, &wide, 2, TOLERANCE_DOUBLE_SUM);
    }
    /* 3² + 4² */
    const float two[] = {3.0F, 4.0F};
    for (int d = 0; d < 2; d++) {
        struct device *device = NULL;
        struct device_now now = {.lr = 1.0};
        double squares = 0.0;
        cr_assert_eq(device_tables[d]->open(1, &device), STATUS_OK);
        device->ops->squares_add(device, 2, two, &squares);
        device->ops->clip_factor(device, 2.0, &squares, &now);
        cr_expect_eq(now.grad_norm, 5.0);
        cr_expect_eq(now.clip, 2.0 / (5.0 + 1e-6));
        device->ops->clip_factor(device, 7.0, &squares, &now);
        cr_expect_eq(now.clip, 1.0);
        squares = NAN;
        device->ops->clip_factor(device, 7.0, &squares, &now);
        cr_expect(isnan(now.clip), "what is no number must not look like a short gradient");
        device->ops->close(device);
    }
    free(x);
}

/* --- labels as input: rows of split 2, some of them drawn --- */

struct known {
    int64_t n, f, c;
    const float *x, *label_rows;
    const int32_t *labels;
    const uint8_t *split;
    struct device_draw draw;
};

/* out: x and labels, then how many rows are hidden */
static void labels_append(struct device *device, const void *context, float *out)
{
    const struct known *k = context;
    double count;
    const struct device_labels how = {k->n, k->c, k->labels, k->label_rows, k->split, 2, k->draw};
    device->ops->labels_append(device, &how, k->f, k->x, out);
    device->ops->draw_count(device, &how, &count);
    out[k->n * (k->f + k->c)] = (float)count;
}

Test(loss, rows_show_their_labels_or_count_in_the_loss_but_never_both)
{
    enum { N = 3000, F = 3, C = 4 };
    static float x[N * F], rows[N * C], out[N * (F + C)], logits[N * C], grad[N * C];
    static int32_t labels[N];
    static uint8_t split[N];
    static uint32_t node[N];
    for (int i = 0; i < N; i++) {
        labels[i] = i % 7 == 0 ? -1 : i % C;
        split[i] = (uint8_t)(1 + i % 3);
        node[i] = (uint32_t)(N - i);
        x[i * F] = (float)i;
        for (int c = 0; c < C; c++) {
            rows[i * C + c] = i % 5 == c ? NAN : (float)(i % 2);
        }
    }
    struct known k = {N,    F,      C,     x,
                      NULL, labels, split, {.p = 0.3, .key = {.seed = 5, .epoch = 2, .op = 1}, .node = node}};
    device_check("labels", labels_append, &k, N * (F + C) + 1, 0.0);
    k.labels = NULL;
    k.label_rows = rows;
    device_check("several labels", labels_append, &k, N * (F + C) + 1, 0.0);

    struct device *device = NULL;
    struct device_score score;
    void *scratch = device_scratch(DEVICE_BYTES(&device_cpu, LOSS, N));
    cr_assert_eq(device_cpu.open(2, &device), STATUS_OK);
    const struct device_labels shown_labels = {N, C, labels, NULL, split, 2, k.draw};
    device_cpu.labels_append(device, &shown_labels, F, x, out);
    const struct device_scoring how = {.n = N,
                                       .c = C,
                                       .logits = logits,
                                       .labels = labels,
                                       .row_split = split,
                                       .split = 2,
                                       .drawn = k.draw,
                                       .now = &one_row,
                                       .grad = grad,
                                       .scratch = scratch};
    device_cpu.loss(device, &how, &score);
    int n_shown = 0, n_lost = 0;
    for (int i = 0; i < N; i++) {
        int shown = 0, lost = 0;
        for (int c = 0; c < C; c++) {
            shown += out[i * (F + C) + F + c] == 1.0f;
            lost += grad[i * C + c] != 0.0f;
        }
        cr_assert(out[i * (F + C)] == (float)i);
        cr_assert_eq(shown + (lost > 0), split[i] == 2 && labels[i] >= 0, "row %d", i);
        n_shown += shown;
        n_lost += lost > 0;
    }
    cr_expect(n_lost == (int)score.n_row && abs(n_lost - 257) < 60, "%d rows in the loss, %d shown", n_lost, n_shown);

    /* Of several labels the mean is over those of hidden rows that are there. */
    double n_label;
    const struct device_labels hidden_rows = {N, C, NULL, rows, split, 2, k.draw};
    struct device_scoring of_rows = how;
    of_rows.loss = DEVICE_LOSS_BCE;
    of_rows.labels = rows;
    device_cpu.draw_count(device, &hidden_rows, &n_label);
    device_cpu.loss(device, &of_rows, &score);
    cr_expect(n_label == score.weight && n_label < C * score.n_row, "%g labels, %g in the loss", n_label,
              score.weight);
    device_cpu.close(device);
    free(scratch);
}
