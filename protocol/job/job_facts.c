/* What follows from a checked job's keys. */
#include "protocol/base/memory.h"
#include "protocol/job/job.h"
#include "protocol/job/model_kinds.h"
#include "protocol/toml/toml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool job_metric_falls(enum job_metric metric)
{
    return metric == JOB_METRIC_RMSE || metric == JOB_METRIC_MAE;
}

bool job_metric_is_fraction(enum job_metric metric)
{
    return !job_metric_falls(metric) && metric != JOB_METRIC_R2;
}

struct job_choices job_metrics(const struct job *job)
{
    return job->train.metrics.n > 0 ? job->train.metrics : (struct job_choices){1, {job->train.metric}};
}

bool job_metric_find(const char *name, enum job_metric *out)
{
    for (int i = 0; i < JOB_METRIC_N; i++) {
        if (i != JOB_METRIC_AUTO && strcmp(job_choice_text("train", "metric", i), name) == 0) {
            *out = (enum job_metric)i;
            return true;
        }
    }
    return false;
}

bool job_regresses(const struct job *job)
{
    int loss = job->train.loss;
    return loss == JOB_LOSS_MSE || loss == JOB_LOSS_MAE || loss == JOB_LOSS_HUBER;
}

bool job_predicts_links(const struct job *job)
{
    return job->task.kind == JOB_TASK_LINK;
}

bool job_samples_ends(const struct job *job)
{
    if (job->task.sampling != JOB_SAMPLING_AUTO) {
        return job->task.sampling == JOB_SAMPLING_ENDS;
    }
    return job->train.loss == JOB_LOSS_MARGIN || job->train.loss == JOB_LOSS_CROSS_ENTROPY ||
           job_scores_relations(job);
}

bool job_metric_is_of_links(enum job_metric metric)
{
    return metric >= JOB_METRIC_MRR;
}

bool job_takes_edge_weights(const struct job *job)
{
    return job->model.kind == JOB_KIND_PROGRAM ? job->program.reads_weights : model_is_sum(job);
}

bool job_makes_features(const struct job *job)
{
    return job->dataset.features < 0;
}

uint32_t job_device_products(int device)
{
    return JOB_BIT(PRODUCTS_FP32) | JOB_BIT(PRODUCTS_BF16) |
           (device == JOB_DEVICE_CUDA ? JOB_BIT(PRODUCTS_TF32) | JOB_BIT(PRODUCTS_TF32X3) : 0);
}

bool job_predicts(const struct job *job)
{
    return job->predict.model[0] != '\0';
}

bool job_asks_links(const struct job *job)
{
    return job->predict.pairs[0] != '\0' || job->predict.nodes[0] != '\0';
}

char *job_predict_setting(const char *model)
{
    static const char key[] = "predict.model=";
    char *quoted = toml_quote(model);
    size_t n = sizeof key + strlen(quoted);
    char *out = memory_alloc(n, 1);
    snprintf(out, n, "%s%s", key, quoted);
    free(quoted);
    return out;
}

void job_run_name(const struct job *job, char out[JOB_RUN_BYTES])
{
    snprintf(out, JOB_RUN_BYTES, "%s%s", job->job.name, job_predicts(job) ? "-predict" : "");
}

bool job_seals(const struct job *job)
{
    return job->workers.encryption == JOB_ENCRYPTION_ON ||
           (job->workers.encryption == JOB_ENCRYPTION_AUTO && job->workers.launcher != JOB_LAUNCHER_LOCAL);
}
