/* Losses, their gradients and counts: each row in double, sums over rows in fixed chunks combined in order. */
#include "models/cpu/cpu.h"

#include <math.h>
#include <string.h>

static bool is_plain(const struct device_scoring *how)
{
    return how->weights == NULL && how->smoothing == 0.0;
}

/* With weights and smoothing: class k counts share_k = ε/c w_k, and class `label` (1 − ε) w more. `grad` holds the
 * exponentials, `sum` is theirs. */
static void cross_entropy_shares(const struct device_scoring *how, const float *z, float greatest, double sum,
                                 int32_t label, float scale, float *grad, struct device_score *score)
{
    const double each = how->smoothing / (double)how->c, weight = how->weights != NULL ? how->weights[label] : 1.0;
    const double own = (1.0 - how->smoothing) * weight;
    double shares = 0.0, shared = 0.0;
    for (int64_t k = 0; k < how->c; k++) {
        double share = how->weights != NULL ? each * how->weights[k] : each;
        shares += share;
        shared += share * ((double)z[k] - greatest);
    }
    score->loss += (own + shares) * log(sum) - own * ((double)z[label] - greatest) - shared;
    score->weight += weight;
    for (int64_t k = 0; grad != NULL && k < how->c; k++) {
        double share = how->weights != NULL ? each * how->weights[k] : each;
        grad[k] = (float)(scale * ((own + shares) * (grad[k] / sum) - (k == label ? own + share : share)));
    }
}

/* −log softmax(z)[label] = log Σ exp(z − max) − (z[label] − max); grad holds the exponentials meanwhile. */
static void cross_entropy_row(const struct device_scoring *how, int64_t r, float scale, float *grad,
                              struct device_score *score)
{
    const int64_t c = how->c;
    const int32_t label = ((const int32_t *)how->labels)[r];
    const float *z = how->logits + r * c;
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
    score->n_correct += best == label;
    score->n_row += 1.0;
    if (!is_plain(how)) {
        cross_entropy_shares(how, z, z[best], sum, label, scale, grad, score);
        return;
    }
    score->loss += log(sum) - ((double)z[label] - z[best]);
    score->weight += 1.0;
    for (int64_t k = 0; grad != NULL && k < c; k++) {
        grad[k] = (float)(scale * (grad[k] / sum - (k == label)));
    }
}

/* Σ over known classes of max(z, 0) − z·t + log(1 + exp(−|z|)); gradient sigmoid(z) − t. With weights positives count
 * w − 1 times log(1 + exp(−z)) = max(−z, 0) + log(1 + exp(−|z|)) more. */
static void bce_row(const struct device_scoring *how, int64_t r, float scale, float *grad, struct device_score *score)
{
    const int64_t c = how->c;
    const float *z = how->logits + r * c, *target = (const float *)how->labels + r * c;
    double n_known = 0.0;
    for (int64_t k = 0; k < c; k++) {
        if (isnan(target[k])) {
            continue;
        }
        double logit = z[k], small = exp(-fabs(logit)),
               more = how->weights != NULL ? (how->weights[k] - 1.0) * target[k] : 0.0;
        bool truth = target[k] > 0.5f;
        n_known += 1.0;
        score->loss += fmax(logit, 0.0) - logit * target[k] + log1p(small);
        if (more != 0.0) {
            score->loss += more * (fmax(-logit, 0.0) + log1p(small));
        }
        score->n_true_positive += logit > 0.0 && truth;
        score->n_false_positive += logit > 0.0 && !truth;
        score->n_false_negative += !(logit > 0.0) && truth;
        if (grad != NULL) {
            double sigmoid = (logit >= 0.0 ? 1.0 : small) / (1.0 + small);
            grad[k] = (float)(scale * (sigmoid - target[k] - more * (1.0 - sigmoid)));
        }
    }
    score->n_row += n_known > 0.0;
    score->weight += n_known;
}

/* Loss and its derivative for an error e. */
static double error_loss(const struct device_scoring *how, double e, double *slope_out)
{
    const double size = fabs(e), sign = (double)((e > 0.0) - (e < 0.0));
    if (how->loss == DEVICE_LOSS_MSE) {
        *slope_out = 2.0 * e;
        return e * e;
    }
    if (how->loss == DEVICE_LOSS_MAE) {
        *slope_out = sign;
        return size;
    }
    *slope_out = size <= how->delta ? e : how->delta * sign;
    return size <= how->delta ? 0.5 * e * e : how->delta * (size - 0.5 * how->delta);
}

/* Regression: Σ over known labels. */
static void number_row(const struct device_scoring *how, int64_t r, float scale, float *grad,
                       struct device_score *score)
{
    const float *z = how->logits + r * how->c, *target = (const float *)how->labels + r * how->c;
    bool known = false;
    for (int64_t k = 0; k < how->c; k++) {
        double slope;
        if (isnan(target[k])) {
            continue;
        }
        known = true;
        score->loss += error_loss(how, (double)z[k] - target[k], &slope);
        score->weight += 1.0;
        if (grad != NULL) {
            grad[k] = (float)(scale * slope);
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
    sum->weight += share->weight;
}

static bool is_drawn(const struct device_draw *draw, const struct random_key *key, int64_t row)
{
    return random_u32(key, draw->node[row], 0) < random_drop_threshold(draw->p);
}

static void row_score(const struct device_scoring *how, const struct random_key *key, float scale, int64_t r,
                      struct device_score *score)
{
    float *grad = how->grad != NULL ? how->grad + r * how->c : NULL;
    if (grad != NULL) {
        memset(grad, 0, (size_t)how->c * sizeof *grad);
    }
    if (how->row_split[r] != how->split || (how->drawn.p > 0.0 && !is_drawn(&how->drawn, key, r))) {
        return;
    }
    if (how->loss == DEVICE_LOSS_BCE) {
        bce_row(how, r, scale, grad, score);
    } else if (how->loss != DEVICE_LOSS_CROSS_ENTROPY) {
        number_row(how, r, scale, grad, score);
    } else if (((const int32_t *)how->labels)[r] >= 0) {
        cross_entropy_row(how, r, scale, grad, score);
    }
}

void cpu_loss(struct device *device, const struct device_scoring *how, struct device_score *score)
{
    const struct random_key key = device_key(&how->drawn.key, how->drawn.now);
    const float scale = how->grad != NULL ? device_loss_scale(how) : 0.0f;
    int64_t n = how->n, rows = row_chunk_rows(n), n_chunk = row_n_chunk(n);
    struct device_score *partial = how->scratch;
    CPU_LOOP_DYNAMIC(
        cpu_device(device), n * how->c >= CPU_PARALLEL_MIN, for (int64_t i = 0; i < n_chunk; i++) {
            struct device_score sum = {0};
            for (int64_t r = i * rows; r < n && r < (i + 1) * rows; r++) {
                row_score(how, &key, scale, r, &sum);
            }
            partial[i] = sum;
        });
    *score = (struct device_score){0};
    for (int64_t i = 0; i < n_chunk; i++) {
        score_add(score, &partial[i]);
    }
}

void cpu_labels_append(struct device *device, const struct device_labels *how, int64_t f, const float *x, float *out)
{
    const struct random_key key = device_key(&how->drawn.key, how->drawn.now);
    const int64_t n = how->n, c = how->c;
    CPU_LOOP(
        cpu_device(device), n * (f + c) >= CPU_PARALLEL_MIN, for (int64_t r = 0; r < n; r++) {
            float *row = out + r * (f + c);
            bool shown = how->row_split[r] == how->split && !is_drawn(&how->drawn, &key, r);
            memcpy(row, x + r * f, (size_t)f * sizeof *row);
            for (int64_t k = 0; k < c; k++) {
                float label = how->labels != NULL ? (float)(how->labels[r] == k) : how->label_rows[r * c + k];
                row[f + k] = shown && !isnan(label) ? label : 0.0f;
            }
        });
}

void cpu_draw_count(struct device *device, const struct device_labels *how, double *count)
{
    const struct random_key key = device_key(&how->drawn.key, how->drawn.now);
    int64_t n_label = 0; /* whole numbers: any order gives the same sum */
    CPU_LOOP_AS(
        "omp parallel for num_threads(n_loop_thread) reduction(+ : n_label)", cpu_device(device),
        how->n >= CPU_PARALLEL_MIN, for (int64_t r = 0; r < how->n; r++) {
            n_label += how->row_split[r] == how->split && is_drawn(&how->drawn, &key, r) ? device_labels_known(how, r)
                                                                                         : 0;
        });
    *count = (double)n_label;
}
