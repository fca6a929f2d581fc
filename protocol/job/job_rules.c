/* Rules that see more than one key of a job, or more of a value than its range. Rules on data are the reader's. */
#include "protocol/job/codecs.h"
#include "protocol/job/job_keys.h"
#include "protocol/job/model_kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fail at the place of one key, and leave the calling function. */
#define FAIL_AT(key, sentence) return fail_at(places, JOB_KEY_##key, sentence)

static enum status fail_at(const struct job_places *places, enum job_key_id key, const char *sentence)
{
    char where[JOB_WHERE_BYTES];
    job_where(places, key, where);
    return status_fail(STATUS_CONFIG, "%s: %s", where, sentence);
}

/* The name is a folder's name by default, so it must be one. */
static bool name_is_sane(const char *name)
{
    for (const char *c = name; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == '/') {
            return false;
        }
    }
    return name[0] != '\0' && name[0] != '.' && strlen(name) <= 200;
}

/* HOST:PORT with a port of at most five digits below 65536. */
static bool address_is_sane(const char *address)
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL || colon == address) {
        return false;
    }
    size_t n = strlen(colon + 1);
    return n >= 1 && n <= 5 && strspn(colon + 1, "0123456789") == n && strtol(colon + 1, NULL, 10) <= 65535;
}

/* The names of a set of choices: "gcn", "appnp" or "sgc". */
static void choices_text(const struct job_key *key, uint32_t choices, char out[JOB_EXPECT_BYTES])
{
    size_t at = 0;
    out[0] = '\0';
    for (int choice = 0; choice < key->n_choice; choice++) {
        if ((choices >> choice & 1) == 0 || at >= JOB_EXPECT_BYTES) {
            continue;
        }
        const char *next = choices >> choice == 1 ? " or " : ", ";
        at += (size_t)snprintf(out + at, JOB_EXPECT_BYTES - at, "%s\"%s\"", at > 0 ? next : "", key->choice[choice]);
    }
}

static enum status check_dataset(const struct job *job, const struct job_places *places)
{
    bool path = job->dataset.path[0] != '\0';
    bool generator = job->dataset.generator != JOB_GENERATOR_NONE;
    if (path && generator) {
        FAIL_AT(dataset_generator, "dataset.path and dataset.generator are both given; expected one of them");
    }
    if (!path && !generator) {
        FAIL_AT(dataset_path, "neither dataset.path nor dataset.generator is given; expected one of them");
    }
    if (job->dataset.generator == JOB_GENERATOR_SBM && job->dataset.labels_per_node > job->dataset.classes) {
        FAIL_AT(dataset_labels_per_node, "dataset.labels_per_node is more than dataset.classes");
    }
    if (job->dataset.edge_weights == JOB_SWITCH_YES && !job_takes_edge_weights(job)) {
        char where[JOB_WHERE_BYTES], expect[JOB_EXPECT_BYTES];
        job_where(places, JOB_KEY_dataset_edge_weights, where);
        choices_text(&job_keys[JOB_KEY_model_kind], model_kinds_of_sums(), expect);
        return status_fail(STATUS_CONFIG,
                           "%s: dataset.edge_weights = \"yes\" is for sums of neighbours' rows, each times its edge's weight: "
                           "expected model.kind = %s, and no model.aggregator = \"max\"",
                           where, expect);
    }
    if (job->dataset.edge_features == JOB_SWITCH_YES && !model_kind_of(job)->takes_edge_features) {
        char where[JOB_WHERE_BYTES], expect[JOB_EXPECT_BYTES];
        job_where(places, JOB_KEY_dataset_edge_features, where);
        choices_text(&job_keys[JOB_KEY_model_kind], model_kinds_with_edge_features(), expect);
        return status_fail(STATUS_CONFIG,
                           "%s: dataset.edge_features = \"yes\" is for attention that reads the features of an edge: expected "
                           "model.kind = %s",
                           where, expect);
    }
    if (model_kind_of(job)->needs_types && job->dataset.self_loops == JOB_SWITCH_YES) {
        char where[JOB_WHERE_BYTES];
        job_where(places, JOB_KEY_dataset_self_loops, where);
        return status_fail(STATUS_CONFIG,
                           "%s: dataset.self_loops = \"yes\" does not go with model.kind = \"%s\": such a loop has no "
                           "relation, and a node's own row has weights of its own",
                           where, job_choice_text("model", "kind", job->model.kind));
    }
    return STATUS_OK;
}

static enum status check_partition(const struct job *job, const struct job_places *places)
{
    if (job->partition.method == JOB_METHOD_FILE && job->partition.file[0] == '\0') {
        FAIL_AT(partition_method, "partition.method = \"file\" needs partition.file");
    }
    if (job->partition.parts != 0 && job->workers.count > job->partition.parts) {
        char where[JOB_WHERE_BYTES];
        job_where(places, JOB_KEY_workers_count, where);
        return status_fail(STATUS_CONFIG,
                           "%s: workers.count = %lld is more than partition.parts = %lld; each worker needs a part", where,
                           (long long)job->workers.count, (long long)job->partition.parts);
    }
    return STATUS_OK;
}

static enum status check_model(const struct job *job, const struct job_places *places)
{
    if (job->model.bases > 0 && job->model.blocks > 0) {
        FAIL_AT(model_blocks, "model.bases and model.blocks are both given; expected one of them");
    }
    if (!job->model.embedding && job->model.blocks > 0) {
        FAIL_AT(model_embedding,
                "model.embedding = false does not go with model.blocks: a node's own row is not cut into blocks");
    }
    if (job->model.linear_layers >= job->model.layers) {
        FAIL_AT(model_linear_layers, "model.linear_layers must be less than model.layers");
    }
    return STATUS_OK;
}

/* A row's chance comes from what its edges count, which a maximum does not add up and attention finds anew each epoch. */
static enum status check_sampling_weights(const struct job *job, const struct job_places *places)
{
    if (job->exchange.sampling_weights == JOB_SAMPLING_WEIGHTS_UNIFORM || model_is_sum(job)) {
        return STATUS_OK;
    }
    char where[JOB_WHERE_BYTES], expect[JOB_EXPECT_BYTES];
    job_where(places, JOB_KEY_exchange_sampling_weights, where);
    choices_text(&job_keys[JOB_KEY_model_kind], model_kinds_of_sums(), expect);
    return status_fail(
        STATUS_CONFIG,
        "%s: exchange.sampling_weights = \"%s\" is for sums, in which an edge counts the same in every epoch: expected "
        "model.kind = %s, and no model.aggregator = \"max\"",
        where, job_choice_text("exchange", "sampling_weights", job->exchange.sampling_weights), expect);
}

/* What rows of the epoch before do not go with. */
static enum status check_stale(const struct job *job, const struct job_places *places)
{
    if (job->exchange.stale == 0) {
        return STATUS_OK;
    }
    if (job->exchange.sampling == 1.0 && job_samples(job)) {
        FAIL_AT(exchange_stale,
                "exchange.stale = 1 does not go with exchange.sampling_local < 1: the rows of the epoch before are those of "
                "another sample");
    }
    if (job_samples(job)) {
        FAIL_AT(exchange_stale,
                "exchange.stale = 1 does not go with exchange.sampling < 1: the rows of the epoch before are those of "
                "another sample");
    }
    if (job->exchange.plain) {
        FAIL_AT(exchange_stale,
                "exchange.stale = 1 does not go with exchange.plain, which is for comparisons of exact exchanges");
    }
    if (job->memory.spill[0] != '\0') {
        FAIL_AT(exchange_stale, "exchange.stale = 1 does not go with memory.spill: the rows of the epoch before lie in memory");
    }
    if (job->model.kind == JOB_KIND_SAGE && job->model.aggregator == JOB_AGGREGATOR_MAX) {
        FAIL_AT(exchange_stale,
                "exchange.stale = 1 does not go with model.aggregator = \"max\": gradients of the epoch before belong to "
                "the places of other maxima");
    }
    return STATUS_OK;
}

static enum status check_codecs(enum job_key_id key, const char *text, const struct job_places *places)
{
    char where[JOB_WHERE_BYTES], label[JOB_LABEL_BYTES];
    struct job_codecs codecs;
    enum status status = job_codecs_read(text, key == JOB_KEY_exchange_codec_backward, &codecs);
    if (status == STATUS_OK) {
        return STATUS_OK;
    }
    job_where(places, key, where);
    job_key_label(&job_keys[key], label);
    return status_fail(status, "%s: %s %s", where, label, status_reason());
}

/* Does some epoch send rows or gradients in fewer bits? */
static bool codes(const struct job *job)
{
    bool any = false;
    for (int backward = 0; backward < 2; backward++) {
        const struct job_codecs codecs = job_codecs(job, backward != 0);
        for (int k = 0; k < codecs.n; k++) {
            any = any || codecs.at[k].codec != JOB_CODEC_FP32;
        }
    }
    return any;
}

static enum status check_guard(const struct job *job, const struct job_places *places)
{
    if (!job_samples(job) && !codes(job) && job->exchange.stale == 0) {
        FAIL_AT(exchange_guard_every,
                "exchange.guard_every compares gradients, and nothing of this job approximates them; "
                "expected exchange.sampling below 1, an exchange.codec other than fp32, or exchange.stale = 1");
    }
    return STATUS_OK;
}

/* What rounding loses is added to the next epoch's row: rows are rounded, and used in their own epoch. */
static enum status check_feedback(const struct job *job, const struct job_places *places)
{
    if (!job->exchange.error_feedback) {
        return STATUS_OK;
    }
    if (job->exchange.stale != 0) {
        FAIL_AT(exchange_error_feedback,
                "exchange.error_feedback does not go with exchange.stale = 1: a row is used an epoch after it is "
                "rounded, and so would be what makes up for its error");
    }
    if (!codes(job)) {
        FAIL_AT(exchange_error_feedback, "exchange.error_feedback keeps what rounding loses, and nothing of this job is "
                                         "rounded; expected an exchange.codec other than fp32");
    }
    return STATUS_OK;
}

static enum status check_exchange(const struct job *job, const struct job_places *places)
{
    const struct job_exchange *exchange = &job->exchange;
    enum status status = check_codecs(JOB_KEY_exchange_codec, exchange->codec, places);
    if (status == STATUS_OK && strcmp(exchange->codec_backward, "same") != 0) {
        status = check_codecs(JOB_KEY_exchange_codec_backward, exchange->codec_backward, places);
    }
    if (status == STATUS_OK && exchange->guard_every > 0) {
        status = check_guard(job, places);
    }
    status = status == STATUS_OK ? check_feedback(job, places) : status;
    status = status == STATUS_OK ? check_sampling_weights(job, places) : status;
    return status == STATUS_OK ? check_stale(job, places) : status;
}

static _Thread_local char remarks[4096];

const char *job_remarks(void)
{
    return remarks;
}

static bool is_given(const struct job_places *places, enum job_key_id key)
{
    return places->of[key].set || places->of[key].line > 0;
}

/* Add "place: key is not used: why"; those that there is no room for are left out. */
static void remark(const struct job_places *places, enum job_key_id key, const char *why)
{
    size_t at = strlen(remarks);
    char where[JOB_WHERE_BYTES], label[JOB_LABEL_BYTES];
    job_where(places, key, where);
    job_key_label(&job_keys[key], label);
    int n = snprintf(remarks + at, sizeof remarks - at, "%s: %s is not used: %s\n", where, label, why);
    if (n < 0 || (size_t)n >= sizeof remarks - at) {
        remarks[at] = '\0';
    }
}

/* Keys that mean nothing beside the value of another, which is no choice. */
static void remark_values(const struct job *job, const struct job_places *places)
{
    const struct job_exchange *exchange = &job->exchange;
    const struct {
        enum job_key_id key;
        bool is_unused;
        const char *why;
    } rows[] = {
        {JOB_KEY_exchange_sampling_weights, exchange->sampling_weights != JOB_SAMPLING_WEIGHTS_UNIFORM && !job_samples(job),
         "exchange.sampling is 1, and all rows travel"},
        {JOB_KEY_exchange_cover, exchange->cover && exchange->plain, "exchange.plain is true"},
        {JOB_KEY_exchange_cover, exchange->cover && job->model.kernel == JOB_KERNEL_CUSPARSE, "model.kernel is \"cusparse\""},
        {JOB_KEY_exchange_store_inputs, exchange->store_inputs && exchange->plain, "exchange.plain is true"},
        {JOB_KEY_exchange_stale_smoothing, exchange->stale == 0, "exchange.stale is 0"},
        {JOB_KEY_exchange_guard_limit, exchange->guard_every == 0, "exchange.guard_every is 0"},
        {JOB_KEY_train_patience_monitor, job->train.patience == 0, "train.patience is 0"},
        {JOB_KEY_train_min_delta, job->train.patience == 0, "train.patience is 0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].is_unused && is_given(places, rows[i].key)) {
            remark(places, rows[i].key, rows[i].why);
        }
    }
}

/* What a prediction does without, and what only a prediction has. */
static void remark_predict(const struct job *job, const struct job_places *places)
{
    if (!job_predicts(job) && job->output.embeddings[0] != '\0') {
        remark(places, JOB_KEY_output_embeddings, "it is of a prediction (predict.model)");
    }
    if (job_predicts(job) && job->model.init[0] != '\0') {
        remark(places, JOB_KEY_model_init, "a prediction has the weights of predict.model");
    }
    if (job_predicts(job) && job->output.last_logits) {
        remark(places, JOB_KEY_output_last_logits,
               "it is of a training; --predict FOLDER/model.safetensors has the last weights");
    }
}

/* Arrays leave GPUs alone for host memory. */
static void remark_offload(const struct job *job, const struct job_places *places)
{
    bool on_host = job->workers.device == JOB_DEVICE_CPU || job->workers.device == JOB_DEVICE_REFERENCE;
    if (is_given(places, JOB_KEY_memory_offload) && (on_host || job->memory.spill[0] != '\0')) {
        remark(places, JOB_KEY_memory_offload,
               on_host ? "workers.device has no memory of its own" : "memory.spill is for workers.device = \"cpu\"");
    }
}

/* A key that is given and means nothing beside another. One job file serves several methods or kinds by --set, so this is
 * said and let pass. */
static void remark_unused(const struct job *job, const struct job_places *places)
{
    remarks[0] = '\0';
    for (int i = 0; i < JOB_KEY_N; i++) {
        enum job_key_id key = (enum job_key_id)i;
        struct job_only only;
        if (!is_given(places, key) || job_key_applies(job, key) || !job_only_find(key, &only)) {
            continue;
        }
        const struct job_key *by = &job_keys[only.by];
        char by_label[JOB_LABEL_BYTES], expect[JOB_EXPECT_BYTES], why[2 * JOB_EXPECT_BYTES];
        job_key_label(by, by_label);
        choices_text(by, only.with, expect);
        snprintf(why, sizeof why, "%s is \"%s\", and it goes with %s", by_label,
                 by->choice[*(const int *)((const char *)job + by->offset)], expect);
        remark(places, key, why);
    }
    remark_values(job, places);
    remark_predict(job, places);
    remark_offload(job, places);
}

/* Labels that are numbers: what is made of classes has no meaning then. */
static enum status check_regression(const struct job *job, const struct job_places *places)
{
    const struct job_train *train = &job->train;
    if (!job_regresses(job)) {
        return STATUS_OK;
    }
    if (job->dataset.generator != JOB_GENERATOR_NONE) {
        FAIL_AT(train_loss,
                "train.loss = \"mse\", \"mae\" and \"huber\" are for labels that are numbers, and those of a generator are "
                "classes: expected dataset.path, an npy folder");
    }
    if (job->dataset.format == JOB_FORMAT_OGB || job->dataset.format == JOB_FORMAT_NPZ) {
        FAIL_AT(train_loss,
                "train.loss = \"mse\", \"mae\" and \"huber\" are for labels that are numbers, and those of dataset.format = "
                "\"ogb\" and \"npz\" are classes: expected \"npy\"");
    }
    if (job->model.label_input) {
        FAIL_AT(model_label_input,
                "model.label_input does not go with train.loss = \"mse\", \"mae\" or \"huber\": it appends a column for "
                "each class");
    }
    if (strcmp(train->class_weights, "none") != 0) {
        FAIL_AT(train_class_weights,
                "train.class_weights does not go with train.loss = \"mse\", \"mae\" or \"huber\": numbers have no "
                "classes");
    }
    if (train->label_smoothing > 0.0) {
        FAIL_AT(train_label_smoothing,
                "train.label_smoothing does not go with train.loss = \"mse\", \"mae\" or \"huber\": numbers have no "
                "classes");
    }
    return STATUS_OK;
}

/* What the loss takes. */
static enum status check_loss(const struct job *job, const struct job_places *places)
{
    if (job->train.loss == JOB_LOSS_BCE && job->train.label_smoothing > 0.0) {
        FAIL_AT(train_label_smoothing,
                "train.label_smoothing is for train.loss = \"cross_entropy\": of \"bce\" each label is 0 or 1, "
                "and there are no other classes to spread it over");
    }
    if (job->train.class_weights[0] == '\0') {
        FAIL_AT(train_class_weights, "train.class_weights is empty; expected \"none\", \"balanced\" or a .npy file");
    }
    if (job->model.label_input && strcmp(job->train.class_weights, "none") != 0) {
        FAIL_AT(
            train_class_weights,
            "train.class_weights does not go with model.label_input: which rows the loss is over is drawn in every epoch, and "
            "only their number is counted before, not the sum of their weights");
    }
    return STATUS_OK;
}

static enum status check_plateau(const struct job *job, const struct job_places *places)
{
    const struct job_train *train = &job->train;
    if (train->lr_schedule != JOB_LR_SCHEDULE_REDUCE_ON_PLATEAU) {
        return STATUS_OK;
    }
    if (train->eval_every == 0) {
        FAIL_AT(train_lr_schedule,
                "train.lr_schedule = \"reduce_on_plateau\" looks at evaluations, and train.eval_every = 0 asks for none");
    }
    if (train->lr_gamma <= 0.0 || train->lr_gamma >= 1.0) {
        FAIL_AT(train_lr_gamma, "train.lr_gamma must be between 0 and 1 for train.lr_schedule = \"reduce_on_plateau\"");
    }
    if (train->lr_min > train->lr) {
        FAIL_AT(train_lr_min, "train.lr_min is more than train.lr");
    }
    return STATUS_OK;
}

/* A GPU's arrays do not lie in files. */
static enum status check_device(const struct job *job, const struct job_places *places)
{
    if (job->memory.spill[0] == '\0' || job->workers.device != JOB_DEVICE_CUDA) {
        return STATUS_OK;
    }
    char where[JOB_WHERE_BYTES];
    job_where(places, JOB_KEY_memory_spill, where);
    return status_fail(
        STATUS_CONFIG,
        "%s: memory.spill is for workers.device = \"cpu\", and does not go with \"%s\": what does not fit a GPU goes to host "
        "memory by memory.offload",
        where, job_choice_text("workers", "device", job->workers.device));
}

/* What of a device that is chosen, and of a model that is predicted with, is seen when these are known (device_choose). */
static enum status check_kernel(const struct job *job, const struct job_places *places)
{
    char where[JOB_WHERE_BYTES], expect[JOB_EXPECT_BYTES];
    int device = job->workers.device;
    if (job->model.kernel == JOB_KERNEL_OWN) {
        return STATUS_OK;
    }
    job_where(places, JOB_KEY_model_kernel, where);
    if (device != JOB_DEVICE_CUDA && device != JOB_DEVICE_AUTO) {
        return status_fail(STATUS_CONFIG,
                           "%s: model.kernel = \"cusparse\" is for GPUs, and does not go with workers.device = \"%s\"", where,
                           job_choice_text("workers", "device", device));
    }
    if (job_predicts(job) || model_is_sum(job)) {
        return STATUS_OK;
    }
    choices_text(&job_keys[JOB_KEY_model_kind], model_kinds_of_sums(), expect);
    return status_fail(STATUS_CONFIG,
                       "%s: model.kernel = \"cusparse\" is for sums over neighbours: expected model.kind = %s, and no "
                       "model.aggregator = \"max\"",
                       where, expect);
}

enum status job_check_rules(const struct job *job, const struct job_places *places)
{
    if (!name_is_sane(job->job.name)) {
        FAIL_AT(job_name, "name must be fit for a folder: 1 to 200 bytes, no '/', no control characters, no '.' at "
                          "the start");
    }
    remark_unused(job, places);
    enum status status = check_dataset(job, places);
    if (status == STATUS_OK) {
        status = check_partition(job, places);
    }
    if (status == STATUS_OK) {
        status = check_model(job, places);
    }
    if (status == STATUS_OK) {
        status = check_exchange(job, places);
    }
    if (status == STATUS_OK) {
        status = check_device(job, places);
    }
    status = status == STATUS_OK ? check_kernel(job, places) : status;
    status = status == STATUS_OK ? check_regression(job, places) : status;
    status = status == STATUS_OK ? check_loss(job, places) : status;
    status = status == STATUS_OK ? check_plateau(job, places) : status;
    status = status == STATUS_OK ? job_check_metrics(job, places) : status;
    if (status != STATUS_OK) {
        return status;
    }
    if (job->train.patience > 0 && job->train.eval_every == 0) {
        FAIL_AT(train_patience, "train.patience counts evaluations, and train.eval_every = 0 asks for none");
    }
    if (job->workers.launcher == JOB_LAUNCHER_SSH && job->workers.hosts[0] == '\0') {
        FAIL_AT(workers_launcher, "workers.launcher = \"ssh\" needs workers.hosts, a file with a host in each line");
    }
    if (job->workers.listen[0] != '\0' && !address_is_sane(job->workers.listen)) {
        FAIL_AT(workers_listen, "workers.listen must be HOST:PORT with a port from 0 to 65535");
    }
    return STATUS_OK;
}
