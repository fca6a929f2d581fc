/* Rules on what is predicted: which metrics go together, and with the loss; what goes with links. */
#include "protocol/job/job_rules.h"

#include <string.h>

/* Links are ranked; metrics of ranked links are of links alone. */
static enum status check_of_links(const struct job *job, enum job_metric metric, const char *where)
{
    const char *name = job_choice_text("train", "metric", (int)metric);
    bool ranks = job_metric_is_of_links(metric) || metric == JOB_METRIC_AUTO || metric == JOB_METRIC_ROC_AUC ||
                 metric == JOB_METRIC_AVERAGE_PRECISION;
    if (!job_predicts_links(job)) {
        return status_fail(STATUS_CONFIG,
                           "%s: the metric \"%s\" is of links: expected task.kind = \"link\" beside it", where, name);
    }
    bool needs_pairs = metric == JOB_METRIC_ROC_AUC || metric == JOB_METRIC_AVERAGE_PRECISION;
    if (needs_pairs && job->task.candidates == JOB_CANDIDATES_ALL) {
        return status_fail(STATUS_CONFIG,
                           "%s: the metric \"%s\" is of edges among pairs without one, and task.candidates = \"all\" "
                           "ranks each edge among all nodes: expected \"mrr\" or \"hits@10\" (or 1, 3, 20, 50, 100)",
                           where, name);
    }
    return ranks ? STATUS_OK
                 : status_fail(STATUS_CONFIG,
                               "%s: the metric \"%s\" is of nodes, and task.kind = \"link\": expected \"roc_auc\", "
                               "\"average_precision\", \"mrr\" or \"hits@10\" (or 1, 3, 20, 50, 100)",
                               where, name);
}

/* Metrics of regression need a loss of regression, metrics of classes a loss of classes. */
static enum status check_metric(const struct job *job, enum job_metric metric, const char *where)
{
    const char *name = job_choice_text("train", "metric", (int)metric);
    bool is_of_numbers = !job_metric_is_fraction(metric);
    if (job_predicts_links(job) || job_metric_is_of_links(metric)) {
        return check_of_links(job, metric, where);
    }
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

void job_check_links(const struct job *job, const struct check *check)
{
    const struct job_train *train = &job->train;
    if (!job_predicts_links(job) && train->loss == JOB_LOSS_MARGIN) {
        BROKEN(train_loss, "train.loss = \"margin\" is of links: expected task.kind = \"link\"");
    }
    const bool trains = !job_predicts(job); /* a prediction's data, splits and memory are as of nodes */
    const struct rule rules[] = {
        {JOB_KEY_task_test_share, job->task.valid_share + job->task.test_share >= 1.0,
         "task.valid_share and task.test_share are 1 or more together, and leave no edges to train on: expected "
         "less"},
        {JOB_KEY_dataset_split, trains && job->dataset.split > 0,
         "dataset.split does not go with task.kind = \"link\": it is of splits of nodes, and edges are held out by "
         "task.seed or by files"},
        {JOB_KEY_train_loss, job_regresses(job),
         "train.loss does not go with task.kind = \"link\": a pair has an edge or not, expected \"auto\", \"bce\", "
         "\"margin\" or \"cross_entropy\""},
        {JOB_KEY_task_sampling, job->task.sampling == JOB_SAMPLING_UNIFORM && job_scores_relations(job),
         "task.sampling = \"uniform\" does not go with a task.decoder that reads relations: drawn pairs are of no "
         "relation, "
         "expected \"ends\" or \"auto\""},
        {JOB_KEY_task_sampling,
         job->task.sampling == JOB_SAMPLING_UNIFORM &&
             (train->loss == JOB_LOSS_MARGIN || train->loss == JOB_LOSS_CROSS_ENTROPY),
         "task.sampling = \"uniform\" does not go with this train.loss, which compares an edge with pairs of its "
         "own: expected \"ends\" or \"auto\""},
        {JOB_KEY_train_class_weights, strcmp(train->class_weights, "none") != 0,
         "train.class_weights does not go with task.kind = \"link\": pairs of nodes have no classes"},
        {JOB_KEY_train_label_smoothing, train->label_smoothing > 0.0,
         "train.label_smoothing does not go with task.kind = \"link\": pairs of nodes have no classes"},
        {JOB_KEY_model_label_input, job->model.label_input,
         "model.label_input does not go with task.kind = \"link\": labels are not read"},
        {JOB_KEY_output_probabilities, job->output.probabilities,
         "output.probabilities does not go with task.kind = \"link\": a node's row has no classes"},
        {JOB_KEY_memory_spill, trains && job->memory.spill[0] != '\0',
         "memory.spill does not go with task.kind = \"link\" yet: expected \"\""},
        {JOB_KEY_train_prune, train->prune == JOB_PRUNE_ALWAYS,
         "train.prune = \"always\" does not go with task.kind = \"link\" yet: expected \"auto\" or \"never\""},
    };
    rules_check(check, rules, job_predicts_links(job) ? sizeof rules / sizeof *rules : 0);
}

void job_check_asked(const struct job *job, const struct check *check)
{
    const struct {
        enum job_key_id key;
        const char *name, *value;
    } rows[] = {{JOB_KEY_predict_pairs, "predict.pairs", job->predict.pairs},
                {JOB_KEY_predict_nodes, "predict.nodes", job->predict.nodes}};
    for (size_t i = 0; !job_predicts(job) && i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].value[0] != '\0') {
            rule_broken(check, rows[i].key,
                        "%s asks a trained model: expected predict.model beside it, or --predict MODEL",
                        rows[i].name);
        }
    }
}

void job_check_post(const struct job *job, const struct check *check)
{
    const struct {
        enum job_key_id key;
        const char *name;
        bool is_on;
    } rows[] = {{JOB_KEY_post_correct_and_smooth, "correct_and_smooth", job->post.correct_and_smooth},
                {JOB_KEY_post_label_propagation, "label_propagation", job->post.label_propagation}};
    const char *why = job_predicts_links(job) ? "task.kind = \"link\": pairs of nodes have no classes"
                      : job_regresses(job)    ? "train.loss = \"mse\", \"mae\" or \"huber\": numbers have no classes"
                      : job->workers.launcher == JOB_LAUNCHER_MANUAL
                          ? "workers.launcher = \"manual\" yet: it starts workers of its own after the training"
                          : NULL;
    for (size_t i = 0; why != NULL && i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].is_on) {
            rule_broken(check, rows[i].key, "post.%s does not go with %s", rows[i].name, why);
        }
    }
}
