/* Losses, their gradients with respect to the logits, and the counts behind accuracy and micro-F1. */
#include "models/reference/reference.h"

#include "models/device/statistics.h"

#include <math.h>
#include <string.h>

/* The share of class k in the loss of a row of class `label`: Σ_k share_k · −log softmax(z)[k]. */
static double share_of(const struct device_scoring *how, int64_t k, int32_t label)
{
    double weight = how->weights != NULL ? how->weights[k] : 1.0;
    return weight * ((k == label ? 1.0 - how->smoothing : 0.0) + how->smoothing / (double)how->c);
}

/* −log softmax(z)[k], as log Σ exp(z − max) − (z[k] − max); gradient Σ share · softmax − share. */
static void cross_entropy_row(const struct device_scoring *how, int64_t r, double scale, float *grad,
                              struct device_score *score)
{
    const int32_t label = ((const int32_t *)how->labels)[r];
    const float *z = how->logits + r * how->c;
    int64_t best = 0;
    double sum = 0.0, shares = 0.0;
    for (int64_t k = 1; k < how->c; k++) {
        best = z[k] > z[best] ? k : best;
    }
    for (int64_t k = 0; k < how->c; k++) {
        sum += exp((double)z[k] - z[best]);
        shares += share_of(how, k, label);
    }
    for (int64_t k = 0; k < how->c; k++) {
        score->loss += share_of(how, k, label) * (log(sum) - ((double)z[k] - z[best]));
    }
    score->n_correct += best == label;
    score->n_row += 1.0;
    score->weight += how->weights != NULL ? how->weights[label] : 1.0;
    for (int64_t k = 0; grad != NULL && k < how->c; k++) {
        grad[k] = (float)(scale * (shares * exp((double)z[k] - z[best]) / sum - share_of(how, k, label)));
    }
}

/* Σ over known classes of w t log(1 + exp(−z)) + (1 − t) log(1 + exp(z)); gradient (1 − t) sigmoid(z) − w t
 * sigmoid(−z). */
static void bce_row(const struct device_scoring *how, int64_t r, double scale, float *grad,
                    struct device_score *score)
{
    const int64_t c = how->c;
    const float *z = how->logits + r * c, *target = (const float *)how->labels + r * c;
    double n_known = 0.0;
    for (int64_t k = 0; k < c; k++) {
        if (isnan(target[k])) {
            continue;
        }
        double logit = z[k], small = log1p(exp(-fabs(logit))), weight = how->weights != NULL ? how->weights[k] : 1.0;
        bool truth = target[k] > 0.5f;
        n_known += 1.0;
        score->loss += weight * target[k] * (fmax(-logit, 0.0) + small) +
                       (1.0 - target[k]) * (fmax(logit, 0.0) + small);
        score->n_true_positive += logit > 0.0 && truth;
        score->n_false_positive += logit > 0.0 && !truth;
        score->n_false_negative += !(logit > 0.0) && truth;
        if (grad != NULL) {
            grad[k] = (float)(scale *
                              ((1.0 - target[k]) / (1.0 + exp(-logit)) - weight * target[k] / (1.0 + exp(logit))));
        }
    }
    score->n_row += n_known > 0.0;
    score->weight += n_known;
}

/* Regression: Σ over known labels of the loss of the error; gradient its slope. */
static void number_row(const struct device_scoring *how, int64_t r, double scale, float *grad,
                       struct device_score *score)
{
    double n_known = 0.0;
    for (int64_t k = 0; k < how->c; k++) {
        double target = ((const float *)how->labels)[r * how->c + k], error = how->logits[r * how->c + k] - target;
        bool is_line = how->loss == DEVICE_LOSS_MAE || (how->loss == DEVICE_LOSS_HUBER && fabs(error) > how->delta);
        double delta = how->loss == DEVICE_LOSS_HUBER ? how->delta : 1.0;
        double half = how->loss == DEVICE_LOSS_MAE ? 0.0 : 0.5 * how->delta,
               square = how->loss == DEVICE_LOSS_MSE ? 1.0 : 0.5;
        if (!isnan(target)) {
            double slope = is_line ? delta * ((error > 0.0) - (error < 0.0)) : 2.0 * square * error;
            score->loss += is_line ? delta * (fabs(error) - half) : square * error * error;
            n_known += 1.0;
            if (grad != NULL) {
                grad[k] = (float)(scale * slope);
            }
        }
    }
    score->weight += n_known;
    score->n_row += n_known > 0.0;
}

static bool is_drawn(const struct device_draw *draw, int64_t row)
{
    const struct random_key key = device_key(&draw->key, draw->now);
    return random_u32(&key, draw->node[row], 0) < random_drop_threshold(draw->p);
}

void reference_loss(struct device *device, const struct device_scoring *how, struct device_score *score)
{
    int64_t c = how->c;
    double scale = how->grad != NULL ? device_loss_scale(how) : 0.0;
    *score = (struct device_score){0};
    if (how->grad != NULL) {
        reference_fill_zero(device, how->grad, (size_t)(how->n * c) * sizeof *how->grad);
    }
    for (int64_t r = 0; r < how->n; r++) {
        float *grad = how->grad != NULL ? how->grad + r * c : NULL;
        if (how->row_split[r] != how->split || (how->drawn.p > 0.0 && !is_drawn(&how->drawn, r))) {
            continue;
        }
        if (how->loss == DEVICE_LOSS_BCE) {
            bce_row(how, r, scale, grad, score);
        } else if (how->loss != DEVICE_LOSS_CROSS_ENTROPY) {
            number_row(how, r, scale, grad, score);
        } else if (((const int32_t *)how->labels)[r] >= 0) {
            cross_entropy_row(how, r, scale, grad, score);
        }
    }
}

void reference_labels_append(struct device *device, const struct device_labels *how, int64_t f, const float *x,
                             float *out)
{
    (void)device;
    const int64_t c = how->c;
    for (int64_t r = 0; r < how->n; r++) {
        float *row = out + r * (f + c);
        bool shown = how->row_split[r] == how->split && !is_drawn(&how->drawn, r);
        memcpy(row, x + r * f, (size_t)f * sizeof *row);
        for (int64_t k = 0; k < c; k++) {
            float label = how->labels != NULL ? (float)(how->labels[r] == k) : how->label_rows[r * c + k];
            row[f + k] = shown && !isnan(label) ? label : 0.0f;
        }
    }
}

void reference_draw_count(struct device *device, const struct device_labels *how, double *count)
{
    (void)device;
    int64_t n_label = 0;
    for (int64_t r = 0; r < how->n; r++) {
        n_label += how->row_split[r] == how->split && is_drawn(&how->drawn, r) ? device_labels_known(how, r) : 0;
    }
    *count = (double)n_label;
}

void reference_doubles_merge(struct device *device, bool statistics, int64_t n, const double *from, double *to)
{
    (void)device;
    if (statistics) {
        statistics_merge((n - 1) / 2, to, from);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        to[i] += from[i];
    }
}

void reference_floats_compare(struct device *device, int64_t n, const float *a, const float *b, double *sums)
{
    (void)device;
    double sum_a = 0.0, sum_b = 0.0, sum_error = 0.0;
    for (int64_t i = 0; i < n; i++) {
        double error = (double)a[i] - b[i];
        sum_a += (double)a[i] * a[i];
        sum_b += (double)b[i] * b[i];
        sum_error += error * error;
    }
    sums[0] += sum_a;
    sums[1] += sum_b;
    sums[2] += sum_error;
}
