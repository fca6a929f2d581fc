/* Metrics: from the sums that the workers report, or where sums do not give them, from logits.
 *
 * Metrics are fractions (0.815), but for those of numbers. NaN: not defined, without a labelled row, for ROC AUC of
 * one class only, for average precision without a positive.
 * Knows labels and numbers, neither workers nor files.
 */
#ifndef TRAINERD_SCORE_H
#define TRAINERD_SCORE_H

#include "partition/graph/dataset.h"
#include "protocol/base/status.h"
#include "protocol/job/job.h"

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

/* The job's metrics, each once, with "auto" filled in: accuracy, micro_f1 of several labels, r2 of numbers, of
 * links roc_auc, or mrr among all nodes.
 *
 *   errors  STATUS_CONFIG accuracy of several labels per node, roc_auc and average_precision of more than two classes
 */
enum status score_metrics(const struct job *job, bool multi_label, int32_t n_class, struct job_choices *out);

/* Name of a metric, as train.metric has it. */
const char *score_name(int metric);

/* accuracy = correct / rows · micro_f1 = 2 tp / (2 tp + fp + fn), 0 when nothing is positive; single labels:
 * accuracy. NaN where score_takes_rows, and where there is no labelled row. */
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

/* By enum dataset_split; behind them all labelled nodes. */
#define SCORE_SPLIT_ALL DATASET_SPLIT_N
#define SCORE_N_SPLIT (DATASET_SPLIT_N + 1)

static inline bool score_counts(const struct score_labels *labels, int64_t node, int split)
{
    return split == SCORE_SPLIT_ALL || dataset_split_has(labels->split[node], split);
}

/* The class that a row of logits, or of probabilities, gives: the first of the greatest, as accuracy counts. */
static inline int32_t score_class(int32_t n_class, const float *row)
{
    int32_t best = 0;
    for (int32_t k = 1; k < n_class; k++) {
        best = row[k] > row[best] ? k : best;
    }
    return best;
}

/* Does the metric, or one of them, come from logits, as sums cannot give it? Those of links do (score_links.h). */
bool score_takes_rows(enum job_metric metric);
bool score_any_takes_rows(const struct job_choices *metrics);

/* Such a metric of one split.
 *
 *   roc_auc            area under the ROC curve: of the logit difference between class 1 and 0 for single labels, the
 *                      mean over label columns that have both values for several. Equal scores share their rank
 *   average_precision  Σ (recall − recall before) · precision over the distinct scores, likewise; the mean over
 *                      columns that have positives
 *   macro_f1           mean of 2 tp / (2 tp + fp + fn): over classes that some node has or is given, or over all
 *                      label columns (0 where nothing is positive)
 *   r2, rmse, mae      of the numbers that are there, column by column, and the mean over columns that have any (r2:
 *                      two)
 *   shapes  logits n_node × n_class, dataset order · split an enum dataset_split, or SCORE_SPLIT_ALL
 *   owns    borrows all; allocates n_node × 16 bytes while it runs (macro_f1: n_class × 24)
 *   errors  STATUS_TRAINING a logit of the split is not a number (names node and column; not macro_f1) · STATUS_NOMEM
 *   cost    O(n_node) per column: radix sort of 32-bit keys
 *   source  Hanley & McNeil, Radiology 143 (1982): AUC is the Mann-Whitney statistic; scikit-learn's
 *           average_precision_score, f1_score, r2_score, root_mean_squared_error, mean_absolute_error (multioutput =
 *           "uniform_average")
 */
enum status score_rows(enum job_metric metric, const struct score_labels *labels, const float *logits, int split,
                       double *out);

/* Its cases. */
enum status score_ranked(enum job_metric metric, const struct score_labels *labels, const float *logits, int split,
                         double *out);
enum status score_macro_f1(const struct score_labels *labels, const float *logits, int split, double *out);

double score_numbers(enum job_metric metric, const struct score_labels *labels, const float *outputs, int split);

/* Which classes are taken for which, of single labels. More classes than these have no such counts. */
#define SCORE_CLASSES_MOST 1000

struct score_confusion {
    int32_t n_class;
    int64_t n_row;  /* labelled nodes */
    int64_t *count; /* n_class × n_class: nodes of a class (row) that were given a class (column) */
};

/* owns  the caller owns *out, also after a failure: score_confusion_release. errors  STATUS_NOMEM */
enum status score_confusion_count(const struct score_labels *labels, const float *logits, int split,
                                  struct score_confusion *out);
void score_confusion_release(struct score_confusion *confusion);

/* Logits become probabilities, in place, computed in double: the softmax of a row for one label per node, for several
 * the sigmoid of each. rows n_row × n_class */
void score_probabilities(int64_t n_row, int32_t n_class, bool multi_label, float *rows);

/* Expected calibration error of single labels: Σ over bins |Σ of its nodes (is right − confidence)| / nodes. A node's
 * confidence is its highest probability p; bin b = 0 … 14 has those with b / 15 < p ≤ (b + 1) / 15.
 *
 *   errors  NaN without a labelled node, and where a probability is not a number
 *   source  Guo et al., ICML 2017, eq. 3
 */
double score_calibration(const struct score_labels *labels, const float *probabilities, int split);

#endif
