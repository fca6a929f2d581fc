#include "tests/support/model/objective.h"

#include "partition/graph/dataset.h"

#include <math.h>

static double weight_of(const struct objective *o, int64_t k)
{
    return o->weights != NULL ? o->weights[k] : 1.0;
}

static double cross_entropy(const struct objective *o, int64_t n_class, const double *z, int32_t label,
                            double *weight_out)
{
    double sum = 0.0, loss = 0.0;
    for (int64_t k = 0; k < n_class; k++) {
        sum += exp(z[k] - z[label]);
    }
    for (int64_t k = 0; k < n_class; k++) {
        double target = (k == label ? 1.0 - o->smoothing : 0.0) + o->smoothing / (double)n_class;
        loss += target * weight_of(o, k) * (log(sum) + z[label] - z[k]);
    }
    *weight_out = weight_of(o, label);
    return loss;
}

static double binary(const struct objective *o, int64_t n_class, const double *z, const float *t, double *weight_out)
{
    double loss = 0.0;
    *weight_out = 0.0;
    for (int64_t k = 0; k < n_class; k++) {
        if (!isnan(t[k])) {
            loss += weight_of(o, k) * t[k] * log1p(exp(-z[k])) + (1.0 - t[k]) * log1p(exp(z[k]));
            *weight_out += 1.0;
        }
    }
    return loss;
}

static double numbers(const struct objective *o, int64_t n_class, const double *z, const float *t, double *weight_out)
{
    double loss = 0.0;
    *weight_out = 0.0;
    for (int64_t k = 0; k < n_class; k++) {
        if (isnan(t[k])) {
            continue;
        }
        double e = fabs(z[k] - t[k]), within = fmin(e, o->delta);
        loss += o->loss == DEVICE_LOSS_MSE   ? e * e
                : o->loss == DEVICE_LOSS_MAE ? e
                                             : 0.5 * within * within + o->delta * (e - within);
        *weight_out += 1.0;
    }
    return loss;
}

double objective_row(const struct objective *o, int64_t n_class, const double *z, int32_t label,
                     const float *label_row, double *weight_out)
{
    switch (o->loss) {
    case DEVICE_LOSS_CROSS_ENTROPY:
        return cross_entropy(o, n_class, z, label, weight_out);
    case DEVICE_LOSS_BCE:
        return binary(o, n_class, z, label_row, weight_out);
    default:
        return numbers(o, n_class, z, label_row, weight_out);
    }
}

double objective_weight(const struct objective *o, int64_t n_node, int64_t n_class, const int32_t *labels,
                        const uint8_t *split)
{
    double sum = 0.0;
    for (int64_t r = 0; r < n_node; r++) {
        if (split[r] != DATASET_SPLIT_TRAIN) {
            continue;
        }
        if (o == NULL || o->loss == DEVICE_LOSS_CROSS_ENTROPY) {
            sum += labels[r] < 0 ? 0.0 : o != NULL ? weight_of(o, labels[r]) : 1.0;
            continue;
        }
        for (int64_t k = 0; k < n_class; k++) {
            sum += isnan(o->label_rows[r * n_class + k]) ? 0.0 : 1.0;
        }
    }
    return sum;
}
