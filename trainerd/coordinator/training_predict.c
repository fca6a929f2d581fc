/* One evaluation of a trained model, and its metrics wherever there are labels. */
#include "protocol/clock.h"
#include "protocol/memory.h"
#include "trainerd/coordinator/training.h"

#include <math.h>
#include <string.h>

static enum status curves_score(struct training *training, struct training_scores *out)
{
    size_t n = (size_t)training->labels.n_node * (size_t)training->n_class;
    float *logits;
    enum status status = memory_acquire(MEMORY_OTHER, n, sizeof *logits, &logits);
    if (status != STATUS_OK) {
        return status;
    }
    status = training_logits(training, logits);
    for (int split = DATASET_SPLIT_NONE; split <= DATASET_SPLIT_TEST && status == STATUS_OK; split++) {
        status = score_roc_auc(&training->labels, logits, split, &out->of[split]);
    }
    status = status == STATUS_OK ? score_roc_auc(&training->labels, logits, SCORE_SPLIT_ALL, &out->all) : status;
    memory_release(MEMORY_OTHER, logits, n, sizeof *logits);
    return status;
}

static void sums_score(const struct training *training, const struct fleet_report *report, struct training_scores *out)
{
    double all[SCORE_N_SUM] = {0};
    for (int split = DATASET_SPLIT_NONE; split <= DATASET_SPLIT_TEST; split++) {
        out->of[split] = score_from_sums(training->metric, training->multi_label, report->score[split]);
        for (int k = 0; k < SCORE_N_SUM; k++) {
            all[k] += report->score[split][k];
        }
    }
    out->all = score_from_sums(training->metric, training->multi_label, all);
}

enum status training_predict(struct training *training, struct training_scores *out)
{
    struct fleet_report report = {0};
    double start = clock_s();
    enum status status = fleet_epoch(training->fleet, 0, false, true, &report);
    if (status != STATUS_OK) {
        return status;
    }
    training->evaluate_s += clock_s() - start;
    training->state.n_call = (int64_t)report.n_call;
    sums_score(training, &report, out);
    return training->metric == JOB_METRIC_ROC_AUC ? curves_score(training, out) : STATUS_OK;
}
