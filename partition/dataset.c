/* Loading: the format of a path, and queries of any loaded dataset. */
#include "partition/graph/dataset.h"

#include "partition/files/dataset_path.h"
#include "partition/files/dataset_store.h"
#include "partition/files/mapped.h"
#include "partition/formats/dataset_npy_splits.h"
#include "partition/formats/dataset_unread.h"
#include "partition/graph/class_weights.h"
#include "partition/graph/dataset_build.h"
#include "partition/graph/edge_features.h"
#include "protocol/base/half.h"
#include "protocol/base/log.h"
#include "protocol/base/printable.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

static enum status (*const readers[])(const struct job *, const char *, struct dataset *) = {
    [JOB_FORMAT_NPY] = dataset_npy_load,
    [JOB_FORMAT_OGB] = dataset_ogb_load,
    [JOB_FORMAT_NPZ] = dataset_npz_load,
};

/* The format of `path`; JOB_FORMAT_AUTO: not a known one. */
static enum job_format format_find(const char *path, bool folder)
{
    if (!folder) {
        size_t n = strlen(path);
        return n > 4 && strcmp(path + n - 4, ".npz") == 0 ? JOB_FORMAT_NPZ : JOB_FORMAT_AUTO;
    }
    if (dataset_path_exists(path, "edges.npy") || dataset_path_exists(path, "indptr.npy")) {
        return JOB_FORMAT_NPY;
    }
    if (dataset_path_exists(path, "raw/edge.csv.gz") || dataset_path_exists(path, "raw/data.npz") ||
        dataset_path_exists(path, "raw/triplet-type-list.csv.gz")) {
        return JOB_FORMAT_OGB;
    }
    return JOB_FORMAT_AUTO;
}

/* The last part of a path, without a file's extension, as it may stand in a line or in JSON. */
static void name_of(const char *path, char *out, size_t room)
{
    char name[JOB_TEXT_BYTES];
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') {
        end--;
    }
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') {
        begin--;
    }
    snprintf(name, sizeof name, "%.*s", (int)(end - begin), path + begin);
    size_t n = strlen(name);
    if (n > 4 && strcmp(name + n - 4, ".npz") == 0) {
        name[n - 4] = '\0';
    }
    printable_copy(name, out, room);
}

/* The format at dataset.path, if the job leaves it open. */
static enum status format_of(const char *path, enum job_format *format_io)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        enum status code = errno == ENOENT || errno == ENOTDIR ? STATUS_NO_INPUT : STATUS_IO;
        return status_fail(code, "dataset.path: %s: %s", path, strerror(errno));
    }
    if (*format_io == JOB_FORMAT_AUTO) {
        *format_io = format_find(path, S_ISDIR(info.st_mode));
    }
    if (*format_io != JOB_FORMAT_AUTO) {
        return STATUS_OK;
    }
    char like[DATASET_UNREAD_BYTES];
    dataset_unread_like(path, like);
    return status_fail(
        STATUS_DATA,
        "dataset.path: %s: no known format, expected a folder with edges.npy or indptr.npy "
        "(npy), with raw/edge.csv.gz, raw/triplet-type-list.csv.gz or raw/data.npz (ogb), or a .npz file%s%s",
        path, like[0] != '\0' ? "; found " : "", like);
}

enum status dataset_count_splits(const char *path, int64_t *out)
{
    enum job_format format = JOB_FORMAT_AUTO;
    enum status status = format_of(path, &format);
    *out = 1;
    return status == STATUS_OK && format == JOB_FORMAT_NPY ? dataset_npy_splits_count(path, out) : status;
}

static enum status folder_load(const struct job *job, struct dataset *out)
{
    const char *path = job->dataset.path;
    enum job_format format = (enum job_format)job->dataset.format;
    if (path[0] == '\0') {
        return status_fail(STATUS_CONFIG, "dataset.path is empty, expected a dataset folder or a generator");
    }
    enum status status = format_of(path, &format);
    if (status != STATUS_OK) {
        return status;
    }
    if (job->dataset.split > 0 && format != JOB_FORMAT_NPY) {
        return status_fail(STATUS_CONFIG,
                           "dataset.split = %lld: '%s' has one split, expected 0; format npy may have several",
                           (long long)job->dataset.split, path);
    }
    if (out->regression && format != JOB_FORMAT_NPY) {
        return status_fail(STATUS_CONFIG,
                           "train.loss = \"%s\" needs numbers as labels, and '%s' has classes: "
                           "expected an npy folder",
                           job_choice_text("train", "loss", job->train.loss), path);
    }
    name_of(path, out->name, sizeof out->name);
    out->labels.splits.n = 1;
    status = readers[format](job, path, out);
    if (status == STATUS_OK && job->dataset.edge_features == JOB_SWITCH_YES && out->facts.n_edge_feature == 0) {
        status = status_fail(
            STATUS_NO_INPUT,
            "%s: no features of edges, expected some for dataset.edge_features = \"yes\": edge_attr.npy (npy), "
            "raw/edge-feat.csv.gz or \"edge_feat\" in raw/data.npz (ogb)",
            path);
    }
    return status;
}

/* A generator makes labels and splits with the graph. */
static void labels_drop(struct dataset *dataset)
{
    dataset->labels.classes = NULL;
    dataset->labels.rows = NULL;
    dataset->facts.multi_label = false;
    dataset->labels.split = NULL;
    memset(dataset->labels.n_split, 0, sizeof dataset->labels.n_split);
    dataset->labels.loss_weight = 0.0;
    dataset->labels.splits = (struct dataset_splits){.n = 1};
}

enum status dataset_load(const struct job *job, struct dataset *out)
{
    struct dataset dataset = {.store = dataset_store_open(),
                              .predicts = job_predicts(job),
                              .regression = job_regresses(job),
                              .of_links = job_predicts_links(job)};
    bool generates = job->dataset.generator != JOB_GENERATOR_NONE;
    enum status status = STATUS_OK;
    if (generates && dataset.regression) { /* a prediction's model may need numbers */
        status = status_fail(
            STATUS_CONFIG,
            "dataset.generator makes classes, and train.loss = \"%s\" needs numbers as labels: expected "
            "dataset.path, an npy folder",
            job_choice_text("train", "loss", job->train.loss));
    }
    if (status == STATUS_OK) {
        status = (generates ? generator_build : folder_load)(job, &dataset);
    }
    if (status == STATUS_OK) {
        status = edge_features_check_alone(job, &dataset);
    }
    if (status == STATUS_OK && dataset.of_links) {
        labels_drop(&dataset);
        dataset.links.n_relation = job_scores_relations(job) ? dataset.facts.n_relation_given : 0;
        dataset.links.is_directed = decoder_text(job) != NULL;
        status = dataset.predicts ? dataset_split_finish(&dataset) : links_hold_out(job, &dataset);
    }
    if (status == STATUS_OK && job_makes_features(job)) {
        status = dataset_features_make(job, &dataset);
    }
    if (status == STATUS_OK) {
        status = class_weights_build(job, &dataset);
    }
    status = mapped_check(status);
    if (status != STATUS_OK) {
        dataset_store_close(dataset.store);
        return status;
    }
    *out = dataset;
    return STATUS_OK;
}

void dataset_release(struct dataset *dataset)
{
    dataset_store_close(dataset->store);
    *dataset = (struct dataset){0};
}

static void row_copy(const struct dataset *dataset, int64_t node, float *out)
{
    int64_t n = dataset->facts.n_feature;
    if (dataset->features.f32 != NULL) {
        memcpy(out, dataset->features.f32 + node * n, (size_t)n * sizeof *out);
    } else if (dataset->features.f16 != NULL) {
        for (int64_t c = 0; c < n; c++) {
            out[c] = half_to_float(dataset->features.f16[node * n + c]);
        }
    } else {
        memset(out, 0, (size_t)n * sizeof *out);
        for (int64_t i = dataset->features.indptr[node]; i < dataset->features.indptr[node + 1]; i++) {
            out[dataset->features.indices[i]] = dataset->features.data[i];
        }
    }
}

void dataset_feature_rows(const struct dataset *dataset, const uint32_t *node, int64_t n_row, float *out)
{
    if (dataset->facts.n_feature == 0) {
        return;
    }
    for (int64_t row = 0; row < n_row; row++) {
        row_copy(dataset, node[row], out + row * dataset->facts.n_feature);
    }
}

bool dataset_is_embedded(const struct dataset *dataset, int64_t node)
{
    int64_t first = dataset->features.indptr[node];
    return dataset->features.embedded.n_run > 0 && dataset->features.indptr[node + 1] > first &&
           embedded_has(&dataset->features.embedded, dataset->features.indices[first]);
}

void dataset_fingerprint(const struct dataset *dataset, bool values, char out[33])
{
    XXH3_state_t *state = XXH3_createState();
    ASSERT(state != NULL);
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, &dataset->n_node, sizeof dataset->n_node);
    XXH3_128bits_update(state, dataset->indptr, (size_t)(dataset->n_node + 1) * sizeof *dataset->indptr);
    XXH3_128bits_update(state, dataset->indices, (size_t)dataset->n_edge * sizeof *dataset->indices);
    if (dataset->edge_type != NULL) {
        XXH3_128bits_update(state, &dataset->facts.n_relation, sizeof dataset->facts.n_relation);
        XXH3_128bits_update(state, dataset->edge_type, (size_t)dataset->n_edge * sizeof *dataset->edge_type);
    }
    if (values && dataset->facts.weighted) {
        XXH3_128bits_update(state, dataset->edge_weight, (size_t)dataset->n_edge * sizeof *dataset->edge_weight);
    }
    for (int64_t i = 0; values && dataset->edges.row != NULL && i < dataset->n_edge; i++) {
        const float *row = dataset_edge_features(dataset, dataset->edges.row[i]);
        XXH3_128bits_update(state, row, (size_t)dataset->facts.n_edge_feature * sizeof *row);
    }
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}
