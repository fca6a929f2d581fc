#include "trainerd/coordinator/score/score.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static enum job_metric metric_of(int wanted, bool multi_label, int32_t n_class)
{
    struct job job = {0};
    job.train.metric = wanted;
    struct job_choices metrics;
    cr_assert_eq(score_metrics(&job, multi_label, n_class, &metrics), STATUS_OK);
    cr_assert_eq(metrics.n, 1);
    return (enum job_metric)metrics.of[0];
}

Test(score, auto_is_accuracy_for_one_label_and_micro_f1_for_several)
{
    cr_assert_eq(metric_of(JOB_METRIC_AUTO, false, 7), JOB_METRIC_ACCURACY);
    cr_assert_eq(metric_of(JOB_METRIC_AUTO, true, 7), JOB_METRIC_MICRO_F1);
    cr_assert_eq(metric_of(JOB_METRIC_ROC_AUC, false, 2), JOB_METRIC_ROC_AUC);
    cr_assert_eq(metric_of(JOB_METRIC_ROC_AUC, true, 9), JOB_METRIC_ROC_AUC);
}

Test(score, a_metric_that_does_not_fit_the_labels_is_refused_with_those_that_do)
{
    struct job job = {0};
    struct job_choices metrics = {0};
    job.train.metric = JOB_METRIC_ACCURACY;
    cr_assert_eq(score_metrics(&job, true, 12, &metrics), STATUS_CONFIG);
    cr_assert(strstr(status_reason(), "train.metric") && strstr(status_reason(), "12 label columns") &&
                  strstr(status_reason(), "\"micro_f1\""),
              "%s", status_reason());
    job.train.metric = JOB_METRIC_ROC_AUC;
    cr_assert_eq(score_metrics(&job, false, 3, &metrics), STATUS_CONFIG);
    cr_assert(strstr(status_reason(), "3 classes") && strstr(status_reason(), "\"accuracy\""), "%s", status_reason());
    job.train.metric = JOB_METRIC_AVERAGE_PRECISION;
    cr_assert_eq(score_metrics(&job, false, 3, &metrics), STATUS_CONFIG);
    cr_assert(strstr(status_reason(), "\"average_precision\" is for two classes"), "%s", status_reason());
    cr_assert_eq(metrics.n, 0);
}

Test(score, several_metrics_keep_their_order_and_each_is_there_once)
{
    struct job job = {0};
    struct job_choices metrics = {0};
    job.train.metrics = (struct job_choices){3, {JOB_METRIC_ROC_AUC, JOB_METRIC_AUTO, JOB_METRIC_ACCURACY}};
    cr_assert_eq(score_metrics(&job, false, 2, &metrics), STATUS_OK, "%s", status_reason());
    cr_assert(metrics.n == 2 && metrics.of[0] == JOB_METRIC_ROC_AUC && metrics.of[1] == JOB_METRIC_ACCURACY);
    cr_assert(score_any_takes_rows(&metrics));
    cr_assert_eq(score_metrics(&job, true, 9, &metrics), STATUS_CONFIG);
    cr_assert(strstr(status_reason(), "train.metrics = \"accuracy\" is for one label"), "%s", status_reason());
    cr_assert_eq(score_metrics(&job, false, 3, &metrics), STATUS_CONFIG);
    cr_assert(strstr(status_reason(), "train.metrics = \"roc_auc\" is for two classes"), "%s", status_reason());
    cr_assert_eq(metrics.n, 2);
}

Test(score, sums_give_accuracy_and_micro_f1_as_fractions)
{
    const double one[SCORE_N_SUM] = {9.0, 163, 0, 0, 0, 200};
    cr_assert_eq(score_from_sums(JOB_METRIC_ACCURACY, false, one), 0.815);
    cr_assert_eq(score_from_sums(JOB_METRIC_MICRO_F1, false, one), 0.815);
    const double several[SCORE_N_SUM] = {9.0, 0, 6, 2, 4, 50};
    cr_assert_eq(score_from_sums(JOB_METRIC_MICRO_F1, true, several), 12.0 / 18.0);
    const double nothing_positive[SCORE_N_SUM] = {9.0, 0, 0, 0, 0, 50};
    cr_assert_eq(score_from_sums(JOB_METRIC_MICRO_F1, true, nothing_positive), 0.0);
}

Test(score, a_split_without_labelled_rows_has_no_metric)
{
    const double none[SCORE_N_SUM] = {0};
    cr_assert(isnan(score_from_sums(JOB_METRIC_ACCURACY, false, none)));
    cr_assert(isnan(score_from_sums(JOB_METRIC_MICRO_F1, true, none)));
}

/* Two classes; the pairs' logit differences are the scores below. */
static double binary_auc(int64_t n, const float *difference, int32_t *labels)
{
    float logits[64] = {0};
    uint8_t split[32];
    for (int64_t i = 0; i < n; i++) {
        logits[2 * i] = 10.0f;
        logits[2 * i + 1] = 10.0f + difference[i];
        split[i] = DATASET_SPLIT_TEST;
    }
    const struct score_labels truth = {.n_node = n, .n_class = 2, .labels = labels, .split = split};
    double auc = -1.0;
    cr_assert_eq(score_rows(JOB_METRIC_ROC_AUC, &truth, logits, DATASET_SPLIT_TEST, &auc), STATUS_OK);
    return auc;
}

Test(score, roc_auc_counts_equal_scores_as_half)
{
    cr_assert_eq(binary_auc(3, (const float[]){0, 0, 0}, (int32_t[]){0, 1, 0}), 0.5);
    cr_assert_eq(binary_auc(4, (const float[]){1, 1, 0, 3}, (int32_t[]){0, 1, 0, 1}), 3.5 / 4.0);
    cr_assert_eq(binary_auc(2, (const float[]){-0.0f, 0.0f}, (int32_t[]){0, 1}), 0.5);
}

Test(score, roc_auc_leaves_out_unlabelled_nodes_and_other_splits)
{
    cr_assert_eq(binary_auc(5, (const float[]){9, -2, -1, 1, 2}, (int32_t[]){-1, 0, 0, 1, 1}), 1.0);
    float logits[] = {0, 5, 0, 1, 0, 2};
    int32_t labels[] = {0, 0, 1};
    uint8_t split[] = {DATASET_SPLIT_TRAIN, DATASET_SPLIT_VALID, DATASET_SPLIT_VALID};
    const struct score_labels truth = {.n_node = 3, .n_class = 2, .labels = labels, .split = split};
    double auc = -1.0;
    cr_assert_eq(score_rows(JOB_METRIC_ROC_AUC, &truth, logits, DATASET_SPLIT_VALID, &auc), STATUS_OK);
    cr_assert_eq(auc, 1.0);
    cr_assert_eq(score_rows(JOB_METRIC_ROC_AUC, &truth, logits, DATASET_SPLIT_TRAIN, &auc), STATUS_OK);
    cr_assert(isnan(auc), "one class only has no curve");
}

Test(score, roc_auc_of_several_labels_is_the_mean_of_columns_that_have_both_values)
{
    /* column 0: perfect · column 1: half · column 2: no negative · one unknown label in column 0 */
    float logits[] = {-1, 0, 0, 2, 0, 0, 1, 0, 0, 9, 0, 0};
    float rows[] = {0, 1, 1, 1, 0, 1, 1, 0, 1, NAN, 1, 1};
    uint8_t split[] = {1, 1, 1, 1};
    const struct score_labels truth = {
        .n_node = 4, .n_class = 3, .multi_label = true, .label_rows = rows, .split = split};
    double auc = -1.0;
    cr_assert_eq(score_rows(JOB_METRIC_ROC_AUC, &truth, logits, DATASET_SPLIT_TRAIN, &auc), STATUS_OK);
    cr_assert_eq(auc, 0.75);
}

Test(score, a_logit_that_is_not_a_number_is_named)
{
    float logits[] = {0, 1, 0, NAN};
    int32_t labels[] = {0, 1};
    uint8_t split[] = {1, 1};
    const struct score_labels truth = {.n_node = 2, .n_class = 2, .labels = labels, .split = split};
    double auc = -1.0;
    cr_assert_eq(score_rows(JOB_METRIC_ROC_AUC, &truth, logits, DATASET_SPLIT_TRAIN, &auc), STATUS_TRAINING);
    cr_assert(strstr(status_reason(), "node 1"), "%s", status_reason());
    cr_assert_eq(auc, -1.0);
}

/* Two classes as binary_auc's. */
static double binary_precision(int64_t n, const float *score, int32_t *labels)
{
    float logits[64] = {0};
    uint8_t split[32] = {0};
    for (int64_t i = 0; i < n; i++) {
        logits[2 * i + 1] = score[i];
    }
    const struct score_labels truth = {.n_node = n, .n_class = 2, .labels = labels, .split = split};
    double found = -1.0;
    cr_assert_eq(score_rows(JOB_METRIC_AVERAGE_PRECISION, &truth, logits, SCORE_SPLIT_ALL, &found), STATUS_OK);
    return found;
}

/* Values of sklearn.metrics.average_precision_score. */
Test(score, average_precision_weighs_the_precision_at_each_score_by_the_recall_it_adds)
{
    cr_expect_float_eq(binary_precision(4, (const float[]){0.1F, 0.4F, 0.35F, 0.8F}, (int32_t[]){0, 0, 1, 1}),
                       5.0 / 6.0, 1e-15);
    cr_expect_eq(binary_precision(4, (const float[]){-2, -1, 1, 2}, (int32_t[]){0, 0, 1, 1}), 1.0);
    cr_expect_eq(binary_precision(4, (const float[]){0, 0, 0, 0}, (int32_t[]){0, 1, 0, 0}), 0.25,
                 "one score for all");
    cr_expect_float_eq(binary_precision(5, (const float[]){3, 2, 2, 1, 0}, (int32_t[]){0, 1, 0, 1, -1}),
                       0.5 / 3.0 + 0.5 * 0.5, 1e-15);
    cr_expect(isnan(binary_precision(2, (const float[]){3, 2}, (int32_t[]){0, 0})), "there is no positive");
}

Test(score, average_precision_of_several_labels_is_the_mean_of_columns_that_have_positives)
{
    /* column 0: perfect · column 1: the positive is last of three · column 2: no positive · one unknown label in column 0 */
    const float logits[] = {-1, 0, 0, 2, 1, 0, 1, 2, 0, 9, -9, 0};
    float rows[] = {0, 1, 0, 1, 0, 0, 1, 0, 0, NAN, 0, 0};
    uint8_t split[] = {1, 1, 1, 1};
    const struct score_labels truth = {
        .n_node = 4, .n_class = 3, .multi_label = true, .label_rows = rows, .split = split};
    double found = -1.0;
    cr_assert_eq(score_rows(JOB_METRIC_AVERAGE_PRECISION, &truth, logits, DATASET_SPLIT_TRAIN, &found), STATUS_OK);
    cr_expect_float_eq(found, (1.0 + 1.0 / 3.0) / 2.0, 1e-15);
}

/* Values of sklearn.metrics.f1_score(average = "macro"). */
Test(score, macro_f1_is_the_mean_over_classes_that_are_there_or_predicted)
{
    /* labels 0 0 1 1 3 -1, predicted 0 1 1 1 0 2: f1 is 1/2, 4/5, 0; class 2 is neither a label's nor a labelled node's prediction */
    const float logits[] = {9, 0, 0, 0, 0, 9, 0, 0, 0, 9, 0, 0, 0, 9, 0, 0, 9, 0, 0, 0, 0, 0, 9, 0};
    int32_t labels[] = {0, 0, 1, 1, 3, -1};
    uint8_t split[] = {3, 3, 3, 3, 3, 3};
    const struct score_labels truth = {.n_node = 6, .n_class = 4, .labels = labels, .split = split};
    double found = -1.0;
    cr_assert_eq(score_rows(JOB_METRIC_MACRO_F1, &truth, logits, DATASET_SPLIT_TEST, &found), STATUS_OK);
    cr_expect_float_eq(found, (0.5 + 0.8 + 0.0) / 3.0, 1e-15);
    cr_assert_eq(score_rows(JOB_METRIC_MACRO_F1, &truth, logits, DATASET_SPLIT_VALID, &found), STATUS_OK);
    cr_expect(isnan(found));
}

Test(score, macro_f1_of_several_labels_is_the_mean_over_all_of_them)
{
    const float logits[] = {1, -1, -1, 1, 1, -1, -1, 1, -1};
    float rows[] = {1, 0, 0, 0, 1, 0, NAN, 1, 0};
    uint8_t split[] = {1, 1, 1};
    const struct score_labels truth = {
        .n_node = 3, .n_class = 3, .multi_label = true, .label_rows = rows, .split = split};
    double found = -1.0;
    cr_assert_eq(score_rows(JOB_METRIC_MACRO_F1, &truth, logits, DATASET_SPLIT_TRAIN, &found), STATUS_OK);
    cr_expect_float_eq(found, (2.0 / 3.0 + 1.0 + 0.0) / 3.0, 1e-15);
}

Test(score, confusion_counts_each_labelled_node_of_the_split_once)
{
    const float logits[] = {9, 0, 0, 0, 9, 0, 0, 9, 9, 9, 0, 0, 0, 0, 9};
    int32_t labels[] = {0, 0, 2, -1, 1};
    uint8_t split[] = {3, 3, 3, 3, 2};
    const struct score_labels truth = {.n_node = 5, .n_class = 3, .labels = labels, .split = split};
    struct score_confusion found;
    cr_assert_eq(score_confusion_count(&truth, logits, DATASET_SPLIT_TEST, &found), STATUS_OK);
    const int64_t expected[] = {1, 1, 0, 0, 0, 0, 0, 1, 0}; /* of equals the first is predicted */
    cr_expect_arr_eq(found.count, expected, sizeof expected);
    cr_expect_eq(found.n_row, 3);
    score_confusion_release(&found);
}

Test(score, probabilities_are_the_softmax_of_a_row_or_the_sigmoid_of_each_number)
{
    float one[] = {1, 2, 3, 1000, 999, -INFINITY}, several[] = {0, -800, 800, 2};
    const double all = exp(1) + exp(2) + exp(3), two = 1.0 + exp(-1);
    const double softmax[] = {exp(1) / all, exp(2) / all, exp(3) / all, 1.0 / two, exp(-1) / two, 0.0};
    const double sigmoid[] = {0.5, 0.0, 1.0, 1.0 / (1.0 + exp(-2))};
    score_probabilities(2, 3, false, one);
    score_probabilities(2, 2, true, several);
    for (size_t i = 0; i < 6; i++) {
        cr_expect_eq(one[i], (float)softmax[i], "softmax %zu: %.9g", i, (double)one[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        cr_expect_eq(several[i], (float)sigmoid[i], "sigmoid %zu: %.9g", i, (double)several[i]);
    }
}

/* By hand, of the first seven: 0.95 and the two of 1 are in one bin, and 0.9, 0.5, 0.41 and 0.34 alone. */
Test(score, the_calibration_error_is_the_mean_gap_between_confidence_and_being_right)
{
    const float probabilities[] = {0.9F,  0.05F, 0.05F, 1, 0,     0,     1,     0, 0, 0.4F, 0.5F, 0.1F, 0.3F, 0.29F,
                                   0.41F, 0.95F, 0.05F, 0, 0.34F, 0.33F, 0.33F, 1, 0, 0,    NAN,  NAN,  NAN};
    int32_t labels[] = {0, 0, 1, 1, 0, 0, 0, -1, 0};
    uint8_t split[] = {3, 3, 3, 3, 3, 3, 3, 3, 2};
    const struct score_labels truth = {.n_node = 9, .n_class = 3, .labels = labels, .split = split};
    cr_expect_float_eq(score_calibration(&truth, probabilities, DATASET_SPLIT_TEST),
                       (0.1 + (1.0 - 0.05) + 0.5 + 0.41 + 0.66) / 7.0, 1e-7);
    cr_expect(isnan(score_calibration(&truth, probabilities, DATASET_SPLIT_VALID)), "not a number");
    cr_expect(isnan(score_calibration(&truth, probabilities, DATASET_SPLIT_TRAIN)), "no nodes");
}

/* Values of sklearn.metrics' r2_score, root_mean_squared_error and mean_absolute_error. */
Test(score, errors_of_numbers_are_taken_column_by_column)
{
    const float outputs[] = {2.5F, 0, 0, 0, 2, 0, 8, 0, 5, 0};
    float rows[] = {3, 1, -0.5F, NAN, 2, 3, 7, NAN, NAN, NAN};
    uint8_t split[] = {3, 3, 3, 3, 3};
    const struct score_labels truth = {
        .n_node = 5, .n_class = 2, .multi_label = true, .label_rows = rows, .split = split};
    const struct {
        enum job_metric metric;
        double one, two; /* of the columns */
    } cases[] = {{JOB_METRIC_R2, 0.94860813704497, 1.0 - 10.0 / 2.0},
                 {JOB_METRIC_RMSE, 0.612372435695794, 2.23606797749979},
                 {JOB_METRIC_MAE, 0.5, 2.0}};
    for (size_t i = 0; i < 3; i++) {
        double found = -1.0;
        cr_assert(score_takes_rows(cases[i].metric));
        cr_assert_eq(score_rows(cases[i].metric, &truth, outputs, DATASET_SPLIT_TEST, &found), STATUS_OK);
        cr_expect_float_eq(found, (cases[i].one + cases[i].two) / 2.0, 1e-12, "%zu: %.15g", i, found);
        cr_assert_eq(score_rows(cases[i].metric, &truth, outputs, DATASET_SPLIT_VALID, &found), STATUS_OK);
        cr_expect(isnan(found), "no labels");
    }
}

Test(score, r2_of_labels_that_are_all_alike_is_whether_they_are_met)
{
    float met[] = {2, 2, 2}, missed[] = {2, 2, 3}, rows[] = {2, 2, 2};
    uint8_t split[] = {1, 1, 1};
    const struct score_labels truth = {
        .n_node = 3, .n_class = 1, .multi_label = true, .label_rows = rows, .split = split};
    cr_expect_eq(score_numbers(JOB_METRIC_R2, &truth, met, DATASET_SPLIT_TRAIN), 1.0);
    cr_expect_eq(score_numbers(JOB_METRIC_R2, &truth, missed, DATASET_SPLIT_TRAIN), 0.0);
}

Test(score, r2_is_the_metric_of_numbers_unless_another_is_asked_for)
{
    struct job job = {.train = {.loss = JOB_LOSS_MAE, .metric = JOB_METRIC_AUTO}};
    struct job_choices metrics = {0};
    cr_assert_eq(score_metrics(&job, true, 1, &metrics), STATUS_OK);
    cr_expect_eq(metrics.of[0], JOB_METRIC_R2);
    cr_expect(job_metric_falls(JOB_METRIC_RMSE) && job_metric_falls(JOB_METRIC_MAE) &&
              !job_metric_falls(JOB_METRIC_R2));
}
