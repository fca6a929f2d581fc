/* Rules that see more than one key of a job, or more of a value than its range. Rules on data are the reader's. */
#include "protocol/job/job_rules.h"

#include "protocol/job/codecs.h"
#include "protocol/job/model_kinds.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Does a sentence name a key of a section with mistakes? */
static bool is_doubted(const struct job_places *places, const char *sentence)
{
    for (int i = 0; i < job_n_section; i++) {
        char begin[JOB_LABEL_BYTES];
        snprintf(begin, sizeof begin, "%s.", job_sections[i].name);
        if ((places->doubted >> i & 1) != 0 && strstr(sentence, begin) != NULL) {
            return true;
        }
    }
    return false;
}

void rule_broken(const struct check *check, enum job_key_id key, const char *format, ...)
{
    char where[JOB_WHERE_BYTES], sentence[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    if (!is_doubted(check->places, sentence)) {
        job_where(check->places, key, where);
        mistakes_take(check->mistakes, status_fail(STATUS_CONFIG, "%s: %s", where, sentence));
    }
}

void rules_check(const struct check *check, const struct rule *rules, size_t n_rule)
{
    for (size_t i = 0; i < n_rule; i++) {
        if (rules[i].is_broken) {
            rule_broken(check, rules[i].key, "%s", rules[i].why);
        }
    }
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

static void check_dataset(const struct job *job, const struct check *check)
{
    bool path = job->dataset.path[0] != '\0';
    bool generator = job->dataset.generator != JOB_GENERATOR_NONE;
    char expect[JOB_EXPECT_BYTES];
    if (path && generator) {
        BROKEN(dataset_generator, "dataset.path and dataset.generator are both given; expected one of them");
    }
    if (!path && !generator) {
        BROKEN(dataset_path, "neither dataset.path nor dataset.generator is given; expected one of them");
    }
    if (job->dataset.generator == JOB_GENERATOR_SBM && job->dataset.labels_per_node > job->dataset.classes) {
        BROKEN(dataset_labels_per_node, "dataset.labels_per_node is more than dataset.classes");
    }
    if (job->dataset.edge_weights == JOB_SWITCH_YES && !job_takes_edge_weights(job)) {
        choices_text(&job_keys[JOB_KEY_model_kind], model_kinds_of_sums(), expect);
        BROKEN(dataset_edge_weights,
               "dataset.edge_weights = \"yes\" is for sums of neighbours' rows, each times its edge's weight: "
               "expected model.kind = %s, and no model.aggregator = \"max\"",
               expect);
    }
    if (job->dataset.edge_features == JOB_SWITCH_YES && !model_kind_of(job)->takes_edge_features) {
        choices_text(&job_keys[JOB_KEY_model_kind], model_kinds_with_edge_features(), expect);
        BROKEN(dataset_edge_features,
               "dataset.edge_features = \"yes\" is for attention that reads the features of an edge: expected "
               "model.kind = %s",
               expect);
    }
    if (model_kind_of(job)->needs_types && job->dataset.self_loops == JOB_SWITCH_YES) {
        BROKEN(dataset_self_loops,
               "dataset.self_loops = \"yes\" does not go with model.kind = \"%s\": such a loop has no "
               "relation, and a node's own row has weights of its own",
               job_choice_text("model", "kind", job->model.kind));
    }
}

static void check_partition(const struct job *job, const struct check *check)
{
    if (job->partition.method == JOB_METHOD_FILE && job->partition.file[0] == '\0') {
        BROKEN(partition_method, "partition.method = \"file\" needs partition.file");
    }
    if (job->partition.parts != 0 && job->workers.count > job->partition.parts) {
        BROKEN(workers_count, "workers.count = %lld is more than partition.parts = %lld; each worker needs a part",
               (long long)job->workers.count, (long long)job->partition.parts);
    }
}

static void check_model(const struct job *job, const struct check *check)
{
    const struct job_model *model = &job->model;
    int64_t features = job->dataset.features;
    const struct rule rules[] = {
        {JOB_KEY_model_blocks, model->bases > 0 && model->blocks > 0,
         "model.bases and model.blocks are both given; expected one of them"},
        {JOB_KEY_dataset_features,
         model_kind_of(job)->needs_types && features == JOB_WORD(JOB_FEATURES_ONE_HOT) && model->blocks > 0,
         "dataset.features = \"one_hot\" does not go with model.blocks: a node's own row is not cut into blocks"},
        {JOB_KEY_model_embedding, !model->embedding && model->blocks > 0,
         "model.embedding = false does not go with model.blocks: a node's own row is not cut into blocks"},
        {JOB_KEY_model_embedding, !model->embedding && features == JOB_WORD(JOB_FEATURES_LEARNED),
         "model.embedding = false does not go with dataset.features = \"learned\": expected \"one_hot\""},
        {JOB_KEY_model_linear_layers, model->linear_layers >= model->layers,
         "model.linear_layers must be less than model.layers"},
    };
    rules_check(check, rules, sizeof rules / sizeof *rules);
}

/* Keys that cannot be combined with exchange.stale. */
static void check_stale(const struct job *job, const struct check *check)
{
    const struct rule rules[] = {
        {JOB_KEY_exchange_stale, job->exchange.sampling < 1.0,
         "exchange.stale = 1 does not go with exchange.sampling < 1: the rows of the epoch before are those of "
         "another sample"},
        {JOB_KEY_exchange_stale, job->exchange.plain,
         "exchange.stale = 1 does not go with exchange.plain, which is for comparisons of exact exchanges"},
        {JOB_KEY_exchange_stale, job->memory.spill[0] != '\0',
         "exchange.stale = 1 does not go with memory.spill: the rows of the epoch before lie in memory"},
        {JOB_KEY_exchange_stale, job->model.kind == JOB_KIND_SAGE && job->model.aggregator == JOB_AGGREGATOR_MAX,
         "exchange.stale = 1 does not go with model.aggregator = \"max\": gradients of the epoch before belong to "
         "the places of other maxima"},
    };
    rules_check(check, rules, job->exchange.stale != 0 ? sizeof rules / sizeof *rules : 0);
}

static bool check_codecs(enum job_key_id key, const char *text, const struct check *check)
{
    char label[JOB_LABEL_BYTES];
    struct job_codecs codecs;
    if (job_codecs_read(text, key == JOB_KEY_exchange_codec_backward, &codecs) == STATUS_OK) {
        return true;
    }
    job_key_label(&job_keys[key], label);
    rule_broken(check, key, "%s %s", label, status_reason());
    return false;
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

static void check_guard(const struct job *job, const struct check *check)
{
    if (job->exchange.guard_every > 0 && job->exchange.sampling >= 1.0 && !codes(job) && job->exchange.stale == 0) {
        BROKEN(exchange_guard_every,
               "exchange.guard_every compares gradients, and nothing of this job approximates them; "
               "expected exchange.sampling below 1, an exchange.codec other than fp32, or exchange.stale = 1");
    }
}

/* The rounding error is added to the next epoch's row: rows must be rounded, and used in their own epoch. */
static void check_feedback(const struct job *job, const struct check *check)
{
    const struct rule rules[] = {
        {JOB_KEY_exchange_error_feedback, job->exchange.stale != 0,
         "exchange.error_feedback does not go with exchange.stale = 1: a row is used an epoch after it is "
         "rounded, and so would be what makes up for its error"},
        {JOB_KEY_exchange_error_feedback, !codes(job),
         "exchange.error_feedback keeps what rounding loses, and nothing of this job is "
         "rounded; expected an exchange.codec other than fp32"},
    };
    rules_check(check, rules, job->exchange.error_feedback ? sizeof rules / sizeof *rules : 0);
}

static void check_exchange(const struct job *job, const struct check *check)
{
    const struct job_exchange *exchange = &job->exchange;
    bool known = check_codecs(JOB_KEY_exchange_codec, exchange->codec, check);
    if (strcmp(exchange->codec_backward, "same") != 0) {
        known = check_codecs(JOB_KEY_exchange_codec_backward, exchange->codec_backward, check) && known;
    }
    if (known) {
        check_guard(job, check);
        check_feedback(job, check);
    }
    check_stale(job, check);
}

static _Thread_local char remarks[4096];

const char *job_remarks(void)
{
    return remarks;
}

bool job_is_given(const struct job_places *places, enum job_key_id key)
{
    return places->of[key].set || places->of[key].line > 0;
}

/* Add "place: key is not used: why"; remarks beyond the buffer are left out. */
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

/* Keys without effect beside another key's value that is not a choice. */
static void remark_values(const struct job *job, const struct job_places *places)
{
    const struct job_exchange *exchange = &job->exchange;
    const struct {
        enum job_key_id key;
        bool is_unused;
        const char *why;
    } rows[] = {
        {JOB_KEY_exchange_cover, exchange->cover && exchange->plain, "exchange.plain is true"},
        {JOB_KEY_exchange_cover, exchange->cover && job->model.kernel == JOB_KERNEL_CUSPARSE,
         "model.kernel is \"cusparse\""},
        {JOB_KEY_exchange_cover, exchange->cover && job->train.precision == JOB_PRECISION_BF16,
         "train.precision is \"bf16\""},
        {JOB_KEY_exchange_store_inputs, exchange->store_inputs && exchange->plain, "exchange.plain is true"},
        {JOB_KEY_exchange_guard_limit, exchange->guard_every == 0, "exchange.guard_every is 0"},
        {JOB_KEY_train_patience_monitor, job->train.patience == 0, "train.patience is 0"},
        {JOB_KEY_train_min_delta, job->train.patience == 0, "train.patience is 0"},
        {JOB_KEY_post_layers, !job->post.label_propagation, "post.label_propagation is false"},
        {JOB_KEY_post_alpha, !job->post.label_propagation, "post.label_propagation is false"},
        {JOB_KEY_post_probabilities_file, !job->post.correct_and_smooth, "post.correct_and_smooth is false"},
        {JOB_KEY_post_correct_layers, !job->post.correct_and_smooth, "post.correct_and_smooth is false"},
        {JOB_KEY_post_correct_alpha, !job->post.correct_and_smooth, "post.correct_and_smooth is false"},
        {JOB_KEY_post_smooth_layers, !job->post.correct_and_smooth, "post.correct_and_smooth is false"},
        {JOB_KEY_post_smooth_alpha, !job->post.correct_and_smooth, "post.correct_and_smooth is false"},
        {JOB_KEY_post_autoscale, !job->post.correct_and_smooth, "post.correct_and_smooth is false"},
        {JOB_KEY_post_scale, !job->post.correct_and_smooth, "post.correct_and_smooth is false"},
        {JOB_KEY_post_scale, job->post.correct_and_smooth && job->post.autoscale, "post.autoscale is true"},
        {JOB_KEY_task_margin, job_predicts_links(job) && job->train.loss != JOB_LOSS_MARGIN,
         "train.loss is not \"margin\""},
        {JOB_KEY_predict_best, job->predict.nodes[0] == '\0', "predict.nodes is empty"},
        {JOB_KEY_predict_relation, job->predict.nodes[0] == '\0', "predict.nodes is empty"},
        {JOB_KEY_predict_known, job->predict.nodes[0] == '\0', "predict.nodes is empty"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].is_unused && job_is_given(places, rows[i].key)) {
            remark(places, rows[i].key, rows[i].why);
        }
    }
}

/* Keys without effect in a prediction, and keys only for predictions. */
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

/* Only arrays of GPUs are offloaded to host memory. */
static void remark_offload(const struct job *job, const struct job_places *places)
{
    bool on_host = job->workers.device == JOB_DEVICE_CPU || job->workers.device == JOB_DEVICE_REFERENCE;
    if (job_is_given(places, JOB_KEY_memory_offload) && (on_host || job->memory.spill[0] != '\0')) {
        remark(places, JOB_KEY_memory_offload,
               on_host ? "workers.device has no memory of its own" : "memory.spill is for workers.device = \"cpu\"");
    }
}

/* A given key without effect beside another. One job file serves several methods or kinds by --set, so this is a
 * remark and no error. */
static void remark_unused(const struct job *job, const struct job_places *places)
{
    remarks[0] = '\0';
    for (int i = 0; i < JOB_KEY_N; i++) {
        enum job_key_id key = (enum job_key_id)i;
        struct job_only only;
        if (!job_is_given(places, key) || job_key_applies(job, key) || !job_only_find(key, &only)) {
            continue;
        }
        const struct job_key *by = &job_keys[only.by];
        if (!decoder_takes(job, key)) {
            remark(places, key, "task.decoder has no such parameter");
            continue;
        }
        char by_label[JOB_LABEL_BYTES], expect[JOB_EXPECT_BYTES], why[2 * JOB_EXPECT_BYTES];
        job_key_label(by, by_label);
        choices_text(by, only.with, expect);
        snprintf(why, sizeof why, "%s is \"%s\", and it goes with %s", by_label,
                 by->choice[*(const int *)((const char *)job + by->offset)], expect);
        remark(places, key, why);
    }
    if (job->program.args.n > 0 && job->model.kind != JOB_KIND_PROGRAM) {
        size_t at = strlen(remarks);
        snprintf(remarks + at, sizeof remarks - at,
                 "model.args is not used: model.kind is \"%s\", and it goes with \"program\"\n",
                 job_keys[JOB_KEY_model_kind].choice[job->model.kind]);
    }
    remark_values(job, places);
    remark_predict(job, places);
    remark_offload(job, places);
}

/* Regression: keys about classes have no meaning. */
static void check_numbers(const struct job *job, const struct check *check)
{
    const struct rule rules[] = {
        {JOB_KEY_train_loss, job->dataset.generator != JOB_GENERATOR_NONE,
         "train.loss = \"mse\", \"mae\" and \"huber\" are for labels that are numbers, and those of a generator are "
         "classes: expected dataset.path, an npy folder"},
        {JOB_KEY_train_loss, job->dataset.format == JOB_FORMAT_OGB || job->dataset.format == JOB_FORMAT_NPZ,
         "train.loss = \"mse\", \"mae\" and \"huber\" are for labels that are numbers, and those of "
         "dataset.format = \"ogb\" and \"npz\" are classes: expected \"npy\""},
        {JOB_KEY_model_label_input, job->model.label_input,
         "model.label_input does not go with train.loss = \"mse\", \"mae\" or \"huber\": it appends a column for "
         "each class"},
        {JOB_KEY_train_class_weights, strcmp(job->train.class_weights, "none") != 0,
         "train.class_weights does not go with train.loss = \"mse\", \"mae\" or \"huber\": numbers have no classes"},
        {JOB_KEY_output_probabilities, job->output.probabilities,
         "output.probabilities does not go with train.loss = \"mse\", \"mae\" or \"huber\": numbers have no classes"},
        {JOB_KEY_train_label_smoothing, job->train.label_smoothing > 0.0,
         "train.label_smoothing does not go with train.loss = \"mse\", \"mae\" or \"huber\": numbers have no "
         "classes"},
    };
    rules_check(check, rules, sizeof rules / sizeof *rules);
}

/* Rules on the loss. */
static void check_loss(const struct job *job, const struct check *check)
{
    const struct job_train *train = &job->train;
    if (train->loss == JOB_LOSS_BCE && train->label_smoothing > 0.0) {
        BROKEN(train_label_smoothing,
               "train.label_smoothing is for train.loss = \"cross_entropy\": of \"bce\" each label is 0 or 1, "
               "and there are no other classes to spread it over");
    }
    if (train->class_weights[0] == '\0') {
        BROKEN(train_class_weights, "train.class_weights is empty; expected \"none\", \"balanced\" or a .npy file");
    }
    if (job_regresses(job)) {
        check_numbers(job, check);
    } else if (job->model.label_input && strcmp(train->class_weights, "none") != 0) {
        BROKEN(train_class_weights, "train.class_weights does not go with model.label_input: which rows the loss is "
                                    "over is drawn in every epoch, "
                                    "and only their number is counted before, not the sum of their weights");
    }
}

static void check_plateau(const struct job *job, const struct check *check)
{
    const struct job_train *train = &job->train;
    if (train->lr_schedule != JOB_LR_SCHEDULE_REDUCE_ON_PLATEAU) {
        return;
    }
    if (train->eval_every == 0) {
        BROKEN(
            train_lr_schedule,
            "train.lr_schedule = \"reduce_on_plateau\" looks at evaluations, and train.eval_every = 0 asks for none");
    }
    if (train->lr_gamma <= 0.0 || train->lr_gamma >= 1.0) {
        BROKEN(train_lr_gamma,
               "train.lr_gamma must be between 0 and 1 for train.lr_schedule = \"reduce_on_plateau\"");
    }
    if (train->lr_min > train->lr) {
        BROKEN(train_lr_min, "train.lr_min is more than train.lr");
    }
}

/* GPUs: arrays cannot be spilled to files, and cuSPARSE makes only some sums; products are a device's. device_choose
 * checks the rules on a device or a loaded model that are known later. */
static void check_device(const struct job *job, const struct check *check)
{
    char expect[JOB_EXPECT_BYTES];
    int device = job->workers.device;
    const char *name = job_choice_text("workers", "device", device);
    if (job->memory.spill[0] != '\0' && device == JOB_DEVICE_CUDA) {
        BROKEN(memory_spill,
               "memory.spill is for workers.device = \"cpu\", and does not go with \"%s\": what does not fit a GPU "
               "goes to host memory by memory.offload",
               name);
    }
    if (device != JOB_DEVICE_AUTO && (job_device_products(device) >> job->train.products & 1) == 0) {
        choices_text(&job_keys[JOB_KEY_train_products], job_device_products(device), expect);
        BROKEN(train_products,
               "train.products = \"%s\" does not go with workers.device = \"%s\": expected train.products = %s",
               job_choice_text("train", "products", job->train.products), name, expect);
    }
    if (job->model.kernel == JOB_KERNEL_OWN) {
        return;
    }
    if (device != JOB_DEVICE_CUDA && device != JOB_DEVICE_AUTO) {
        BROKEN(model_kernel, "model.kernel = \"cusparse\" is for GPUs, and does not go with workers.device = \"%s\"",
               name);
    }
    if (job->train.precision == JOB_PRECISION_BF16) {
        BROKEN(train_precision, "train.precision = \"bf16\" does not go with model.kernel = \"cusparse\"; expected "
                                "\"fp32\", or model.kernel = \"own\"");
    }
    if (!job_predicts(job) && !model_is_sum(job)) {
        choices_text(&job_keys[JOB_KEY_model_kind], model_kinds_of_sums(), expect);
        BROKEN(model_kernel,
               "model.kernel = \"cusparse\" is for sums over neighbours: expected model.kind = %s, and no "
               "model.aggregator = \"max\"",
               expect);
    }
}

void job_check_rules(const struct job *job, const struct job_places *places, struct mistakes *mistakes)
{
    const struct check all = {.places = places, .mistakes = mistakes}, *check = &all;
    if (!name_is_sane(job->job.name)) {
        BROKEN(job_name, "name must be fit for a folder: 1 to 200 bytes, no '/', no control characters, no '.' at "
                         "the start");
    }
    remark_unused(job, places);
    check_dataset(job, check);
    check_partition(job, check);
    check_model(job, check);
    job_check_program(job, check);
    check_exchange(job, check);
    check_device(job, check);
    check_loss(job, check);
    check_plateau(job, check);
    job_check_links(job, check);
    job_check_asked(job, check);
    job_check_post(job, check);
    enum status metrics = job_check_metrics(job, places);
    if (metrics != STATUS_OK && !is_doubted(places, status_reason())) {
        mistakes_take(mistakes, metrics);
    }
    if (job->train.patience > 0 && job->train.eval_every == 0) {
        BROKEN(train_patience, "train.patience counts evaluations, and train.eval_every = 0 asks for none");
    }
    if (job->workers.launcher == JOB_LAUNCHER_SSH && job->workers.hosts[0] == '\0') {
        BROKEN(workers_launcher, "workers.launcher = \"ssh\" needs workers.hosts, a file with a host in each line");
    }
    if (job->workers.listen[0] != '\0' && !address_is_sane(job->workers.listen)) {
        BROKEN(workers_listen, "workers.listen must be HOST:PORT with a port from 0 to 65535");
    }
}
