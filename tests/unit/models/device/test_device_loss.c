#include "models/device/device.h"
#include "tests/support/device/device_case.h"
#include "tests/support/tolerance.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct losses {
    enum device_loss loss;
    int64_t n, c;
    const float *logits;
    const void *labels;
    const uint8_t *split;
    bool scores_only;
    const struct device_draw *drawn;
    const float *weights;
    double smoothing;
    double delta;
};

static const struct device_now four_rows = {.n_loss_row = 4.0}, one_row = {.n_loss_row = 1.0};

/* out: grad; the score is compared here, between the reference and this device */
static void loss(struct device *device, const void *context, float *out)
{
    const struct losses *l = context;
    struct device_score score, expected;
    struct device *reference = NULL;
    void *scratch = device_scratch(device->ops->score_scratch(l->n));
    cr_assert_eq(device_reference.open(1, &reference), STATUS_OK);
    struct device_scoring how = {.loss = l->loss,
                                 .n = l->n,
                                 .c = l->c,
                                 .logits = l->logits,
                                 .labels = l->labels,
                                 .weights = l->weights,
                                 .smoothing = l->smoothing,
                                 .delta = l->delta,
                                 .row_split = l->split,
                                 .split = 2,
                                 .now = &four_rows};
    if (l->drawn != NULL) {
        how.drawn = *l->drawn;
    }
    device_reference.loss(reference, &how, &expected);
    device_reference.close(reference);
    how.scratch = scratch;
    how.grad = l->scores_only ? NULL : out;
    device->ops->loss(device, &how, &score);
    cr_assert(fabs(score.loss - expected.loss) <= TOLERANCE_SCORE * fabs(expected.loss), "loss %.17g, expected %.17g",
              score.loss, expected.loss);
    cr_assert_eq(score.n_correct, expected.n_correct);
    cr_assert_eq(score.n_true_positive, expected.n_true_positive);
    cr_assert_eq(score.n_false_positive, expected.n_false_positive);
    cr_assert_eq(score.n_false_negative, expected.n_false_negative);
    cr_assert_eq(score.n_row, expected.n_row);
    cr_assert(fabs(score.weight - expected.weight) <= TOLERANCE_SCORE * expected.weight,
              "weight %.17g, expected %.17g", score.weight, expected.weight);
    free(scratch);
}

Test(loss, losses_gradients_and_counts_agree_with_the_reference)
{
    const int64_t heights[] = {0, 1, 5000};
    const int64_t classes[] = {1, 2, 7, 40};
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < 4; j++) {
            int64_t n = heights[i], c = classes[j];
            float *logits = device_random((size_t)(n * c), 1), *targets = device_random((size_t)(n * c), 2);
            int32_t *labels = device_scratch((size_t)n * sizeof *labels);
            uint8_t *split = device_scratch((size_t)n);
            float *weights = device_random((size_t)c, 5);
            uint32_t *node = device_scratch((size_t)n * sizeof *node);
            const struct device_draw draw = {.p = 0.6, .key = {.seed = 3, .op = 4}, .node = node};
            for (int64_t r = 0; r < n; r++) {
                labels[r] = r % 11 == 3 ? -1 : (int32_t)(r * 5 % c);
                node[r] = (uint32_t)(r * 31);
                split[r] = r % 3 == 0 ? 2 : (uint8_t)(1 + r % 2 * 2);
            }
            for (int64_t k = 0; k < c; k++) {
                weights[k] = k == 1 ? 0.0f : fabsf(weights[k]) * 3.0f;
            }
            for (int64_t k = 0; k < n * c; k++) {
                logits[k] = roundf(logits[k] * 30.0f); /* equals are among the largest: the first is the class */
                targets[k] = k % 13 == 0 ? NAN : targets[k] > 0.0f ? 1.0f : 0.0f;
            }
            struct losses l = {DEVICE_LOSS_CROSS_ENTROPY, n, c, logits, labels, split, false, NULL, NULL, 0.0, 0.0};
            device_check_close("cross entropy", loss, &l, (size_t)(n * c), TOLERANCE_ELEMENT);
            l.drawn = &draw;
            device_check_close("cross entropy of drawn rows", loss, &l, (size_t)(n * c), TOLERANCE_ELEMENT);
            l.scores_only = true;
            device_check_close("cross entropy, scores only", loss, &l, (size_t)(n * c), TOLERANCE_ELEMENT);
            l = (struct losses){
                DEVICE_LOSS_CROSS_ENTROPY, n, c, logits, labels, split, false, NULL, weights, 0.0, 0.0};
            device_check_close("cross entropy with weights", loss, &l, (size_t)(n * c), TOLERANCE_ELEMENT);
            l.smoothing = 0.2;
            device_check_close("cross entropy with weights and smoothing", loss, &l, (size_t)(n * c),
                               TOLERANCE_ELEMENT);
            l.weights = NULL;
            device_check_close("cross entropy with smoothing", loss, &l, (size_t)(n * c), TOLERANCE_ELEMENT);
            l = (struct losses){DEVICE_LOSS_BCE, n, c, logits, targets, split, false, &draw, NULL, 0.0, 0.0};
            device_check_close("binary cross entropy", loss, &l, (size_t)(n * c), TOLERANCE_ELEMENT);
            l.weights = weights;
            device_check_close("binary cross entropy with weights", loss, &l, (size_t)(n * c), TOLERANCE_ELEMENT);
            const enum device_loss of_numbers[] = {DEVICE_LOSS_MSE, DEVICE_LOSS_MAE, DEVICE_LOSS_HUBER};
            for (int k = 0; k < 3; k++) { /* huber: errors on both sides of delta */
                l = (struct losses){of_numbers[k], n, c, logits, targets, split, false, &draw, NULL, 0.0, 7.0};
                device_check_close("numbers", loss, &l, (size_t)(n * c), TOLERANCE_ELEMENT);
                l.scores_only = true;
                device_check_close("numbers, scores only", loss, &l, (size_t)(n * c), TOLERANCE_ELEMENT);
            }
            free(logits);
            free(targets);
            free(labels);
            free(split);
            free(weights);
            free(node);
        }
    }
}

struct steps {
    struct device_step how;
    double lr, clip; /* 0: gradients are not clipped */
    const float *w, *grad;
};

/* out: w, m, v after ten steps with gradients that change */
static void ten_steps(struct device *device, const void *context, float *out)
{
    const struct steps *s = context;
    const int64_t n = 20000;
    struct device_step how = s->how;
    memcpy(out, s->w, (size_t)n * sizeof *out);
    memset(out + n, 0, (size_t)(2 * n) * sizeof *out);
    bool moment = how.optimizer != DEVICE_OPTIMIZER_SGD || how.momentum > 0.0;
    for (int t = 1; t <= 10; t++) {
        const struct device_now now = {.lr = s->lr,
                                       .correction_1 = 1.0 - pow(how.beta1, t),
                                       .correction_2 = 1.0 - pow(how.beta2, t),
                                       .clip = s->clip};
        how.now = &now;
        how.clip = s->clip > 0.0 ? &now.clip : NULL;
        device->ops->step(device, &how, n, s->grad + t * 100, out, moment ? out + n : NULL,
                          moment ? out + 2 * n : NULL);
    }
}

Test(optimizer, ten_steps_of_each_kind_agree_with_the_reference)
{
    float *w = device_random(20000, 1), *grad = device_random(22000, 2);
    const struct device_step kinds[] = {
        {.optimizer = DEVICE_OPTIMIZER_SGD, .weight_decay = 0.01},
        {.optimizer = DEVICE_OPTIMIZER_SGD, .weight_decay = 0.01, .momentum = 0.9},
        {.optimizer = DEVICE_OPTIMIZER_ADAM, .weight_decay = 5e-4, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
        {.optimizer = DEVICE_OPTIMIZER_ADAMW, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct steps s = {kinds[i], kinds[i].optimizer == DEVICE_OPTIMIZER_SGD ? 0.1 : 0.01, 0.0, w, grad};
        device_check("ten steps", ten_steps, &s, 60000, TOLERANCE_STEPS);
        s.clip = 0.3;
        device_check("ten steps of clipped gradients", ten_steps, &s, 60000, TOLERANCE_STEPS);
    }
    free(w);
    free(grad);
}

struct norms {
    int64_t n;
    double most;
    const float *x;
};

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
    void *scratch = device_scratch(device_cpu.score_scratch(N));
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
