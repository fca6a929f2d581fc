/* Metrics of numbers: R², root mean squared error, mean absolute error. */
#include "trainerd/coordinator/score/score.h"

#include <math.h>

/* Of one column: labels that are there, their mean, and sums over them. */
struct column {
    double n, mean;
    double absolute, squared; /* of the errors */
    double spread;            /* Σ (label − mean)² */
};

static struct column column_of(const struct score_labels *labels, const float *outputs, int split, int32_t k)
{
    struct column of = {0};
    for (int64_t node = 0; node < labels->n_node; node++) {
        float label = labels->label_rows[node * labels->n_class + k];
        if (score_counts(labels, node, split) && !isnan(label)) {
            double error = (double)outputs[node * labels->n_class + k] - label;
            of.n += 1.0;
            of.mean += label;
            of.absolute += fabs(error);
            of.squared += error * error;
        }
    }
    of.mean = of.n > 0.0 ? of.mean / of.n : 0.0;
    for (int64_t node = 0; node < labels->n_node; node++) {
        float label = labels->label_rows[node * labels->n_class + k];
        if (score_counts(labels, node, split) && !isnan(label)) {
            of.spread += (label - of.mean) * (label - of.mean);
        }
    }
    return of;
}

static double column_score(enum job_metric metric, const struct column *of)
{
    if (metric == JOB_METRIC_R2) {
        bool constant = of->spread == 0.0;
        return constant ? (of->squared == 0.0 ? 1.0 : 0.0) : 1.0 - of->squared / of->spread;
    }
    return metric == JOB_METRIC_RMSE ? sqrt(of->squared / of->n) : of->absolute / of->n;
}

double score_numbers(enum job_metric metric, const struct score_labels *labels, const float *outputs, int split)
{
    double sum = 0.0;
    int32_t n = 0;
    for (int32_t k = 0; k < labels->n_class; k++) {
        const struct column of = column_of(labels, outputs, split, k);
        if (of.n >= (metric == JOB_METRIC_R2 ? 2.0 : 1.0)) {
            sum += column_score(metric, &of);
            n++;
        }
    }
    return n > 0 ? sum / n : NAN;
}
