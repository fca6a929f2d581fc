/* Format npy: a folder of arrays, mapped. The graph comes as an edge list or as in-edges by destination; what is not
 * there (features, valid_idx, test_idx, meta.json) is left out, what is there must fit.
 */
#include "partition/dataset_build.h"
#include "partition/dataset_path.h"
#include "partition/dataset_store.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What meta.json may tell; 0 where it does not. */
struct meta {
    int64_t n_node, n_feature, n_class;
};

/* The graph as it lies in the files: edges [2, E], or indptr and indices with the row the reader stands in. */
struct graph_files {
    struct npy edges;
    struct npy indptr, indices;
    int64_t row;
};

static enum status open_in(const char *folder, const char *name, struct npy *out)
{
    struct dataset_path path = dataset_path_join(folder, name);
    return npy_open(path.text, out);
}

/* A member of meta.json that counts something; other types are free text. */
static enum status meta_count(const json_t *root, const char *path, const char *key, int64_t most, int64_t *out)
{
    const json_t *value = json_object_get(root, key);
    if (!json_is_integer(value)) {
        return STATUS_OK;
    }
    *out = json_integer_value(value);
    if (*out < 0 || *out > most) {
        return status_fail(STATUS_DATA, "%s: \"%s\" is %" PRId64 ", expected 0 to %" PRId64, path, key, *out, most);
    }
    return STATUS_OK;
}

static enum status meta_read(const char *folder, struct dataset *dataset, struct meta *out)
{
    struct dataset_path path = dataset_path_join(folder, "meta.json");
    FILE *file = fopen(path.text, "rb");
    if (file == NULL) {
        return errno == ENOENT ? STATUS_OK
                               : status_fail(STATUS_IO, "%s: cannot open: %s", path.text, strerror(errno));
    }
    json_error_t error;
    json_t *root = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    fclose(file);
    if (!json_is_object(root)) {
        json_decref(root);
        return status_fail(STATUS_DATA, "%s:%d:%d: %s, expected a JSON object", path.text, error.line, error.column,
                           root == NULL ? error.text : "not an object");
    }
    const char *name = json_string_value(json_object_get(root, "name"));
    if (name != NULL) {
        snprintf(dataset->name, sizeof dataset->name, "%s", name);
    }
    enum status status = meta_count(root, path.text, "nodes", (int64_t)UINT32_MAX - 1, &out->n_node);
    if (status == STATUS_OK) {
        status = meta_count(root, path.text, "features", INT32_MAX, &out->n_feature);
    }
    if (status == STATUS_OK) {
        status = meta_count(root, path.text, "classes", INT32_MAX, &out->n_class);
    }
    json_decref(root);
    return status;
}

static enum status edges_read(void *self, int64_t first, int64_t n, int64_t *source, int64_t *destination)
{
    const struct npy *edges = &((struct graph_files *)self)->edges;
    int64_t n_edge = edges->shape[1];
    for (int64_t i = 0; i < n; i++) {
        source[i] = npy_int(edges, first + i);
        destination[i] = npy_int(edges, n_edge + first + i);
    }
    return STATUS_OK;
}

static enum status rows_read(void *self, int64_t first, int64_t n, int64_t *source, int64_t *destination)
{
    struct graph_files *files = self;
    if (first == 0) {
        files->row = 0;
    }
    for (int64_t i = 0; i < n; i++) {
        while (npy_int(&files->indptr, files->row + 1) <= first + i) {
            files->row++;
        }
        source[i] = npy_int(&files->indices, first + i);
        destination[i] = files->row;
    }
    return STATUS_OK;
}

/* Offsets that start at 0, never fall and end at the number of entries: rows_read relies on it. */
static enum status indptr_check(const struct npy *indptr, int64_t n_node, int64_t n_edge)
{
    enum status status = npy_expect(indptr, NPY_KIND_INTEGER, 1, n_node + 1, 0);
    int64_t last = 0;
    for (int64_t row = 0; row <= n_node && status == STATUS_OK; row++) {
        int64_t at = npy_int(indptr, row);
        bool end = row == n_node;
        if (at < last || at > n_edge || (row == 0 && at != 0) || (end && at != n_edge)) {
            status = status_fail(STATUS_DATA, "%s: entry %" PRId64 " is %" PRId64 ", expected %" PRId64 " to %" PRId64,
                                 indptr->name, row, at, end ? n_edge : last, row == 0 ? 0 : n_edge);
        }
        last = at;
    }
    return status;
}

static enum status graph_load(const struct job *job, const char *folder, struct dataset *out)
{
    struct graph_files files = {0};
    struct edge_source source = {.self = &files};
    enum status status;
    if (dataset_path_exists(folder, "edges.npy") || !dataset_path_exists(folder, "indptr.npy")) {
        status = open_in(folder, "edges.npy", &files.edges);
        if (status == STATUS_OK) {
            status = npy_expect(&files.edges, NPY_KIND_INTEGER, 2, 2, -1);
        }
        source.file = files.edges.name;
        source.unit = "column";
        source.n_edge = files.edges.shape[1];
        source.read = edges_read;
    } else {
        status = open_in(folder, "indptr.npy", &files.indptr);
        if (status == STATUS_OK) {
            status = open_in(folder, "indices.npy", &files.indices);
        }
        if (status == STATUS_OK) {
            status = npy_expect(&files.indices, NPY_KIND_INTEGER, 1, -1, 0);
        }
        if (status == STATUS_OK) {
            status = indptr_check(&files.indptr, out->n_node, files.indices.n_value);
        }
        source.file = files.indices.name;
        source.unit = "entry";
        source.n_edge = files.indices.n_value;
        source.read = rows_read;
    }
    if (status == STATUS_OK) {
        status = dataset_graph_build(job, &source, false, out);
    }
    npy_close(&files.edges);
    npy_close(&files.indptr);
    npy_close(&files.indices);
    return status;
}

static enum status sparse_load(const struct job *job, const char *folder, const struct meta *meta, struct dataset *out)
{
    struct npy indptr = {0}, indices = {0}, data = {0};
    enum status status = open_in(folder, "feat_indptr.npy", &indptr);
    if (status == STATUS_OK) {
        status = open_in(folder, "feat_indices.npy", &indices);
    }
    if (status == STATUS_OK) {
        status = open_in(folder, "feat_data.npy", &data);
    }
    if (status == STATUS_OK && meta->n_feature < 1) {
        status = status_fail(STATUS_DATA, "%s/meta.json: has no number \"features\", expected the columns of feat_indices.npy",
                             folder);
    }
    if (status == STATUS_OK) {
        status = dataset_features_sparse(job, &indptr, &indices, &data, meta->n_feature, out);
    }
    npy_close(&indptr);
    npy_close(&indices);
    npy_close(&data);
    return status;
}

static enum status features_load(const struct job *job, const char *folder, const struct meta *meta, struct dataset *out)
{
    if (dataset_path_exists(folder, "features.npy")) {
        struct npy features = {0};
        enum status status = open_in(folder, "features.npy", &features);
        if (status == STATUS_OK && meta->n_feature > 0) {
            status = npy_expect(&features, NPY_KIND_NUMBER, 2, out->n_node, meta->n_feature);
        }
        if (status == STATUS_OK) {
            status = dataset_features_dense(job, &features, out);
        }
        npy_close(&features);
        return status;
    }
    return dataset_path_exists(folder, "feat_indptr.npy") ? sparse_load(job, folder, meta, out) : STATUS_OK;
}

static enum status split_load(const char *folder, const char *name, bool needed, enum dataset_split split,
                              struct dataset *out)
{
    if (!needed && !dataset_path_exists(folder, name)) {
        return STATUS_OK;
    }
    struct npy nodes = {0};
    enum status status = open_in(folder, name, &nodes);
    if (status == STATUS_OK) {
        status = dataset_split_add(&nodes, split, out);
    }
    npy_close(&nodes);
    return status;
}

static enum status typed_refuse(const char *folder)
{
    static const char *const names[] = {"edge_type.npy", "node_type.npy"};
    for (int i = 0; i < 2; i++) {
        if (dataset_path_exists(folder, names[i])) {
            return status_fail(STATUS_CONFIG, "%s: has %s: typed edges are not available yet", folder, names[i]);
        }
    }
    return STATUS_OK;
}

enum status dataset_npy_load(const struct job *job, const char *path, struct dataset *out)
{
    struct meta meta = {0};
    struct npy labels = {0};
    enum status status = typed_refuse(path);
    if (status == STATUS_OK) {
        status = meta_read(path, out, &meta);
    }
    if (status == STATUS_OK) {
        status = open_in(path, "labels.npy", &labels);
    }
    if (status != STATUS_OK) {
        return status;
    }
    out->n_node = labels.rank > 0 ? labels.shape[0] : 0;
    status = dataset_nodes_check(out->n_node, labels.name);
    if (status == STATUS_OK && meta.n_node > 0 && meta.n_node != out->n_node) {
        status = status_fail(STATUS_DATA, "%s: has %" PRId64 " rows, expected %" PRId64 ", the nodes of meta.json",
                             labels.name, out->n_node, meta.n_node);
    }
    if (status == STATUS_OK) {
        status = graph_load(job, path, out);
    }
    if (status == STATUS_OK) {
        status = features_load(job, path, &meta, out);
    }
    if (status == STATUS_OK) {
        status = dataset_labels(&labels, false, meta.n_class, out);
    }
    npy_close(&labels);
    if (status == STATUS_OK) {
        status = split_load(path, "train_idx.npy", true, DATASET_SPLIT_TRAIN, out);
    }
    if (status == STATUS_OK) {
        status = split_load(path, "valid_idx.npy", false, DATASET_SPLIT_VALID, out);
    }
    if (status == STATUS_OK) {
        status = split_load(path, "test_idx.npy", false, DATASET_SPLIT_TEST, out);
    }
    return status == STATUS_OK ? dataset_split_finish(out) : status;
}
