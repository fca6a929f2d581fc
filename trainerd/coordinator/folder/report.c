#include "trainerd/coordinator/folder/report.h"

#include "protocol/base/log.h"
#include "protocol/files/file.h"
#include "protocol/job/job_keys.h"
#include "trainerd/coordinator/folder/result_files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

void report_named(json_t *all, const char *split, int metric, double value)
{
    char key[64];
    snprintf(key, sizeof key, "%s_%s", split, score_name(metric));
    json_object_set_new(all, key, number_json(value));
}

void report_score(json_t *all, const struct job *job, const struct job_choices *metrics,
                  const struct checkpoint_score *score)
{
    json_object_set_new(all, "loss", number_json(score->loss));
    json_object_set_new(all, "valid_loss", number_json(score->valid_loss));
    json_object_set_new(all, "train_metric", number_json(score->of[0].train));
    json_object_set_new(all, "valid_metric", number_json(score->of[0].valid));
    json_object_set_new(all, "test_metric", number_json(score->of[0].test));
    for (int i = 0; i < metrics->n && job->train.metrics.n > 0; i++) {
        report_named(all, "train", metrics->of[i], score->of[i].train);
        report_named(all, "valid", metrics->of[i], score->of[i].valid);
        report_named(all, "test", metrics->of[i], score->of[i].test);
    }
}

static json_t *choices_value(const struct job_key *key, const struct job_choices *choices)
{
    json_t *all = json_array();
    for (int i = 0; i < choices->n; i++) {
        json_array_append_new(all, json_string(key->choice[choices->of[i]]));
    }
    return all;
}

static json_t *key_value(const struct job *job, const struct job_key *key)
{
    const void *at = (const char *)job + key->offset;
    switch (key->type) {
    case JOB_TYPE_TEXT:
        return json_string(job_key_text(job, key));
    case JOB_TYPE_INT_OR:
        if (job_word(key, *(const int64_t *)at) != NULL) {
            return json_string(job_word(key, *(const int64_t *)at));
        }
        /* fallthrough */
    case JOB_TYPE_INT:
    case JOB_TYPE_SIZE:
        return json_integer(*(const int64_t *)at);
    case JOB_TYPE_REAL:
        return json_real(*(const double *)at);
    case JOB_TYPE_BOOL:
        return json_boolean(*(const bool *)at);
    case JOB_TYPE_CHOICE:
        return json_string(key->choice[*(const int *)at]);
    case JOB_TYPE_CHOICES:
        return choices_value(key, at);
    }
    return NULL;
}

/* Arguments of the job's program. */
static json_t *args_value(const struct vertex_args *args)
{
    json_t *all = json_object();
    for (int i = 0; i < args->n; i++) {
        const struct vertex_arg *arg = &args->of[i];
        json_object_set_new(all, arg->name,
                            arg->kind == VERTEX_ARG_TEXT   ? json_string(arg->text)
                            : arg->kind == VERTEX_ARG_BOOL ? json_boolean(arg->number != 0.0)
                                                           : json_real(arg->number));
    }
    return all;
}

static json_t *names_value(const struct job_names *names)
{
    json_t *all = json_object();
    for (int i = 0; i < names->n; i++) {
        json_object_set_new(all, names->of[i].ours, json_string(names->of[i].theirs));
    }
    return all;
}

json_t *report_job(const struct job *job)
{
    json_t *all = json_object();
    for (int i = 0; i < JOB_KEY_N; i++) {
        const struct job_key *key = &job_keys[i];
        json_t *value = key_value(job, key);
        if (value == NULL) {
            continue;
        }
        if (strcmp(key->section, JOB_TOP_SECTION) == 0) {
            json_object_set_new(all, key->name, value);
            continue;
        }
        if (json_object_get(all, key->section) == NULL) {
            json_object_set_new(all, key->section, json_object());
        }
        json_object_set_new(json_object_get(all, key->section), key->name, value);
    }
    if (job->model.kind == JOB_KIND_PROGRAM) {
        json_object_set_new(json_object_get(all, "model"), "args", args_value(&job->program.args));
    }
    if (job->names.n > 0) {
        json_object_set_new(json_object_get(all, "model"), "names", names_value(&job->names));
    }
    return all;
}

static const char *const origins[] = {
    [DATASET_ORIGIN_NONE] = "none", [DATASET_ORIGIN_GIVEN] = "given", [DATASET_ORIGIN_DRAWN] = "drawn"};

/* What a field of another origin would be is null. */
static json_t *split_json(const struct dataset *dataset)
{
    const struct dataset_splits *splits = &dataset->labels.splits;
    bool given = splits->origin == DATASET_ORIGIN_GIVEN, drawn = splits->origin == DATASET_ORIGIN_DRAWN;
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "origin", origins[splits->origin], "index",
                     given ? json_integer(splits->index) : json_null(), "of",
                     given ? json_integer(splits->n) : json_null(), "seed",
                     drawn ? json_integer(splits->seed) : json_null(), "how",
                     drawn ? json_string(splits->how) : json_null());
}

const char *report_outputs(const struct dataset *dataset)
{
    return dataset->regression          ? "outputs"
           : dataset->of_links          ? "output columns"
           : dataset->facts.multi_label ? "labels"
                                        : "classes";
}

json_t *report_dataset(const struct dataset *dataset)
{
    bool numbers = dataset->regression || dataset->of_links;
    json_t *all = json_pack("{s:s, s:I, s:I, s:I, s:i, s:b, s:b, s:b, s:I, s:i, s:I, s:I, s:I, s:I, s:I}", "name",
                            dataset->name, "nodes", (json_int_t)dataset->n_node, "edges", (json_int_t)dataset->n_edge,
                            "features", (json_int_t)dataset->facts.n_feature, numbers ? "outputs" : "classes",
                            (int)dataset->facts.n_class, "multi_label", (int)(dataset->facts.multi_label && !numbers),
                            "symmetric", (int)dataset->facts.symmetric, "edge_weights", (int)dataset->facts.weighted,
                            "edge_features", (json_int_t)dataset->facts.n_edge_feature, "relations",
                            (int)dataset->facts.n_relation, "duplicate_edges", (json_int_t)dataset->n_duplicate,
                            "train_nodes", (json_int_t)dataset->labels.n_split[DATASET_SPLIT_TRAIN], "valid_nodes",
                            (json_int_t)dataset->labels.n_split[DATASET_SPLIT_VALID], "test_nodes",
                            (json_int_t)dataset->labels.n_split[DATASET_SPLIT_TEST], "other_nodes",
                            (json_int_t)dataset->labels.n_split[DATASET_SPLIT_NONE]);
    json_object_set_new(all, "split", split_json(dataset));
    if (dataset->of_links) {
        json_object_set_new(all, "valid_edges", json_integer(dataset_n_in_split(dataset, DATASET_SPLIT_VALID)));
        json_object_set_new(all, "test_edges", json_integer(dataset_n_in_split(dataset, DATASET_SPLIT_TEST)));
        json_object_set_new(all, "held_out", json_string(dataset->links.how));
    }
    return all;
}

struct report_splits report_splits(const struct dataset *dataset)
{
    const struct dataset_splits *splits = &dataset->labels.splits;
    const int64_t *n = dataset->labels.n_split;
    char origin[192] = "no split";
    struct report_splits out = {"no edge is held out of a prediction"};
    if (dataset->of_links && dataset->links.how[0] == '\0') {
        return out;
    }
    if (dataset->of_links) {
        snprintf(out.text, sizeof out.text,
                 "held out: %" PRId64 " edges for validation and %" PRId64 " for the test (%s)",
                 dataset_n_in_split(dataset, DATASET_SPLIT_VALID), dataset_n_in_split(dataset, DATASET_SPLIT_TEST),
                 dataset->links.how);
        return out;
    }
    if (splits->origin == DATASET_ORIGIN_GIVEN && splits->n > 1) {
        snprintf(origin, sizeof origin, "split %" PRId64 " of %" PRId64 " given with the data, counted from 0",
                 splits->index, splits->n);
    } else if (splits->origin == DATASET_ORIGIN_GIVEN) {
        snprintf(origin, sizeof origin, "split given with the data");
    } else if (splits->origin == DATASET_ORIGIN_DRAWN) {
        snprintf(origin, sizeof origin, "split drawn with dataset.seed = %" PRId64 ", %s", splits->seed, splits->how);
    }
    snprintf(out.text, sizeof out.text,
             "%s: %" PRId64 " train, %" PRId64 " valid, %" PRId64 " test, %" PRId64 " in no split", origin,
             n[DATASET_SPLIT_TRAIN], n[DATASET_SPLIT_VALID], n[DATASET_SPLIT_TEST], n[DATASET_SPLIT_NONE]);
    return out;
}

json_t *report_partition(const struct job *job, const struct partition_quality *quality)
{
    json_t *all = json_pack("{s:i, s:s, s:I, s:I}", "parts", (int)job->partition.parts, "method",
                            job_choice_text("partition", "method", job->partition.method), "cut_edges",
                            (json_int_t)quality->n_cut, "halo_rows", (json_int_t)quality->n_halo);
    json_object_set_new(all, "halo_ratio", number_json(quality->halo_ratio));
    json_object_set_new(all, "imbalance_nodes", number_json(quality->imbalance_node));
    json_object_set_new(all, "imbalance_edges", number_json(quality->imbalance_edge));
    json_object_set_new(all, "imbalance_halo", number_json(quality->imbalance_halo));
    return all;
}

static json_t *share(int64_t part, int64_t of)
{
    return of > 0 ? json_real((double)part / (double)of) : json_null();
}

json_t *report_confusion(const struct score_confusion *confusion)
{
    int32_t n = confusion->n_class;
    if (confusion->n_row == 0) {
        return json_null();
    }
    json_t *support = json_array(), *predicted = json_array(), *precision = json_array(), *recall = json_array(),
           *matrix = n <= REPORT_MATRIX_CLASSES ? json_array() : json_null();
    for (int32_t k = 0; k < n; k++) {
        const int64_t *row = confusion->count + k * (int64_t)n;
        int64_t n_label = 0, n_predicted = 0;
        json_t *counts = json_array();
        for (int32_t other = 0; other < n; other++) {
            n_label += row[other];
            n_predicted += confusion->count[other * (int64_t)n + k];
            json_array_append_new(counts, json_integer(row[other]));
        }
        json_array_append_new(support, json_integer(n_label));
        json_array_append_new(predicted, json_integer(n_predicted));
        json_array_append_new(precision, share(row[k], n_predicted));
        json_array_append_new(recall, share(row[k], n_label));
        json_array_append(matrix, counts); /* does nothing where the matrix is null */
        json_decref(counts);
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "split", "test", "support", support, "predicted", predicted,
                     "precision", precision, "recall", recall, "matrix", matrix);
}

json_t *report_memory(const int64_t bytes[MEMORY_N])
{
    json_t *all = json_object();
    for (int i = 0; i < MEMORY_N; i++) {
        if (i != MEMORY_CONTEXT || bytes[i] > 0) {
            json_object_set_new(all, memory_category_name((enum memory_category)i), json_integer(bytes[i]));
        }
    }
    json_object_set_new(all, "all", json_integer(memory_sum(bytes)));
    return all;
}

static enum status hash_file(const struct dir *dir, const char *name, json_t **out)
{
    int file;
    char bytes[1 << 16], digits[17];
    json_int_t n_bytes = 0;
    ssize_t n;
    enum status status = dir_file_open(dir, name, &file);
    if (status != STATUS_OK) {
        return status;
    }
    XXH3_state_t *state = XXH3_createState();
    ASSERT(state != NULL);
    XXH3_64bits_reset(state);
    while ((n = file_read_at(file, bytes, sizeof bytes, n_bytes)) > 0) {
        XXH3_64bits_update(state, bytes, (size_t)n);
        n_bytes += n;
    }
    if (n < 0) {
        status = status_fail(STATUS_IO, "cannot read '%s/%s': %s", dir->path, name, strerror(errno));
    }
    snprintf(digits, sizeof digits, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(state));
    *out = status == STATUS_OK ? json_pack("{s:I, s:s}", "bytes", n_bytes, "xxh3_64", digits) : NULL;
    XXH3_freeState(state);
    close(file);
    return status;
}

enum status report_files(const struct dir *dir, json_t **out)
{
    struct result_files files = {0};
    enum status status = result_files_list(dir->file, &files);
    json_t *all = json_object();
    for (int i = 0; i < files.n && status == STATUS_OK; i++) {
        json_t *one = NULL;
        if (strchr(files.path[i], '/') == NULL && strcmp(files.path[i], "result.json") != 0) {
            status = hash_file(dir, files.path[i], &one);
            json_object_set_new(all, files.path[i], one); /* NULL, after a failure, is not set */
        }
    }
    result_files_release(&files);
    if (status != STATUS_OK) {
        json_decref(all);
        return status;
    }
    *out = all;
    return STATUS_OK;
}
