/* Format npz: one archive with an adjacency matrix, attributes and labels, as gnn-benchmark (Shchur et al., 2018)
 * keeps its graphs: adj_data/indices/indptr/shape, attr_* or attr_matrix, labels. The same matrices as pickled SciPy
 * objects (adj_matrix, node_attr, node_label) are read as well.
 *
 * Splits come from an archive beside it, NAME_split.npz or NAME-split.npz with train, valid and test; without one,
 * the paper's protocol draws them.
 */
#include "partition/files/dataset_path.h"
#include "partition/files/npz.h"
#include "partition/files/pickle_csr.h"
#include "partition/graph/dataset_build.h"
#include "partition/graph/dataset_edges.h"
#include "partition/graph/weights.h"
#include "protocol/base/log.h"
#include "protocol/base/memory.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DRAWN_TRAIN 20 /* nodes per class */
#define DRAWN_VALID 30

static enum status plain_csr_load(const struct npz *npz, const char *prefix, struct csr *out)
{
    static const char *const parts[] = {"indptr", "indices", "data", "shape"};
    struct npy shape = {0};
    struct npy *const arrays[] = {&out->indptr, &out->indices, &out->data, &shape};
    enum status status = STATUS_OK;
    for (int i = 0; i < 4 && status == STATUS_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s_%s", prefix, parts[i]);
        status = npz_member(npz, name, arrays[i]);
    }
    if (status == STATUS_OK) {
        status = npy_expect(&shape, NPY_KIND_INTEGER, 1, 2, 0);
    }
    if (status == STATUS_OK) {
        out->n_row = npy_int(&shape, 0);
        out->n_column = npy_int(&shape, 1);
    }
    npy_close(&shape);
    return status;
}

static enum status pickled_csr_load(const struct npz *npz, const char *name, struct csr *out)
{
    char full[NPY_NAME_BYTES];
    char *bytes;
    size_t n_bytes;
    enum status status = npz_bytes(npz, name, full, &bytes, &n_bytes);
    if (status == STATUS_OK) {
        status = pickle_csr_read(full, bytes, n_bytes, out);
        memory_release(MEMORY_OTHER, bytes, n_bytes, 1);
    }
    return status;
}

static bool all_one(const struct npy *values)
{
    int64_t i = 0;
    while (i < values->n_value && npy_real(values, i) == 1.0) {
        i++;
    }
    return i == values->n_value;
}

/* The matrix's values are weights only on request: the collections' own loaders ignore them, and their values are all
 * 1. */
static enum status weights_load(const struct job *job, const struct csr *adjacency, struct edge_source *source)
{
    const struct npy *values = &adjacency->data;
    bool use = false;
    enum status status = STATUS_OK;
    if (job->dataset.edge_weights == JOB_SWITCH_YES) {
        status = weights_choose(job, values->name, true, &use);
    } else if (job->dataset.edge_weights == JOB_SWITCH_AUTO && job_takes_edge_weights(job) && !all_one(values)) {
        log_warn("%s is not used, though not all of it is 1: dataset.edge_weights = \"yes\" takes it as the weights "
                 "of the edges",
                 values->name);
    }
    return status == STATUS_OK && use ? weights_attach(values, source) : status;
}

/* Row u has the nodes that u points to. */
static enum status graph_load(const struct job *job, const struct npz *npz, struct dataset *out)
{
    bool pickled = !npz_has(npz, "adj_indptr") && npz_has(npz, "adj_matrix");
    struct csr adjacency = {0};
    enum status status = pickled ? pickled_csr_load(npz, "adj_matrix", &adjacency)
                                 : plain_csr_load(npz, "adj", &adjacency);
    struct edge_rows rows = {&adjacency.indptr, &adjacency.indices, true, 0};
    struct edge_source source;
    if (status == STATUS_OK) {
        out->n_node = adjacency.n_row;
        status = dataset_nodes_check(out->n_node, adjacency.indptr.name);
    }
    if (status == STATUS_OK && adjacency.n_column != adjacency.n_row) {
        status = status_fail(STATUS_DATA,
                             "%s: adjacency matrix of %" PRId64 " rows and %" PRId64 " columns, expected a square",
                             adjacency.indptr.name, adjacency.n_row, adjacency.n_column);
    }
    if (status == STATUS_OK) {
        status = edge_source_rows(&rows, out->n_node, &source);
    }
    if (status == STATUS_OK) {
        status = weights_load(job, &adjacency, &source);
    }
    if (status == STATUS_OK && source.weight_read == NULL) {
        npy_close(&adjacency.data);
    }
    if (status == STATUS_OK) {
        status = dataset_graph_build(job, &source, true, out);
    }
    csr_release(&adjacency);
    return status;
}

static enum status features_load(const struct job *job, const struct npz *npz, struct dataset *out)
{
    if (job_makes_features(job)) {
        return STATUS_OK;
    }
    if (npz_has(npz, "attr_matrix")) {
        struct npy dense = {0};
        enum status status = npz_member(npz, "attr_matrix", &dense);
        if (status == STATUS_OK) {
            status = dataset_features_dense(job, &dense, out);
        }
        npy_close(&dense);
        return status;
    }
    bool pickled = !npz_has(npz, "attr_indptr") && npz_has(npz, "node_attr");
    if (!pickled && !npz_has(npz, "attr_indptr")) {
        return STATUS_OK;
    }
    struct csr rows = {0};
    enum status status = pickled ? pickled_csr_load(npz, "node_attr", &rows) : plain_csr_load(npz, "attr", &rows);
    if (status == STATUS_OK && (rows.n_column < 1 || rows.n_column > INT32_MAX)) {
        status = status_fail(STATUS_DATA, "%s: %" PRId64 " columns, expected 1 to %d", rows.indptr.name,
                             rows.n_column, INT32_MAX);
    }
    if (status == STATUS_OK) {
        status = dataset_features_sparse(job, &rows, out);
    }
    csr_release(&rows);
    return status;
}

/* "dir/amazon-photo_split.npz" belongs to "dir/amazon_photo.npz": '-' and '_' are the same in this family of
 * files. */
static bool is_split_of(const char *candidate, const char *file)
{
    static const char tail[] = "_split.npz";
    const char *extension = strstr(file, ".npz");
    size_t stem = extension != NULL ? (size_t)(extension - file) : 0, n = strlen(candidate);
    if (stem == 0 || n != stem + strlen(tail)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        char expected = i < stem ? file[i] : tail[i - stem];
        bool dash = (candidate[i] == '-' || candidate[i] == '_') && (expected == '-' || expected == '_');
        if (candidate[i] != expected && !dash) {
            return false;
        }
    }
    return true;
}

/* The split file beside `path`; false: no such file. */
static bool split_find(const char *path, struct dataset_path *out)
{
    const char *slash = strrchr(path, '/');
    const char *file = slash != NULL ? slash + 1 : path;
    struct dataset_path folder;
    snprintf(folder.text, sizeof folder.text, "%.*s", slash != NULL ? (int)(slash - path) + 1 : 1,
             slash != NULL ? path : ".");
    DIR *directory = opendir(folder.text);
    if (directory == NULL) {
        return false;
    }
    bool found = false;
    for (struct dirent *entry; !found && (entry = readdir(directory)) != NULL;) {
        found = is_split_of(entry->d_name, file);
        if (found) {
            *out = dataset_path_join(folder.text, entry->d_name);
        }
    }
    closedir(directory);
    return found;
}

static enum status splits_load(const char *path, struct dataset *out)
{
    static const char *const names[] = {
        [DATASET_SPLIT_TRAIN] = "train", [DATASET_SPLIT_VALID] = "valid", [DATASET_SPLIT_TEST] = "test"};
    struct npz *npz;
    enum status status = npz_open(path, &npz);
    if (status != STATUS_OK) {
        return status;
    }
    for (int split = DATASET_SPLIT_TRAIN; split <= DATASET_SPLIT_TEST && status == STATUS_OK; split++) {
        struct npy nodes;
        status = npz_member(npz, names[split], &nodes);
        if (status == STATUS_OK) {
            status = dataset_split_add(&nodes, (enum dataset_split)split, out);
            npy_close(&nodes);
        }
    }
    npz_close(npz);
    return status;
}

static enum status arrays_load(const struct job *job, const char *path, struct dataset *out)
{
    struct npz *npz;
    enum status status = npz_open(path, &npz);
    if (status != STATUS_OK) {
        return status;
    }
    struct npy labels;
    status = graph_load(job, npz, out);
    if (status == STATUS_OK) {
        status = features_load(job, npz, out);
    }
    const char *name = npz_has(npz, "node_label") ? "node_label" : "labels";
    bool has_labels = !out->of_links && (!out->predicts || npz_has(npz, name));
    if (status == STATUS_OK && has_labels) {
        status = npz_member(npz, name, &labels);
    }
    if (status == STATUS_OK && has_labels) {
        status = dataset_labels(&labels, false, 0, out);
    }
    npz_close(npz);
    return status;
}

enum status dataset_npz_load(const struct job *job, const char *path, struct dataset *out)
{
    enum status status = arrays_load(job, path, out);
    if (status != STATUS_OK || out->of_links) {
        return status;
    }
    struct dataset_path split;
    if (split_find(path, &split)) {
        status = splits_load(split.text, out);
    } else if (out->labels.classes != NULL || out->labels.rows != NULL) {
        log_info("dataset '%s' has no splits: drew %d training and %d validation nodes per class with seed %" PRId64,
                 out->name, DRAWN_TRAIN, DRAWN_VALID, (int64_t)job->dataset.seed);
        status = dataset_split_draw(DRAWN_TRAIN, DRAWN_VALID, (uint64_t)job->dataset.seed, out);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return dataset_split_finish(out);
}
