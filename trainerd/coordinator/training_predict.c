/* One evaluation of a trained model, and its metrics wherever there are labels. */
#include "protocol/clock.h"
#include "trainerd/coordinator/training.h"

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
    return score_takes_rows(training->metric) ? training_score_rows(training, DATASET_SPLIT_NONE, out->of, &out->all)
                                              : STATUS_OK;
}
