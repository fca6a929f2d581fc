/* Losses, their gradients with respect to the logits, and the counts behind accuracy and micro-F1. */
#include "models/reference/reference.h"

#include <math.h>
#include <string.h>

/* −log softmax(z)[label], as log Σ exp(z − max) − (z[label] − max). */
static void cross_entropy_row(int64_t c, const float *z, int32_t label, double scale, float *grad, struct device_score *score)
{
    int64_t best = 0;
    double sum = 0.0;
    for (int64_t k = 1; k < c; k++) {
        best = z[k] > z[best] ? k : best;
    }
    for (int64_t k = 0; k < c; k++) {
        sum += exp((double)z[k] - z[best]);
    }
    score->loss += log(sum) - ((double)z[label] - z[best]);
    score->n_correct += best == label;
    score->n_row += 1.0;
    if (grad != NULL) {
        for (int64_t k = 0; k < c; k++) {
            grad[k] = (float)(scale * (exp((double)z[k] - z[best]) / sum - (k == label)));
        }
    }
}

/* Σ over known classes of max(z, 0) − z·t + log(1 + exp(−|z|)); gradient sigmoid(z) − t. */
static void bce_row(int64_t c, const float *z, const float *target, double scale, float *grad, struct device_score *score)
{
    bool known = false;
    for (int64_t k = 0; k < c; k++) {
        if (isnan(target[k])) {
            continue;
        }
        double logit = z[k];
        bool truth = target[k] > 0.5f;
        known = true;
        score->loss += fmax(logit, 0.0) - logit * target[k] + log1p(exp(-fabs(logit)));
        score->n_true_positive += logit > 0.0 && truth;
        score->n_false_positive += logit > 0.0 && !truth;
        score->n_false_negative += !(logit > 0.0) && truth;
        if (grad != NULL) {
            grad[k] = (float)(scale * (1.0 / (1.0 + exp(-logit)) - target[k]));
        }
    }
    score->n_row += known;
}

static bool is_drawn(const struct device_draw *draw, int64_t row)
{
    return random_u32(&draw->key, draw->node[row], 0) < random_drop_threshold(draw->p);
}

void reference_loss(struct device *device, enum device_loss loss, int64_t n, int64_t c, const float *logits, const void *labels,
                    const uint8_t *row_split, uint8_t split, const struct device_draw *drawn, float scale, void *scratch,
                    float *grad, struct device_score *score_host)
{
    (void)scratch;
    *score_host = (struct device_score){0};
    if (grad != NULL) {
        reference_fill_zero(device, grad, (size_t)(n * c) * sizeof *grad);
    }
    for (int64_t r = 0; r < n; r++) {
        float *grad_row = grad != NULL ? grad + r * c : NULL;
        if (row_split[r] != split || (drawn != NULL && !is_drawn(drawn, r))) {
            continue;
        }
        if (loss == DEVICE_LOSS_BCE) {
            bce_row(c, logits + r * c, (const float *)labels + r * c, scale, grad_row, score_host);
        } else if (((const int32_t *)labels)[r] >= 0) {
            cross_entropy_row(c, logits + r * c, ((const int32_t *)labels)[r], scale, grad_row, score_host);
        }
    }
}

size_t reference_score_scratch(int64_t n)
{
    (void)n;
    return 0;
}

void reference_labels_append(struct device *device, int64_t n, int64_t f, const float *x, int64_t c, const int32_t *labels,
                             const float *label_rows, const uint8_t *row_split, uint8_t split, const struct device_draw *drawn,
                             float *out)
{
    (void)device;
    for (int64_t r = 0; r < n; r++) {
        float *row = out + r * (f + c);
        bool shown = row_split[r] == split && !is_drawn(drawn, r);
        memcpy(row, x + r * f, (size_t)f * sizeof *row);
        for (int64_t k = 0; k < c; k++) {
            float label = labels != NULL ? (float)(labels[r] == k) : label_rows[r * c + k];
            row[f + k] = shown && !isnan(label) ? label : 0.0f;
        }
    }
}

void reference_draw_count(struct device *device, int64_t n, const uint8_t *row_split, uint8_t split,
                          const struct device_draw *drawn, double *count_host)
{
    (void)device;
    int64_t count = 0;
    for (int64_t r = 0; r < n; r++) {
        count += row_split[r] == split && is_drawn(drawn, r);
    }
    *count_host = (double)count;
}
