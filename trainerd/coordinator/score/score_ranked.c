/* Metrics from the order of the logits: ROC AUC and average precision. */
#include "trainerd/coordinator/score/score_ranked.h"

#include "protocol/base/memory.h"
#include "trainerd/coordinator/score/score.h"

#include <math.h>

void ranked_sort(uint64_t *row, uint64_t *aside, int64_t n)
{
    for (int shift = 32; shift < 64; shift += 8) { /* four passes of 8 bits, so the result ends where it began */
        int64_t place[257] = {0};
        for (int64_t i = 0; i < n; i++) {
            place[(row[i] >> shift & 255) + 1]++;
        }
        for (int b = 0; b < 256; b++) {
            place[b + 1] += place[b];
        }
        for (int64_t i = 0; i < n; i++) {
            aside[place[row[i] >> shift & 255]++] = row[i];
        }
        uint64_t *swap = row;
        row = aside;
        aside = swap;
    }
}

bool ranked_next(const uint64_t *row, struct ranked_group *group)
{
    int64_t end = group->begin;
    *group = (struct ranked_group){.begin = end, .end = end};
    for (; group->begin > 0 && row[group->begin - 1] >> 32 == row[end - 1] >> 32; group->begin--) {
        *((row[group->begin - 1] & 1) ? &group->n_positive : &group->n_negative) += 1;
    }
    return group->begin < end;
}

/* U / (n_positive · n_negative): each negative below a positive counts 1, each equal to it 1/2. */
static double area(const uint64_t *row, int64_t n)
{
    double n_negative = 0.0, n_positive = 0.0, twice_u = 0.0;
    for (struct ranked_group group = {.begin = n, .end = n}; ranked_next(row, &group);) {
        double negative = (double)group.n_negative, positive = (double)group.n_positive;
        twice_u += negative * (2.0 * n_positive + positive);
        n_negative += negative;
        n_positive += positive;
    }
    return n_negative > 0.0 && n_positive > 0.0 ? twice_u / (2.0 * n_negative * n_positive) : NAN;
}

/* Σ (recall after a score − recall before it) · precision after it, from the highest score down. */
static double precision_mean(const uint64_t *row, int64_t n)
{
    double n_above = 0.0, n_positive = 0.0, sum = 0.0;
    for (struct ranked_group group = {.begin = n, .end = n}; ranked_next(row, &group);) {
        n_above += (double)(group.end - group.begin);
        n_positive += (double)group.n_positive;
        sum += (double)group.n_positive * n_positive / n_above;
    }
    return n_positive > 0.0 ? sum / n_positive : NAN;
}

double ranked_metric(enum job_metric metric, const uint64_t *row, int64_t n)
{
    return metric == JOB_METRIC_ROC_AUC ? area(row, n) : precision_mean(row, n);
}

/* Score and label of one node in one column; false: the node is not scored. */
static bool node_label(const struct score_labels *labels, const float *logits, int64_t node, int32_t column,
                       float *score, bool *is_positive)
{
    const float *row = logits + node * labels->n_class;
    if (labels->multi_label) {
        float label = labels->label_rows[node * labels->n_class + column];
        *score = row[column];
        *is_positive = label > 0.5f;
        return !isnan(label);
    }
    *score = row[1] - row[0];
    *is_positive = labels->labels[node] == 1;
    return labels->labels[node] >= 0;
}

enum status score_ranked(enum job_metric metric, const struct score_labels *labels, const float *logits, int split,
                         double *out)
{
    int64_t n = labels->n_node;
    uint64_t *row;
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)n * 2, sizeof *row, &row);
    if (status != STATUS_OK) {
        return status;
    }
    double sum = 0.0;
    int32_t n_known = 0;
    int32_t n_column = labels->multi_label ? labels->n_class : 1;
    for (int32_t column = 0; column < n_column && status == STATUS_OK; column++) {
        int64_t n_row = 0;
        for (int64_t node = 0; node < n; node++) {
            float score;
            bool is_positive;
            if (!score_counts(labels, node, split) ||
                !node_label(labels, logits, node, column, &score, &is_positive)) {
                continue;
            }
            if (isnan(score)) {
                status = status_fail(STATUS_TRAINING,
                                     "the logit of node %lld, column %d is not a number: "
                                     "no %s; a smaller train.lr may help",
                                     (long long)node, (int)column, score_name((int)metric));
                break;
            }
            row[n_row++] = ranked_row(score, is_positive);
        }
        ranked_sort(row, row + n, n_row);
        double one = ranked_metric(metric, row, n_row);
        if (!isnan(one)) {
            sum += one;
            n_known++;
        }
    }
    memory_release(MEMORY_OTHER, row, (size_t)n * 2, sizeof *row);
    if (status == STATUS_OK) {
        *out = n_known > 0 ? sum / n_known : NAN;
    }
    return status;
}
