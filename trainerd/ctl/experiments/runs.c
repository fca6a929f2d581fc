#include "trainerd/ctl/experiments/runs.h"

#include "protocol/base/log.h"
#include "protocol/base/memory.h"
#include "trainerd/ctl/base/run.h"
#include "trainerd/ctl/base/text.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void runs_release(struct runs *runs)
{
    for (size_t i = 0; i < runs->n; i++) {
        free(runs->run[i].name);
        free(runs->run[i].folder);
        free(runs->run[i].settings);
    }
    free(runs->run);
    *runs = (struct runs){0};
}

/* One more run; it is the runs' at once. */
static struct run *add(struct runs *runs, const char *name, const char *folder, const char *state)
{
    runs->run = memory_list_grow(runs->run, (int32_t)runs->n, sizeof *runs->run);
    struct run *run = &runs->run[runs->n++];
    *run = (struct run){.name = strdup(name),
                        .folder = strdup(folder),
                        .settings = memory_alloc(1, sizeof *run->settings),
                        .metric = JOB_METRIC_AUTO,
                        .valid = NAN,
                        .test = NAN,
                        .loss = NAN,
                        .best_epoch = NAN,
                        .n_epoch = NAN,
                        .seconds = NAN,
                        .n_node = NAN,
                        .n_class = NAN};
    ASSERT(run->name != NULL && run->folder != NULL);
    snprintf(run->state, sizeof run->state, "%s", state);
    return run;
}

/* --- results --- */

static enum status find_metric(const char *name, enum job_metric *out)
{
    return job_metric_find(name, out)
               ? STATUS_OK
               : status_fail(STATUS_DATA, "its metric is '%.40s', which this version of trainctl does not know",
                             name);
}

/* result: result.json, of a training or a prediction */
static enum status read_result(struct run *run, const json_t *result)
{
    const json_t *best = json_object_get(result, "best"), *metrics = json_object_get(result, "metrics");
    const json_t *dataset = json_object_get(result, "dataset");
    enum status status = find_metric(field_text(result, "metric"), &run->metric);
    if (json_is_object(metrics)) {
        run->valid = field_number(metrics, "valid");
        run->test = field_number(metrics, "test");
    } else {
        run->valid = field_number(best, "valid_metric");
        run->test = field_number(best, "test_metric");
        run->loss = field_number(best, "loss");
        run->best_epoch = field_number(best, "epoch") + 1;
        run->n_epoch = field_number(result, "epochs");
    }
    run->seconds = field_number(json_object_get(result, "seconds"), "total");
    run->n_node = field_number(dataset, "nodes");
    run->n_class = field_number(dataset, "classes");
    snprintf(run->fingerprint, sizeof run->fingerprint, "%s", field_text(dataset, "fingerprint"));
    return status;
}

/* --- folders --- */

bool runs_is_folder(const char *name)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/result.json", name) < PATH_MAX && access(path, F_OK) == 0;
}

enum status runs_add_folder(struct runs *runs, const char *folder)
{
    char path[PATH_MAX];
    json_error_t error;
    snprintf(path, sizeof path, "%s/result.json", folder);
    if (access(path, R_OK) != 0) {
        return status_fail(STATUS_NO_INPUT, "cannot open '%s': %s", path, strerror(errno));
    }
    json_t *result = json_load_file(path, 0, &error);
    if (result == NULL) {
        return status_fail(STATUS_DATA, "'%s' is no JSON: line %d: %s", path, error.line, error.text);
    }
    char *whole = realpath(folder, NULL);
    struct run *run = add(runs, field_text(result, "name"), whole != NULL ? whole : folder,
                          field_text(result, "state"));
    free(whole);
    const char *text = field_text(result, "job_text");
    enum status status = text[0] != '\0'
                             ? job_load_text(text, strlen(text), path, NULL, 0, run->settings)
                             : status_fail(STATUS_DATA, "'%s' has no job_text, expected that of a run's results",
                                           path);
    if (status == STATUS_OK && read_result(run, result) != STATUS_OK) {
        status = status_fail(STATUS_DATA, "'%s': %s", path, status_reason());
    }
    json_decref(result);
    return status;
}

/* --- the daemon --- */

static enum status read_settings(const json_t *answer, struct job *out)
{
    const char *config = field_text(answer, "config");
    const json_t *set = json_object_get(answer, "set");
    size_t n = json_array_size(set);
    const char **settings = memory_alloc(n + 1, sizeof *settings);
    for (size_t i = 0; i < n; i++) {
        settings[i] = json_string_value(json_array_get(set, i));
        settings[i] = settings[i] != NULL ? settings[i] : "";
    }
    enum status status = job_load_text(config, strlen(config), "its job file", settings, n, out);
    free(settings);
    return status;
}

static enum status add_job(struct runs *runs, struct client *client, int64_t id)
{
    json_t *answer = NULL;
    enum status status = client_ask(client, json_pack("{s:s, s:I}", "cmd", "show", "job", (json_int_t)id), &answer);
    if (status != STATUS_OK) {
        return status;
    }
    const json_t *job = json_object_get(answer, "job"), *result = json_object_get(answer, "result");
    struct run *run = add(runs, field_text(job, "name"), field_text(answer, "output"), field_text(job, "state"));
    run->job = id;
    status = read_settings(answer, run->settings);
    if (run->settings->workers.device == JOB_DEVICE_AUTO) { /* under the daemon (D45), and what result.json says */
        run->settings->workers.device = JOB_DEVICE_CPU;
    }
    if (status == STATUS_OK && json_is_object(result) && strcmp(run->state, "SUCCEEDED") == 0) {
        status = read_result(run, result);
    }
    if (status != STATUS_OK) {
        status = status_fail(status, "job %lld: %s", (long long)id, status_reason());
    }
    json_decref(answer);
    return status;
}

/* The jobs of a group, the oldest first. */
static enum status add_group(struct runs *runs, struct client *client, const char *group)
{
    json_t *answer = NULL, *name = json_string(group);
    enum status status = client_pages(
        client, json_pack("{s:s, s:o}", "cmd", "status", "group", name != NULL ? name : json_string("")), "jobs",
        "before", 0, &answer);
    const json_t *jobs = json_object_get(answer, "jobs");
    for (size_t i = json_array_size(jobs); i > 0 && status == STATUS_OK; i--) {
        status = add_job(runs, client, field_integer(json_array_get(jobs, i - 1), "id"));
    }
    json_decref(answer);
    return status;
}

enum status runs_add_named(struct runs *runs, struct client *client, const char *name)
{
    size_t n_before = runs->n;
    enum status status = add_group(runs, client, name);
    if (status != STATUS_OK || runs->n > n_before) {
        return status;
    }
    json_t *answer = NULL;
    status = client_ask(client, ctl_job_request("status", name), &answer);
    if (status == STATUS_NO_INPUT) {
        status = status_fail(
            status, "there is no group and no job '%.64s', and no folder of that name with result.json", name);
    }
    if (status == STATUS_OK) {
        status = add_job(runs, client, field_integer(json_array_get(json_object_get(answer, "jobs"), 0), "id"));
    }
    json_decref(answer);
    return status;
}

/* --- data --- */

/* Not known is no difference. */
static bool differ(double a, double b)
{
    return isfinite(a) && isfinite(b) && a != b;
}

bool run_shares_data(const struct run *run, const struct run *other)
{
    /* Which graph is made or read, but for seeds. */
    static const enum job_key_id keys[] = {
        JOB_KEY_dataset_generator, JOB_KEY_dataset_nodes,           JOB_KEY_dataset_degree,
        JOB_KEY_dataset_classes,   JOB_KEY_dataset_features,        JOB_KEY_dataset_homophily,
        JOB_KEY_dataset_noise,     JOB_KEY_dataset_labels_per_node, JOB_KEY_dataset_train_share};
    bool is_same = !differ(run->n_node, other->n_node) && !differ(run->n_class, other->n_class);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && is_same; i++) {
        char *value = run_value(run, keys[i]), *theirs = run_value(other, keys[i]);
        is_same = strcmp(value, theirs) == 0;
        free(value);
        free(theirs);
    }
    bool is_content = run->fingerprint[0] != '\0' && strcmp(run->fingerprint, other->fingerprint) == 0;
    return is_same && (is_content || strcmp(run->settings->dataset.path, other->settings->dataset.path) == 0);
}

/* --- settings --- */

/* "1a2b3c4d heads = 4.0": the beginning of the text's SHA-256, and of a model's [model.args]. */
static char *program_value(const struct job *job, enum job_key_id key)
{
    const char *program = job_key_text(job, &job_keys[key]);
    char *text = NULL;
    size_t n;
    FILE *file = open_memstream(&text, &n);
    ASSERT(file != NULL);
    unsigned char hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256(hash, (const unsigned char *)program, strlen(program));
    fprintf(file, "%02x%02x%02x%02x\n", hash[0], hash[1], hash[2], hash[3]);
    if (key == JOB_KEY_model_program) {
        job_print_args(file, job);
    }
    fclose(file);
    for (char *c = text; *c != '\0'; c++) {
        *c = *c != '\n' ? *c : c[1] != '\0' ? ' ' : '\0';
    }
    return text;
}

char *run_value(const struct run *run, enum job_key_id key)
{
    const struct job_key *row = &job_keys[key];
    const void *at = (const char *)run->settings + row->offset;
    char *text = NULL;
    size_t n;
    const bool is_own = key == JOB_KEY_task_decoder && run->settings->decoder[0] != '\0';
    const bool applies = job_key_applies(run->settings, key);
    if (applies && (key == JOB_KEY_model_program || is_own)) {
        return program_value(run->settings, key);
    }
    const char *plain = !applies                       ? ""
                        : row->type == JOB_TYPE_TEXT   ? at
                        : row->type == JOB_TYPE_CHOICE ? row->choice[*(const int *)at]
                        : row->type == JOB_TYPE_INT_OR ? job_word(row, *(const int64_t *)at)
                                                       : NULL;
    if (plain != NULL) {
        return text_format("%s", plain);
    }
    FILE *file = open_memstream(&text, &n);
    ASSERT(file != NULL);
    job_print_value(file, run->settings, row);
    fclose(file);
    return text;
}

json_t *run_value_json(const struct run *run, enum job_key_id key)
{
    const struct job_key *row = &job_keys[key];
    if (!job_key_applies(run->settings, key)) {
        return json_null();
    }
    char *text = run_value(run, key);
    bool is_text = row->type == JOB_TYPE_TEXT || row->type == JOB_TYPE_CHOICE;
    json_t *value = is_text ? json_string(text) : json_loads(text, JSON_DECODE_ANY, NULL);
    free(text);
    return value != NULL ? value : json_null();
}
