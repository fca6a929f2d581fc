/* Format npy: a folder of arrays, mapped. The graph is an edge list, or in-edges by destination. Missing optional
 * files (features, valid_idx, test_idx, meta.json) are left out; all existing files must fit.
 */
#include "partition/files/dataset_path.h"
#include "partition/files/dataset_store.h"
#include "partition/formats/dataset_meta.h"
#include "partition/formats/dataset_npy_splits.h"
#include "partition/formats/dataset_npy_types.h"
#include "partition/formats/dataset_unread.h"
#include "partition/graph/dataset_build.h"
#include "partition/graph/dataset_edges.h"
#include "partition/graph/edge_features.h"
#include "partition/graph/weights.h"

#include <inttypes.h>
#include <string.h>

static enum status open_in(const char *folder, const char *name, struct npy *out)
{
    struct dataset_path path = dataset_path_join(folder, name);
    return npy_open(path.text, out);
}

/* Are the edges rows of in-edges rather than a list? */
static bool edges_are_rows(const char *folder)
{
    return dataset_path_exists(folder, "indptr.npy") && !dataset_path_exists(folder, "edges.npy");
}

/* Where labels are not read: the rows of another array with one row per node. */
static enum status n_node_find(const char *folder, int64_t n_meta, struct dataset *out)
{
    static const char *const names[] = {"features.npy", "feat_indptr.npy", "node_type.npy", "indptr.npy",
                                        "labels.npy"};
    if (n_meta > 0) {
        out->n_node = n_meta;
        return dataset_nodes_check(n_meta, "meta.json");
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct npy rows;
        if (!dataset_path_exists(folder, names[i]) || (i == 3 && !edges_are_rows(folder))) {
            continue;
        }
        enum status status = open_in(folder, names[i], &rows);
        if (status == STATUS_OK) {
            out->n_node = (rows.rank > 0 ? rows.shape[0] : 0) - (strstr(names[i], "indptr") != NULL);
            status = dataset_nodes_check(out->n_node, rows.name);
            npy_close(&rows);
        }
        return status;
    }
    return status_fail(
        STATUS_NO_INPUT,
        "%s: nothing says how many nodes there are, expected features.npy, indptr.npy, labels.npy or the number "
        "\"nodes\" in meta.json",
        folder);
}

/* n_node is the number of rows of the labels. It is compared with the first file that also has the number, so that
 * too few labels are reported as such, and not as an edge out of range or too many features. */
static enum status n_node_set(const char *folder, const struct npy *labels, int64_t n_meta, struct dataset *out)
{
    const char *name = dataset_path_exists(folder, "features.npy")      ? "features.npy"
                       : dataset_path_exists(folder, "feat_indptr.npy") ? "feat_indptr.npy"
                       : dataset_path_exists(folder, "node_type.npy")   ? "node_type.npy"
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
    if (rows.rank == (strcmp(name, "features.npy") == 0 ? 2 : 1) && n_row > 0 && n_row != out->n_node) {
        status = status_fail(STATUS_DATA, "%s: has %" PRId64 " rows, expected %" PRId64 ", the rows of %s",
                             labels->name, out->n_node, n_row, rows.name);
    }
    npy_close(&rows);
    return status;
}

static int64_t type_at(const void *types, int64_t edge)
{
    return npy_int(types, edge);
}

/* Attach the types to the edges if the model reads them. `types` stays open while edges are read. */
static enum status types_open(const struct job *job, const char *folder, const struct dataset_meta *meta,
                              struct npy *types, struct edge_source *edges)
{
    if (!dataset_wants_types(job)) {
        return STATUS_OK;
    }
    enum status status = open_in(folder, "edge_type.npy", types);
    if (status == STATUS_OK && npy_is_integer(types) && types->rank == 1 && types->n_value != edges->n_edge) {
        return status_fail(STATUS_DATA, "%s: has %" PRId64 " entries, expected %" PRId64 ", the edges of %s",
                           types->name, types->n_value, edges->n_edge, edges->file);
    }
    edges->type = type_at;
    edges->type_self = types;
    edges->type_file = types->name;
    edges->n_relation = meta->n_relation;
    if (status != STATUS_OK) {
        return status;
    }
    return npy_expect(types, NPY_KIND_INTEGER, 1, edges->n_edge, 0);
}

/* Attach an array of the edges if it is there and the job uses it. Weights stay open while edges are read, features
 * until the graph is built. */
static enum status array_open(const struct job *job, const struct dataset_path *path, bool weights, struct npy *array,
                              struct edge_source *edges)
{
    bool use = false;
    enum status status = (weights ? weights_choose : edge_features_choose)(job, path->text, npy_exists(path->text),
                                                                           &use);
    if (status == STATUS_OK && use) {
        status = npy_open(path->text, array);
    }
    if (status != STATUS_OK || !use) {
        return status;
    }
    return weights ? weights_attach(array, edges) : edge_features_attach(array, edges);
}

/* Arrays of the edges other than their ends, each open while edges are read. */
struct edge_arrays {
    struct npy types, weights, features;
};

static enum status arrays_open(const struct job *job, const char *folder, const struct dataset_meta *meta,
                               struct edge_arrays *arrays, struct edge_source *edges)
{
    enum status status = types_open(job, folder, meta, &arrays->types, edges);
    const struct dataset_path weights = dataset_path_join(folder, "edge_weight.npy");
    const struct dataset_path features = dataset_path_join(folder, "edge_attr.npy");
    if (status == STATUS_OK) {
        status = array_open(job, &weights, true, &arrays->weights, edges);
    }
    return status == STATUS_OK ? array_open(job, &features, false, &arrays->features, edges) : status;
}

static void arrays_close(struct edge_arrays *arrays)
{
    npy_close(&arrays->types);
    npy_close(&arrays->weights);
    npy_close(&arrays->features);
}

/* A list of edges, or rows of in-edges. */
static enum status graph_load(const struct job *job, const char *folder, const struct dataset_meta *meta,
                              struct dataset *out)
{
    bool are_rows = edges_are_rows(folder);
    struct npy edges = {0}, indices = {0}; /* of rows, `edges` is their indptr */
    struct edge_rows rows = {&edges, &indices, false, 0};
    struct edge_arrays arrays = {0};
    struct edge_source source;
    enum status status = open_in(folder, are_rows ? "indptr.npy" : "edges.npy", &edges);
    if (status == STATUS_OK && are_rows) {
        status = open_in(folder, "indices.npy", &indices);
    }
    if (status == STATUS_OK) {
        status = are_rows ? edge_source_rows(&rows, out->n_node, &source) : edge_source_list(&edges, &source);
    }
    if (status == STATUS_OK) {
        status = arrays_open(job, folder, meta, &arrays, &source);
    }
    if (status == STATUS_OK) {
        source.n_node_file = are_rows || out->of_links ? NULL : "labels.npy";
        status = dataset_graph_build(job, &source, false, out);
    }
    npy_close(&edges);
    npy_close(&indices);
    arrays_close(&arrays);
    return status;
}

static enum status sparse_load(const struct job *job, const char *folder, const struct dataset_meta *meta,
                               struct dataset *out)
{
    struct csr rows = {.n_column = meta->n_feature};
    enum status status = open_in(folder, "feat_indptr.npy", &rows.indptr);
    if (status == STATUS_OK) {
        status = open_in(folder, "feat_indices.npy", &rows.indices);
    }
    if (status == STATUS_OK) {
        status = open_in(folder, "feat_data.npy", &rows.data);
    }
    if (status == STATUS_OK && meta->n_feature < 1) {
        status = status_fail(STATUS_DATA,
                             "%s/meta.json: has no number \"features\", expected the columns of feat_indices.npy",
                             folder);
    }
    if (status == STATUS_OK) {
        status = dataset_features_sparse(job, &rows, out);
    }
    csr_release(&rows);
    return status;
}

static enum status dense_load(const struct job *job, const char *folder, const struct dataset_meta *meta,
                              struct dataset *out)
{
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

static enum status features_load(const struct job *job, const char *folder, const struct dataset_meta *meta,
                                 struct dataset *out)
{
    bool is_dense = dataset_path_exists(folder, "features.npy");
    if (job_makes_features(job)) {
        return STATUS_OK;
    }
    if (is_dense || dataset_path_exists(folder, "feat_indptr.npy")) {
        enum status status = dataset_npy_types_check(folder, out->n_node);
        return status != STATUS_OK ? status
               : is_dense          ? dense_load(job, folder, meta, out)
                                   : sparse_load(job, folder, meta, out);
    }
    return dataset_npy_is_typed(folder) ? dataset_npy_types_load(job, folder, meta, out) : STATUS_OK;
}

static enum status class_names_keep(const struct dataset_meta *meta, struct dataset *out)
{
    if (meta->class_names == NULL || out->of_links) {
        return STATUS_OK;
    }
    size_t n = strlen(meta->class_names) + 1;
    enum status status = dataset_store_block(out->store, MEMORY_OTHER, n, 1, &out->labels.class_names);
    if (status == STATUS_OK) {
        memcpy(out->labels.class_names, meta->class_names, n);
    }
    return status;
}

enum status dataset_npy_load(const struct job *job, const char *path, struct dataset *out)
{
    struct dataset_meta meta;
    struct npy labels = {0};
    enum status status = dataset_meta_open(path, &meta);
    if (status != STATUS_OK) {
        return status;
    }
    dataset_unread_npy(path, job);
    if (meta.name[0] != '\0') {
        memcpy(out->name, meta.name, sizeof out->name);
    }
    bool has_labels = !out->of_links && (!out->predicts || dataset_path_exists(path, "labels.npy"));
    status = has_labels ? open_in(path, "labels.npy", &labels) : STATUS_OK;
    if (status == STATUS_OK) {
        status = has_labels ? n_node_set(path, &labels, meta.n_node, out) : n_node_find(path, meta.n_node, out);
    }
    if (status == STATUS_OK) {
        status = graph_load(job, path, &meta, out);
    }
    if (status == STATUS_OK) {
        status = features_load(job, path, &meta, out);
    }
    if (status == STATUS_OK && has_labels) {
        status = dataset_labels(&labels, false, meta.n_class, out);
    }
    if (status == STATUS_OK) {
        status = class_names_keep(&meta, out);
    }
    npy_close(&labels);
    dataset_meta_close(&meta);
    if (status != STATUS_OK || out->of_links) {
        return status;
    }
    return dataset_npy_splits_load(job, path, out);
}
