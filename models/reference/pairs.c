/* Pairs of rows: scores, their gradients, and losses of groups of them. */
#include "models/reference/reference.h"

#include <math.h>

/* The rows of a pair. */
static const float *own_of(const struct device_pairs *pairs, int64_t e)
{
    return pairs->own + (int64_t)pairs->rows[e] * pairs->f;
}

static const float *x_of(const struct device_pairs *pairs, int64_t e)
{
    return pairs->x + (int64_t)pairs->places[e] * pairs->f;
}

void reference_pair_scores(struct device *device, const struct device_pairs *pairs, float *score)
{
    (void)device;
    for (int64_t e = 0; e < pairs->n; e++) {
        score[device_listed(pairs->numbers, e)] = (float)reference_product(pairs->f, own_of(pairs, e),
                                                                           x_of(pairs, e));
    }
}

void reference_pair_gradients(struct device *device, const struct device_pairs *pairs, const float *slope,
                              float *grad)
{
    (void)device;
    for (int64_t e = 0; e < pairs->n; e++) {
        double by = slope[device_listed(pairs->numbers, e)];
        float *to = grad + (int64_t)pairs->rows[e] * pairs->f;
        for (int64_t c = 0; c < pairs->f; c++) {
            to[c] = (float)(to[c] + by * x_of(pairs, e)[c]);
        }
    }
}

void reference_rows_collect(struct device *device, const struct device_collect *how, const float *x, float *out)
{
    (void)device;
    for (int64_t i = 0; i < how->n * how->f; i++) {
        out[(int64_t)how->rows[i / how->f] * how->f + i % how->f] += x[i];
    }
}

/* log(1 + e^t), and its derivative. */
static double softplus(double t, double *slope_out)
{
    *slope_out = 1.0 / (1.0 + exp(-t));
    return fmax(t, 0.0) + log1p(exp(-fabs(t)));
}

/* The loss of a group of n scores, the first one of an edge where there is one; they become its slopes. */
static double group_loss(const struct device_pair_losses *how, int64_t n, float *score)
{
    const double edge = score[0];
    int64_t first = how->has_edge, n_there = 0;
    double loss = 0.0, all = 0.0, of_edge = 0.0;
    for (int64_t k = 0; k < n; k++) {
        n_there += k >= first && score[k] != -INFINITY;
        all += exp((double)score[k] - edge);
    }
    const double share = n_there > 0 ? 1.0 / (double)n_there : 0.0;
    for (int64_t k = 0; k < n; k++) {
        double s = score[k], slope = 0.0;
        if (how->loss == DEVICE_PAIR_LOSS_CROSS_ENTROPY) {
            loss = log(all);
            slope = exp(s - edge) / all - (k == 0);
        } else if (how->loss == DEVICE_PAIR_LOSS_BCE && s != -INFINITY) {
            double part = softplus(k < first ? -s : s, &slope);
            loss += k < first ? part : share * part;
            slope *= k < first ? -1.0 : share;
        } else if (how->loss == DEVICE_PAIR_LOSS_MARGIN && k > 0 && !(how->margin - edge + s <= 0.0)) {
            loss += share * (how->margin - edge + s);
            slope = share;
            of_edge -= share;
        }
        score[k] = (float)(how->weight * slope);
    }
    score[0] = how->loss == DEVICE_PAIR_LOSS_MARGIN ? (float)(how->weight * of_edge) : score[0];
    return loss;
}

void reference_pair_losses(struct device *device, const struct device_pair_losses *how, double *sum)
{
    (void)device;
    int64_t n = how->has_edge + how->n_negative;
    for (int64_t g = 0; g < how->n_group; g++) {
        *sum += how->weight * how->share * group_loss(how, n, how->score + g * n);
    }
}
