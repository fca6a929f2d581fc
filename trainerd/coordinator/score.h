/* Metrics: from the sums that the workers report, and ROC AUC from logits.
 *
 * Metrics are fractions (0.815). NaN: not defined, without a labelled row, or for ROC AUC of one class only.
 * Knows labels and numbers, neither workers nor files.
 */
#ifndef TRAINERD_SCORE_H
#define TRAINERD_SCORE_H

#include "partition/dataset.h"
#include "protocol/job/job.h"
#include "protocol/status.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define SCORE_N_SUM 7

/* Places in one split's sums: struct device_score and fleet_report.score. */
enum score_sum {
    SCORE_SUM_LOSS,
    SCORE_SUM_CORRECT,
    SCORE_SUM_TRUE_POSITIVE,
    SCORE_SUM_FALSE_POSITIVE,
    SCORE_SUM_FALSE_NEGATIVE,
    SCORE_SUM_ROW,
    SCORE_SUM_WEIGHT /* that the loss is a mean over */
};

/* The job's metric with "auto" filled in: accuracy for single labels, micro_f1 for several.
 *
 *   errors  STATUS_CONFIG accuracy of several labels per node, roc_auc of more than two classes
 */
enum status score_metric(const struct job *job, bool multi_label, int32_t n_class, enum job_metric *out);

/* accuracy = correct / rows · micro_f1 = 2 tp / (2 tp + fp + fn), 0 when nothing is positive; single labels: accuracy.
 * NaN for roc_auc, which sums cannot give, and where there is no labelled row. */
double score_from_sums(enum job_metric metric, bool multi_label, const double sums[SCORE_N_SUM]);

/* Mean loss, from an evaluation's sums; NaN where there is no labelled row. */
static inline double score_loss(const double sums[SCORE_N_SUM])
{
    return sums[SCORE_SUM_WEIGHT] > 0.0 ? sums[SCORE_SUM_LOSS] / sums[SCORE_SUM_WEIGHT] : NAN;
}

/* The labels and splits of a dataset, to score logits after the dataset was released. */
struct score_labels {
    int64_t n_node;
    int32_t n_class;
    bool multi_label;
    int32_t *labels;   /* n_node, or NULL when multi_label */
    float *label_rows; /* n_node × n_class, or NULL */
    uint8_t *split;    /* n_node */
};

/* owns  the caller owns *out: score_labels_release. errors  STATUS_NOMEM; *out is empty then */
enum status score_labels_copy(const struct dataset *dataset, struct score_labels *out);
void score_labels_release(struct score_labels *labels);

#define SCORE_SPLIT_ALL (-1)

/* Area under the ROC curve of one split: of the logit difference between class 1 and 0 for single labels, the mean over
 * label columns that have both values for several. Equal scores share their rank.
 *
 *   shapes  logits n_node × n_class, dataset order · split an enum dataset_split, or SCORE_SPLIT_ALL
 *   owns    borrows all; allocates n_node × 16 bytes while it runs
 *   errors  STATUS_TRAINING a logit of the split is not a number (names node and column) · STATUS_NOMEM
 *   cost    O(n_node) per column: radix sort of 32-bit keys
 *   source  Hanley & McNeil, Radiology 143 (1982): AUC is the Mann-Whitney statistic
 */
enum status score_roc_auc(const struct score_labels *labels, const float *logits, int split, double *out);

#endif
