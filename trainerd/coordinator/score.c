#include "trainerd/coordinator/score.h"

#include "protocol/memory.h"

#include <math.h>
#include <string.h>

enum status score_metric(const struct job *job, bool multi_label, int32_t n_class, enum job_metric *out)
{
    enum job_metric metric = (enum job_metric)job->train.metric;
    if (metric == JOB_METRIC_AUTO) {
        metric = multi_label ? JOB_METRIC_MICRO_F1 : JOB_METRIC_ACCURACY;
    }
    if (metric == JOB_METRIC_ACCURACY && multi_label) {
        return status_fail(STATUS_CONFIG,
                           "train.metric = \"accuracy\" is for one label per node, the dataset has %d "
                           "label columns: expected \"micro_f1\" or \"roc_auc\"",
                           (int)n_class);
    }
    if (metric == JOB_METRIC_ROC_AUC && !multi_label && n_class != 2) {
        return status_fail(STATUS_CONFIG,
                           "train.metric = \"roc_auc\" is for two classes or several labels per node, the "
                           "dataset has %d classes: expected \"accuracy\" or \"micro_f1\"",
                           (int)n_class);
    }
    *out = metric;
    return STATUS_OK;
}

double score_from_sums(enum job_metric metric, bool multi_label, const double sums[SCORE_N_SUM])
{
    if (metric == JOB_METRIC_ROC_AUC || sums[SCORE_SUM_ROW] <= 0.0) {
        return NAN;
    }
    /* One label per node: each mistake is one false positive and one false negative, so micro F1 is the accuracy. */
    if (metric == JOB_METRIC_ACCURACY || !multi_label) {
        return sums[SCORE_SUM_CORRECT] / sums[SCORE_SUM_ROW];
    }
    double twice = 2.0 * sums[SCORE_SUM_TRUE_POSITIVE];
    double all = twice + sums[SCORE_SUM_FALSE_POSITIVE] + sums[SCORE_SUM_FALSE_NEGATIVE];
    return all > 0.0 ? twice / all : 0.0;
}

static enum status copy_of(const void *from, int64_t n, size_t size, void *out)
{
    void *block;
    enum status status = memory_acquire(MEMORY_OTHER, (size_t)n, size, &block);
    if (status == STATUS_OK) {
        memcpy(block, from, (size_t)n * size);
        *(void **)out = block;
    }
    return status;
}

enum status score_labels_copy(const struct dataset *dataset, struct score_labels *out)
{
    *out = (struct score_labels){.n_node = dataset->n_node, .n_class = dataset->n_class, .multi_label = dataset->multi_label};
    enum status status = copy_of(dataset->split, dataset->n_node, sizeof *out->split, &out->split);
    if (status == STATUS_OK && dataset->multi_label) {
        status = copy_of(dataset->label_rows, dataset->n_node * dataset->n_class, sizeof *out->label_rows, &out->label_rows);
    } else if (status == STATUS_OK) {
        status = copy_of(dataset->labels, dataset->n_node, sizeof *out->labels, &out->labels);
    }
    if (status != STATUS_OK) {
        score_labels_release(out);
    }
    return status;
}

void score_labels_release(struct score_labels *labels)
{
    size_t n = (size_t)labels->n_node;
    memory_release(MEMORY_OTHER, labels->split, n, sizeof *labels->split);
    memory_release(MEMORY_OTHER, labels->labels, n, sizeof *labels->labels);
    memory_release(MEMORY_OTHER, labels->label_rows, n * (size_t)labels->n_class, sizeof *labels->label_rows);
    *labels = (struct score_labels){0};
}

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

/* Score and label of one node in one column; false: the node is not scored. */
static bool node_label(const struct score_labels *labels, const float *logits, int64_t node, int32_t column, float *score,
                       bool *is_positive)
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

enum status score_roc_auc(const struct score_labels *labels, const float *logits, int split, double *out)
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
            bool counts = split == SCORE_SPLIT_ALL || labels->split[node] == split;
            if (!counts || !node_label(labels, logits, node, column, &score, &is_positive)) {
                continue;
            }
            if (isnan(score)) {
                status = status_fail(STATUS_TRAINING,
                                     "the logit of node %lld, column %d is not a number: "
                                     "no ROC AUC; a smaller train.lr may help",
                                     (long long)node, (int)column);
                break;
            }
            row[n_row++] = row_key(score, is_positive);
        }
        sort_rows(row, row + n, n_row);
        double one = area(row, n_row);
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
