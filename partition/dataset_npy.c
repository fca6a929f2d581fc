/* Format npy: a folder of arrays, mapped. The graph comes as an edge list or as in-edges by destination; what is not
 * there (features, valid_idx, test_idx, meta.json) is left out, what is there must fit.
 */
#include "partition/dataset_build.h"
#include "partition/dataset_edges.h"
#include "partition/dataset_path.h"
#include "partition/dataset_store.h"
#include "protocol/file.h"
#include "protocol/printable.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What meta.json may tell; 0 where it does not. */
struct meta {
    int64_t n_node, n_feature, n_class;
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
    int file;
    enum status status = file_open(path.text, &file);
    if (status != STATUS_OK) {
        return status == STATUS_NO_INPUT ? STATUS_OK : status;
    }
    json_error_t error;
    json_t *root = json_loadfd(file, JSON_REJECT_DUPLICATES, &error);
    close(file);
    if (!json_is_object(root)) {
        json_decref(root);
        return status_fail(STATUS_DATA, "%s:%d:%d: %s, expected a JSON object", path.text, error.line, error.column,
                           root == NULL ? error.text : "not an object");
    }
    const char *name = json_string_value(json_object_get(root, "name"));
    if (name != NULL) {
        printable_copy(name, dataset->name, sizeof dataset->name);
    }
    status = meta_count(root, path.text, "nodes", (int64_t)UINT32_MAX - 1, &out->n_node);
    if (status == STATUS_OK) {
        status = meta_count(root, path.text, "features", INT32_MAX, &out->n_feature);
    }
    if (status == STATUS_OK) {
        status = meta_count(root, path.text, "classes", INT32_MAX, &out->n_class);
    }
    json_decref(root);
    return status;
}

/* Are the edges rows of in-edges rather than a list? */
static bool edges_are_rows(const char *folder)
{
    return dataset_path_exists(folder, "indptr.npy") && !dataset_path_exists(folder, "edges.npy");
}

/* n_node is the rows of the labels. They are held against the first file that knows better: labels too few would else be
 * told as an edge out of range or features too many. */
static enum status n_node_set(const char *folder, const struct npy *labels, int64_t n_meta, struct dataset *out)
{
    const char *name = dataset_path_exists(folder, "features.npy")      ? "features.npy"
                       : dataset_path_exists(folder, "feat_indptr.npy") ? "feat_indptr.npy"
                       : edges_are_rows(folder)                         ? "indptr.npy"
                                                                        : NULL;
    out->n_node = labels->rank > 0 ? labels->shape[0] : 0;
    enum status status = dataset_nodes_check(out->n_node, labels->name);
    if (status == STATUS_OK && n_meta > 0 && n_meta != out->n_node) {
        return status_fail(STATUS_DATA, "%s: has %" PRId64 " rows, expected %" PRId64 ", the nodes of meta.json",
                           labels->name, out->n_node, n_meta);
    }
    if (status != STATUS_OK || n_meta > 0 || name == NULL) {
        return status;
    }
    struct npy rows;
    status = open_in(folder, name, &rows);
    if (status != STATUS_OK) {
        return status;
    }
    bool indptr = strstr(name, "indptr") != NULL;
    int64_t n_row = rows.shape[0] - indptr;
    if (rows.rank == (indptr ? 1 : 2) && n_row > 0 && n_row != out->n_node) {
        status = status_fail(STATUS_DATA, "%s: has %" PRId64 " rows, expected %" PRId64 ", the rows of %s", labels->name,
                             out->n_node, n_row, rows.name);
    }
    npy_close(&rows);
    return status;
}

static enum status list_load(const struct job *job, const char *folder, struct dataset *out)
{
    struct npy edges = {0};
    struct edge_source source;
    enum status status = open_in(folder, "edges.npy", &edges);
    if (status == STATUS_OK) {
        status = edge_source_list(&edges, &source);
    }
    if (status == STATUS_OK) {
        source.n_node_file = "labels.npy";
        status = dataset_graph_build(job, &source, false, out);
    }
    npy_close(&edges);
    return status;
}

static enum status rows_load(const struct job *job, const char *folder, struct dataset *out)
{
    struct npy indptr = {0}, indices = {0};
    struct edge_rows rows = {&indptr, &indices, false, 0};
    struct edge_source source;
    enum status status = open_in(folder, "indptr.npy", &indptr);
    if (status == STATUS_OK) {
        status = open_in(folder, "indices.npy", &indices);
    }
    if (status == STATUS_OK) {
        status = edge_source_rows(&rows, out->n_node, &source);
    }
    if (status == STATUS_OK) {
        status = dataset_graph_build(job, &source, false, out);
    }
    npy_close(&indptr);
    npy_close(&indices);
    return status;
}

static enum status graph_load(const struct job *job, const char *folder, struct dataset *out)
{
    return edges_are_rows(folder) ? rows_load(job, folder, out) : list_load(job, folder, out);
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
        status = status_fail(STATUS_DATA, "%s/meta.json: has no number \"features\", expected the columns of "
                             "feat_indices.npy", folder);
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
    status = n_node_set(path, &labels, meta.n_node, out);
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
