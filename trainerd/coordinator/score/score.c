#include "trainerd/coordinator/score/score.h"

#include "protocol/base/memory.h"

#include <math.h>

/* Does it come from the order of the logits? */
static bool is_ranked(enum job_metric metric)
{
    return metric == JOB_METRIC_ROC_AUC || metric == JOB_METRIC_AVERAGE_PRECISION;
}

static bool is_of_numbers(enum job_metric metric)
{
    return !job_metric_is_fraction(metric);
}

bool score_takes_rows(enum job_metric metric)
{
    return is_ranked(metric) || is_of_numbers(metric) || job_metric_is_of_links(metric) ||
           metric == JOB_METRIC_MACRO_F1;
}

bool score_any_takes_rows(const struct job_choices *metrics)
{
    bool any = false;
    for (int i = 0; i < metrics->n; i++) {
        any = any || score_takes_rows((enum job_metric)metrics->of[i]);
    }
    return any;
}

enum status score_rows(enum job_metric metric, const struct score_labels *labels, const float *logits, int split,
                       double *out)
{
    if (is_of_numbers(metric)) {
        *out = score_numbers(metric, labels, logits, split);
        return STATUS_OK;
    }
    return metric == JOB_METRIC_MACRO_F1 ? score_macro_f1(labels, logits, split, out)
                                         : score_ranked(metric, labels, logits, split, out);
}

const char *score_name(int metric)
{
    return job_choice_text("train", "metric", metric);
}

static enum status metric_check(const char *key, enum job_metric metric, bool multi_label, int32_t n_class)
{
    if (metric == JOB_METRIC_ACCURACY && multi_label) {
        return status_fail(STATUS_CONFIG,
                           "%s = \"accuracy\" is for one label per node, the dataset has %d "
                           "label columns: expected \"micro_f1\", \"macro_f1\", \"roc_auc\" or \"average_precision\"",
                           key, (int)n_class);
    }
    if (is_ranked(metric) && !multi_label && n_class != 2) {
        return status_fail(STATUS_CONFIG,
                           "%s = \"%s\" is for two classes or several labels per node, the "
                           "dataset has %d classes: expected \"accuracy\", \"micro_f1\" or \"macro_f1\"",
                           key, score_name((int)metric), (int)n_class);
    }
    return STATUS_OK;
}

static int auto_metric(const struct job *job, bool multi_label)
{
    if (job_predicts_links(job)) {
        return job->task.candidates == JOB_CANDIDATES_ALL ? JOB_METRIC_MRR : JOB_METRIC_ROC_AUC;
    }
    return job_regresses(job) ? JOB_METRIC_R2 : multi_label ? JOB_METRIC_MICRO_F1 : JOB_METRIC_ACCURACY;
}

enum status score_metrics(const struct job *job, bool multi_label, int32_t n_class, struct job_choices *out)
{
    const struct job_choices asked = job_metrics(job);
    struct job_choices metrics = {0};
    const char *key = job->train.metrics.n > 0 ? "train.metrics" : "train.metric";
    for (int i = 0; i < asked.n; i++) {
        int metric = asked.of[i], at = 0;
        if (metric == JOB_METRIC_AUTO) {
            metric = auto_metric(job, multi_label);
        }
        enum status status = job_predicts_links(job) /* these need no data to be checked: job_rules_task.c */
                                 ? STATUS_OK
                                 : metric_check(key, (enum job_metric)metric, multi_label, n_class);
        if (status != STATUS_OK) {
            return status;
        }
        while (at < metrics.n && metrics.of[at] != metric) {
            at++;
        }
        metrics.of[at] = metric;
        metrics.n = at == metrics.n ? at + 1 : metrics.n;
    }
    *out = metrics;
    return STATUS_OK;
}

double score_from_sums(enum job_metric metric, bool multi_label, const double sums[SCORE_N_SUM])
{
    if (score_takes_rows(metric) || sums[SCORE_SUM_ROW] <= 0.0) {
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

enum status score_labels_copy(const struct dataset *dataset, struct score_labels *out)
{
    *out = (struct score_labels){
        .n_node = dataset->n_node, .n_class = dataset->facts.n_class, .multi_label = dataset->facts.multi_label};
    const size_t n = (size_t)dataset->n_node, n_class = (size_t)dataset->facts.n_class;
    enum status status = memory_copy(MEMORY_OTHER, dataset->labels.split, n, sizeof *out->split, &out->split);
    if (status == STATUS_OK && dataset->facts.multi_label) {
        status = memory_copy(MEMORY_OTHER, dataset->labels.rows, n * n_class, sizeof *out->label_rows,
                             &out->label_rows);
    } else if (status == STATUS_OK) {
        status = memory_copy(MEMORY_OTHER, dataset->labels.classes, n, sizeof *out->labels, &out->labels);
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
