#include "models/device.h"
#include "tests/support/device_case.h"
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
};

/* out: grad; the score is compared here, between the reference and this device */
static void loss(struct device *device, const void *context, float *out)
{
    const struct losses *l = context;
    struct device_score score, expected;
    struct device *reference = NULL;
    void *scratch = device_scratch(device->ops->score_scratch(l->n));
    cr_assert_eq(device_reference.open(1, &reference), STATUS_OK);
    device_reference.loss(reference, l->loss, l->n, l->c, l->logits, l->labels, l->split, 2, 0.25f, NULL, NULL, &expected);
    device_reference.close(reference);
    device->ops->loss(device, l->loss, l->n, l->c, l->logits, l->labels, l->split, 2, 0.25f, scratch,
                      l->scores_only ? NULL : out, &score);
    cr_assert(fabs(score.loss - expected.loss) <= TOLERANCE_SCORE * fabs(expected.loss), "loss %.17g, expected %.17g",
              score.loss, expected.loss);
    cr_assert_eq(score.n_correct, expected.n_correct);
    cr_assert_eq(score.n_true_positive, expected.n_true_positive);
    cr_assert_eq(score.n_false_positive, expected.n_false_positive);
    cr_assert_eq(score.n_false_negative, expected.n_false_negative);
    cr_assert_eq(score.n_row, expected.n_row);
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
            for (int64_t r = 0; r < n; r++) {
                labels[r] = r % 11 == 3 ? -1 : (int32_t)(r * 5 % c);
                split[r] = r % 3 == 0 ? 2 : (uint8_t)(1 + r % 2 * 2);
            }
            for (int64_t k = 0; k < n * c; k++) {
                logits[k] = roundf(logits[k] * 30.0f); /* equals are among the largest: the first is the class */
                targets[k] = k % 13 == 0 ? NAN : targets[k] > 0.0f ? 1.0f : 0.0f;
            }
            struct losses l = {DEVICE_LOSS_CROSS_ENTROPY, n, c, logits, labels, split, false};
            device_check("cross entropy", loss, &l, (size_t)(n * c), TOLERANCE_ELEMENT);
            l.scores_only = true;
            device_check("cross entropy, scores only", loss, &l, (size_t)(n * c), TOLERANCE_ELEMENT);
            l = (struct losses){DEVICE_LOSS_BCE, n, c, logits, targets, split, false};
            device_check("binary cross entropy", loss, &l, (size_t)(n * c), TOLERANCE_ELEMENT);
            free(logits);
            free(targets);
            free(labels);
            free(split);
        }
    }
}

struct steps {
    struct device_step how;
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
    for (how.t = 1; how.t <= 10; how.t++) {
        device->ops->step(device, &how, n, s->grad + how.t * 100, out, moment ? out + n : NULL, moment ? out + 2 * n : NULL);
    }
}

Test(optimizer, ten_steps_of_each_kind_agree_with_the_reference)
{
    float *w = device_random(20000, 1), *grad = device_random(22000, 2);
    const struct device_step kinds[] = {
        {.optimizer = DEVICE_OPTIMIZER_SGD, .lr = 0.1, .weight_decay = 0.01},
        {.optimizer = DEVICE_OPTIMIZER_SGD, .lr = 0.1, .weight_decay = 0.01, .momentum = 0.9},
        {.optimizer = DEVICE_OPTIMIZER_ADAM, .lr = 0.01, .weight_decay = 5e-4, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
        {.optimizer = DEVICE_OPTIMIZER_ADAMW, .lr = 0.01, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct steps s = {kinds[i], w, grad};
        device_check("ten steps", ten_steps, &s, 60000, TOLERANCE_STEPS);
    }
    free(w);
    free(grad);
}
