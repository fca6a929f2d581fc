/* Losses, their gradients and counts: each row in double, sums over rows in fixed chunks combined in order. */
#include "models/cpu/cpu.h"

#include <math.h>
#include <string.h>

/* −log softmax(z)[label] = log Σ exp(z − max) − (z[label] − max); grad holds the exponentials meanwhile. */
static void cross_entropy_row(int64_t c, const float *z, int32_t label, float scale, float *grad, struct device_score *score)
{
    int64_t best = 0;
    double sum = 0.0;
    for (int64_t k = 1; k < c; k++) {
        best = z[k] > z[best] ? k : best;
    }
    for (int64_t k = 0; k < c; k++) {
        double share = exp((double)z[k] - z[best]);
        sum += share;
        if (grad != NULL) {
            grad[k] = (float)share;
        }
    }
    score->loss += log(sum) - ((double)z[label] - z[best]);
    score->n_correct += best == label;
    score->n_row += 1.0;
    if (grad != NULL) {
        for (int64_t k = 0; k < c; k++) {
            grad[k] = (float)(scale * (grad[k] / sum - (k == label)));
        }
    }
}

/* Σ over known classes of max(z, 0) − z·t + log(1 + exp(−|z|)); gradient sigmoid(z) − t. */
static void bce_row(int64_t c, const float *z, const float *target, float scale, float *grad, struct device_score *score)
{
    bool known = false;
    for (int64_t k = 0; k < c; k++) {
        if (isnan(target[k])) {
            continue;
        }
        double logit = z[k], small = exp(-fabs(logit));
        bool truth = target[k] > 0.5f;
        known = true;
        score->loss += fmax(logit, 0.0) - logit * target[k] + log1p(small);
        score->n_true_positive += logit > 0.0 && truth;
        score->n_false_positive += logit > 0.0 && !truth;
        score->n_false_negative += !(logit > 0.0) && truth;
        if (grad != NULL) {
            double sigmoid = (logit >= 0.0 ? 1.0 : small) / (1.0 + small);
            grad[k] = (float)(scale * (sigmoid - target[k]));
        }
    }
    score->n_row += known;
}

static void score_add(struct device_score *sum, const struct device_score *share)
{
    sum->loss += share->loss;
    sum->n_correct += share->n_correct;
    sum->n_true_positive += share->n_true_positive;
    sum->n_false_positive += share->n_false_positive;
    sum->n_false_negative += share->n_false_negative;
    sum->n_row += share->n_row;
}

static bool is_drawn(const struct device_draw *draw, int64_t row)
{
    return random_u32(&draw->key, draw->node[row], 0) < random_drop_threshold(draw->p);
}

void cpu_loss(struct device *device, enum device_loss loss, int64_t n, int64_t c, const float *logits, const void *labels,
              const uint8_t *row_split, uint8_t split, const struct device_draw *drawn, float scale, void *scratch, float *grad,
              struct device_score *score_host)
{
    int64_t rows = cpu_chunk_rows(n), n_chunk = cpu_n_chunk(n);
    struct device_score *partial = scratch;
#pragma omp parallel for num_threads(cpu_device(device)->n_thread) schedule(dynamic) if (n * c >= CPU_PARALLEL_MIN)
    for (int64_t i = 0; i < n_chunk; i++) {
        struct device_score score = {0};
        for (int64_t r = i * rows; r < n && r < (i + 1) * rows; r++) {
            float *grad_row = grad != NULL ? grad + r * c : NULL;
            if (grad != NULL) {
                memset(grad_row, 0, (size_t)c * sizeof *grad_row);
            }
            if (row_split[r] != split || (drawn != NULL && !is_drawn(drawn, r))) {
                continue;
            }
            if (loss == DEVICE_LOSS_BCE) {
                bce_row(c, logits + r * c, (const float *)labels + r * c, scale, grad_row, &score);
            } else if (((const int32_t *)labels)[r] >= 0) {
                cross_entropy_row(c, logits + r * c, ((const int32_t *)labels)[r], scale, grad_row, &score);
            }
        }
        partial[i] = score;
    }
    *score_host = (struct device_score){0};
    for (int64_t i = 0; i < n_chunk; i++) {
        score_add(score_host, &partial[i]);
    }
}

size_t cpu_score_scratch(int64_t n)
{
    return (size_t)cpu_n_chunk(n) * sizeof(struct device_score);
}

void cpu_labels_append(struct device *device, int64_t n, int64_t f, const float *x, int64_t c, const int32_t *labels,
                       const float *label_rows, const uint8_t *row_split, uint8_t split, const struct device_draw *drawn,
                       float *out)
{
#pragma omp parallel for num_threads(cpu_device(device)->n_thread) if (n * (f + c) >= CPU_PARALLEL_MIN)
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

void cpu_draw_count(struct device *device, int64_t n, const uint8_t *row_split, uint8_t split, const struct device_draw *drawn,
                    double *count_host)
{
    int64_t count = 0; /* whole numbers: their order does not matter */
#pragma omp parallel for num_threads(cpu_device(device)->n_thread) reduction(+ : count) if (n >= CPU_PARALLEL_MIN)
    for (int64_t r = 0; r < n; r++) {
        count += row_split[r] == split && is_drawn(drawn, r);
    }
    *count_host = (double)count;
}
