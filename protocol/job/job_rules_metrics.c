/* Rules on train.metric and train.metrics: which metrics go together, and with the loss. */
#include "protocol/job/job_keys.h"

#include <stdio.h>

/* Metrics of regression need a loss of regression, metrics of classes a loss of classes. */
static enum status check_metric(const struct job *job, enum job_metric metric, const char *where)
{
    const char *name = job_choice_text("train", "metric", (int)metric);
    bool is_of_numbers = !job_metric_is_fraction(metric);
    if (metric == JOB_METRIC_AUTO || is_of_numbers == job_regresses(job)) {
        return STATUS_OK;
    }
    if (is_of_numbers) {
        return status_fail(
            STATUS_CONFIG,
            "%s: the metric \"%s\" is of numbers, and train.loss of classes: expected train.loss = \"mse\", "
            "\"mae\" or \"huber\" beside it",
            where, name);
    }
    return status_fail(
        STATUS_CONFIG,
        "%s: the metric \"%s\" is of classes, and train.loss of numbers: expected \"r2\", \"rmse\" or \"mae\"", where,
        name);
}

enum status job_check_metrics(const struct job *job, const struct job_places *places)
{
    const struct job_train *train = &job->train;
    const struct job_choices metrics = job_metrics(job);
    char where[JOB_WHERE_BYTES];
    job_where(places, train->metrics.n > 0 ? JOB_KEY_train_metrics : JOB_KEY_train_metric, where);
    if (train->metric != JOB_METRIC_AUTO && train->metric != metrics.of[0]) {
        return status_fail(
            STATUS_CONFIG,
            "%s: train.metrics begins with \"%s\", which chooses the best weights, and train.metric is \"%s\": "
            "expected the same in both, or train.metrics alone",
            where, job_choice_text("train", "metric", metrics.of[0]),
            job_choice_text("train", "metric", train->metric));
    }
    enum status status = STATUS_OK;
    for (int i = 0; i < metrics.n && status == STATUS_OK; i++) {
        status = check_metric(job, (enum job_metric)metrics.of[i], where);
    }
    return status;
}
