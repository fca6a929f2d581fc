#include "trainerd/coordinator/model_source.h"

#include "models/program/level.h"
#include "models/program/row_filter.h"
#include "protocol/files/file.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RESULT_BYTES_MOST (64 << 20)
#define CLASS_MOST (1 << 24)

static const char *const weight_names[] = {"best.safetensors", "model.safetensors"};

static bool is_file(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

static enum status path_join(const char *folder, const char *name, char out[PATH_MAX])
{
    return snprintf(out, PATH_MAX, "%s/%s", folder, name) < PATH_MAX
               ? STATUS_OK
               : status_fail(STATUS_CONFIG, "predict.model: '%.200s…' is too long for a path", folder);
}

/* A file's folder and the file; of a folder the best weights, or the last ones. */
static enum status places_find(const char *model, struct model_source *out)
{
    struct stat about;
    if (stat(model, &about) != 0) {
        return status_fail(STATUS_NO_INPUT, "predict.model: '%s': %s, expected the folder of a training's results",
                           model, strerror(errno));
    }
    if (!S_ISDIR(about.st_mode)) {
        const char *slash = strrchr(model, '/');
        snprintf(out->folder, sizeof out->folder, "%.*s", slash != NULL ? (int)(slash - model) : 1,
                 slash != NULL ? model : ".");
        snprintf(out->weights, sizeof out->weights, "%s", model);
        return S_ISREG(about.st_mode)
                   ? STATUS_OK
                   : status_fail(STATUS_DATA, "predict.model: '%s' is neither a folder nor a file", model);
    }
    snprintf(out->folder, sizeof out->folder, "%s", model);
    for (int i = 0; i < 2; i++) {
        enum status status = path_join(model, weight_names[i], out->weights);
        if (status != STATUS_OK || is_file(out->weights)) {
            return status;
        }
    }
    return status_fail(STATUS_NO_INPUT,
                       "predict.model: '%s' has neither %s nor %s, expected the folder of a training's results",
                       model, weight_names[0], weight_names[1]);
}

static enum status missing(const char *path, const char *what)
{
    return status_fail(STATUS_DATA, "'%s': has no %s, expected the result.json of a training", path, what);
}

/* A number of the graph that the model was trained on; false: it is not there, or out of range. */
static bool number_take(const json_t *dataset, const char *name, int64_t least, int64_t most, int64_t *out)
{
    const json_t *value = json_object_get(dataset, name);
    *out = json_is_integer(value) ? (int64_t)json_integer_value(value) : 0;
    return json_is_integer(value) && *out >= least && *out <= most;
}

/* What an older trainerd did not write yet is 0. */
static bool number_may_take(const json_t *dataset, const char *name, int64_t most, int64_t *out)
{
    *out = 0;
    return json_object_get(dataset, name) == NULL || number_take(dataset, name, 0, most, out);
}

/* Classes may have no names. */
static void class_names_take(const json_t *dataset, int64_t n_class, struct model_source *out)
{
    const json_t *names = json_object_get(dataset, "class_names");
    char *text = json_is_array(names) && (int64_t)json_array_size(names) == n_class ? json_dumps(names, JSON_COMPACT)
                                                                                    : NULL;
    if (text != NULL && strlen(text) < sizeof out->class_names) {
        out->model.class_names = memcpy(out->class_names, text, strlen(text) + 1);
    }
    free(text);
}

/* Only trainings of programs have them. */
static bool counts_take(const json_t *counts, struct graph_counts *out)
{
    const json_t *mean = json_object_get(counts, "mean_degree"), *log = json_object_get(counts, "mean_log_degree");
    *out = (struct graph_counts){0};
    if (counts == NULL) {
        return true;
    }
    if (!number_take(counts, "nodes", 1, INT64_MAX, &out->n_node) ||
        !number_take(counts, "edges", 0, INT64_MAX, &out->n_edge) || !json_is_number(mean) || !json_is_number(log)) {
        return false;
    }
    out->mean_degree = json_number_value(mean);
    out->mean_log_degree = json_number_value(log);
    return out->mean_degree >= 0.0 && out->mean_log_degree >= 0.0;
}

static enum status graph_take(const char *path, const json_t *dataset, struct model_source *out)
{
    const json_t *multi = json_object_get(dataset, "multi_label"), *graph = json_object_get(dataset, "fingerprint");
    int64_t n_class, n_relation;
    if (!number_take(dataset, "features", 1, INT64_MAX, &out->model.n_feature)) {
        return missing(path, "number dataset.features of at least 1");
    }
    bool regresses = job_regresses(&out->job), has_classes = !regresses && !job_predicts_links(&out->job);
    if (!number_take(dataset, has_classes ? "classes" : "outputs", 1, CLASS_MOST, &n_class) ||
        !json_is_boolean(multi)) {
        return missing(path, has_classes ? "number dataset.classes, or no dataset.multi_label"
                                         : "number dataset.outputs, or no dataset.multi_label");
    }
    if (!number_may_take(dataset, "relations", INT32_MAX, &n_relation) ||
        !number_may_take(dataset, "embedded_nodes", INT64_MAX, &out->model.n_embedded) ||
        !number_may_take(dataset, "edge_features", INT32_MAX, &out->model.n_edge_feature)) {
        return missing(path, "valid number dataset.relations, dataset.embedded_nodes or dataset.edge_features");
    }
    if (!counts_take(json_object_get(dataset, "counts"), &out->model.counts)) {
        return missing(path, "valid numbers dataset.counts");
    }
    out->model.n_class = (int32_t)n_class;
    out->model.n_relation = (int32_t)n_relation;
    out->model.multi_label = json_is_true(multi);
    out->model.regression = regresses;
    out->model.of_links = job_predicts_links(&out->job);
    out->weighted = json_is_true(json_object_get(dataset, "edge_weights"));
    snprintf(out->graph, sizeof out->graph, "%s", json_is_string(graph) ? json_string_value(graph) : "");
    class_names_take(dataset, n_class, out);
    return STATUS_OK;
}

static enum status result_take(const char *path, const json_t *result, struct model_source *out)
{
    const json_t *text = json_object_get(result, "job_text");
    if (!json_is_string(text)) {
        return missing(path, "text job_text");
    }
    enum status status = job_load_text(json_string_value(text), json_string_length(text), path, NULL, 0, &out->job);
    if (status == STATUS_OK && job_predicts(&out->job)) {
        return status_fail(STATUS_DATA, "'%s' is of a prediction, expected that of a training", path);
    }
    out->model.label_input = out->job.model.label_input;
    if (status != STATUS_OK) {
        return status;
    }
    return graph_take(path, json_object_get(result, "dataset"), out);
}

enum status model_source_open(const char *model, const struct job *job, struct model_source *out)
{
    char path[PATH_MAX], *text = NULL;
    size_t n = 0;
    *out = (struct model_source){0};
    out->model.folder = out->folder;
    out->model.graph = out->graph;
    enum status status = places_find(model, out);
    if (status != STATUS_OK || (status = path_join(out->folder, "result.json", path)) != STATUS_OK) {
        return status;
    }
    out->foreign = is_file(model) && access(path, F_OK) != 0 && errno == ENOENT;
    if (out->foreign) {
        out->job = *job;
        return STATUS_OK;
    }
    status = file_load(path, RESULT_BYTES_MOST, &text, &n);
    if (status != STATUS_OK) {
        return status_fail(status, "%s; expected the result.json of the training beside its weights",
                           status_reason());
    }
    json_error_t error;
    json_t *result = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    free(text);
    status = json_is_object(result) ? result_take(path, result, out)
                                    : status_fail(STATUS_DATA, "'%s' is no JSON object: %s", path, error.text);
    json_decref(result);
    return status;
}

enum status model_source_fit(struct model_source *source, const struct dataset *dataset, int64_t n_class)
{
    bool has_labels = dataset->labels.classes != NULL || dataset->labels.rows != NULL;
    if (dataset->labels.class_names != NULL && dataset->facts.n_class != n_class) {
        return status_fail(STATUS_DATA, "dataset '%s' has %d classes by class_names.json, expected the %lld of '%s'",
                           dataset->name, (int)dataset->facts.n_class, (long long)n_class, source->weights);
    }
    source->model.n_feature = dataset->facts.n_feature;
    source->model.n_edge_feature = dataset->facts.n_edge_feature;
    source->model.n_relation = dataset->facts.n_relation;
    source->model.n_class = (int32_t)n_class;
    source->model.regression = job_regresses(&source->job);
    source->model.of_links = job_predicts_links(&source->job);
    source->model.multi_label = !source->model.regression && !source->model.of_links &&
                                (has_labels ? dataset->facts.multi_label : source->job.train.loss == JOB_LOSS_BCE);
    source->model.label_input = source->job.model.label_input;
    source->model.n_embedded = dataset->features.embedded.n_run > 0 ? embedded_count(&dataset->features.embedded) : 0;
    source->model.class_names = dataset->labels.class_names;
    source->model.counts = dataset->facts.counts;
    if (source->model.n_embedded > 0) {
        dataset_fingerprint(dataset, true, source->graph);
    }
    return STATUS_OK;
}

static bool is_lossy(const struct job *job)
{
    const uint32_t exact = 1U << DEVICE_CODEC_FP32;
    return row_filter_of(job) != NULL || job->exchange.stale != 0 || level_codecs(job, false) != exact ||
           level_codecs(job, true) != exact;
}

static void dataset_apply(const struct model_source *source, struct job_dataset *dataset)
{
    dataset->undirected = source->job.dataset.undirected;
    dataset->self_loops = source->job.dataset.self_loops;
    dataset->normalize_features = source->job.dataset.normalize_features;
    if (dataset->features < 0 || job_makes_features(&source->job)) {
        dataset->features = source->job.dataset.features;
    }
    if (dataset->generator == JOB_GENERATOR_NONE) {
        dataset->edge_weights = source->weighted ? JOB_SWITCH_YES : JOB_SWITCH_NO;
        dataset->edge_features = source->model.n_edge_feature > 0 ? JOB_SWITCH_YES : JOB_SWITCH_NO;
    }
}

/* Exact; covers, which change rounding, where the training had them. */
static void exchange_apply(const struct model_source *source, struct job_exchange *exchange)
{
    struct job defaults;
    job_defaults(&defaults);
    defaults.exchange.schedule = exchange->schedule;
    defaults.exchange.prefetch = exchange->prefetch;
    bool own = source->job.model.kernel == JOB_KERNEL_OWN; /* else it had none */
    defaults.exchange.cover = own && source->job.exchange.cover && !is_lossy(&source->job);
    defaults.exchange.store_inputs = source->job.exchange.store_inputs;
    defaults.exchange.plain = source->job.exchange.plain;
    *exchange = defaults.exchange;
}

void model_source_apply(const struct model_source *source, struct job *job)
{
    exchange_apply(source, &job->exchange);
    if (!source->foreign) {
        dataset_apply(source, &job->dataset);
        job->names = source->job.names;
        job->names.n = 0;
    }
    int kernel = job->model.kernel; /* of the device that predicts */
    job->model = source->job.model;
    job->model.kernel = kernel;
    job->program = source->job.program;
    job->task = source->job.task;
    memcpy(job->decoder, source->job.decoder, sizeof job->decoder);
    memset(job->model.init, 0, sizeof job->model.init);
    job->train = source->job.train;
    job->train.epochs = 0;
    job->train.patience = 0;
    job->train.lr_schedule = JOB_LR_SCHEDULE_CONSTANT;
    job->train.checkpoint_every = 0;
    job->train.on_nan = JOB_ON_NAN_STOP;
    job->output.tensorboard = false;
}
