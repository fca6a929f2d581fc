/* Metrics from the order of the logits: ROC AUC and average precision. */
#include "trainerd/coordinator/score/score.h"

#include "protocol/base/memory.h"

#include <math.h>
#include <string.h>

/* A scored row: the score's order as 32 bits in the upper half, 1 for a positive in the lower. */
static uint64_t row_key(float score, bool is_positive)
{
    uint32_t bits;
    float value = score + 0.0f; /* -0 and 0 are one score */
    memcpy(&bits, &value, sizeof bits);
    bits = (bits & 0x80000000u) ? ~bits : bits | 0x80000000u;
    return (uint64_t)bits << 32 | (is_positive ? 1 : 0);
}

/* Sort by the upper half: four passes of 8 bits, so the result ends where it began. */
static void sort_rows(uint64_t *row, uint64_t *aside, int64_t n)
{
    for (int shift = 32; shift < 64; shift += 8) {
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

/* U / (n_positive · n_negative): each negative below a positive counts 1, each equal to it 1/2. */
static double area(const uint64_t *row, int64_t n)
{
    double n_negative = 0.0, n_positive = 0.0, twice_u = 0.0;
    for (int64_t i = 0; i < n;) {
        double negative = 0.0, positive = 0.0;
        int64_t end = i;
        for (; end < n && row[end] >> 32 == row[i] >> 32; end++) {
            *((row[end] & 1) ? &positive : &negative) += 1.0;
        }
        twice_u += positive * (2.0 * n_negative + negative);
        n_negative += negative;
        n_positive += positive;
        i = end;
    }
    return n_negative > 0.0 && n_positive > 0.0 ? twice_u / (2.0 * n_negative * n_positive) : NAN;
}

/* Σ (recall after a score − recall before it) · precision after it, from the highest score down. */
static double precision_mean(const uint64_t *row, int64_t n)
{
    double n_above = 0.0, n_positive = 0.0, sum = 0.0;
    for (int64_t end = n; end > 0;) {
        double positive = 0.0;
        int64_t begin = end;
        for (; begin > 0 && row[begin - 1] >> 32 == row[end - 1] >> 32; begin--) {
            positive += (row[begin - 1] & 1) ? 1.0 : 0.0;
        }
        n_above += (double)(end - begin);
        n_positive += positive;
        sum += positive * n_positive / n_above;
        end = begin;
    }
    return n_positive > 0.0 ? sum / n_positive : NAN;
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
            row[n_row++] = row_key(score, is_positive);
        }
        sort_rows(row, row + n, n_row);
        double one = (metric == JOB_METRIC_ROC_AUC ? area : precision_mean)(row, n_row);
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
