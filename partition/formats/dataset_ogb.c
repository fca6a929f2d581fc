/* Format ogb: the folder of a node-property data set as the OGB package downloads it, either as tables
 * (raw/edge.csv.gz …) or as arrays (raw/data.npz, raw/node-label.npz), with one split folder of tables.
 *
 * Several node types: dataset_ogb_types.c. Years and species are not read; edge_weight, which the package's own
 * reader calls an additional edge file, is. Tables of edges are streamed twice rather than held; features of edges,
 * where the model takes them, are held.
 * source  Hu et al., "Open Graph Benchmark", NeurIPS 2020
 */
#include "partition/files/csv_gz.h"
#include "partition/files/dataset_path.h"
#include "partition/files/npz.h"
#include "partition/formats/dataset_ogb_files.h"
#include "partition/formats/dataset_ogb_types.h"
#include "partition/graph/dataset_build.h"
#include "partition/graph/dataset_edges.h"
#include "partition/graph/edge_features.h"
#include "partition/graph/weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The package itself adds reverse edges to these and to no other (add_inverse_edge in its master table). */
static bool adds_reverse(const char *name)
{
    return strstr(name, "products") != NULL || strstr(name, "proteins") != NULL;
}

/* edge.csv.gz and the reading position. */
struct edge_table {
    const char *path;
    struct csv_gz *csv;
};

static enum status table_read(void *self, int64_t first, int64_t n, int64_t *source, int64_t *destination)
{
    struct edge_table *table = self;
    enum status status = STATUS_OK;
    if (first == 0) {
        csv_gz_close(table->csv);
        table->csv = NULL;
        status = csv_gz_open(table->path, &table->csv);
    }
    for (int64_t i = 0; i < n && status == STATUS_OK; i++) {
        int64_t pair[2] = {0, 0};
        status = csv_gz_integers(table->csv, 2, pair);
        source[i] = pair[0];
        destination[i] = pair[1];
    }
    return status;
}

/* Nothing may follow the last edge: the count would be wrong. */
static enum status table_end(struct edge_table *table, int64_t n_edge)
{
    char *line = NULL;
    enum status status = table->csv != NULL ? csv_gz_line(table->csv, &line) : STATUS_OK;
    if (status == STATUS_OK && line != NULL) {
        status = status_fail(STATUS_DATA, "%s: goes on after line %" PRId64 ", expected that many edges", table->path,
                             n_edge);
    }
    return status;
}

/* The table of weights, which is read once. */
static enum status weight_table_read(void *self, int64_t first, int64_t n, double *out)
{
    struct edge_table *table = self;
    enum status status = first == 0 ? csv_gz_open(table->path, &table->csv) : STATUS_OK;
    for (int64_t i = 0; i < n && status == STATUS_OK; i++) {
        float value = 0.0f;
        status = csv_gz_reals(table->csv, 1, &value);
        out[i] = value;
    }
    return status;
}

static enum status weight_table_choose(const struct job *job, struct edge_table *weights, struct edge_source *source)
{
    bool use = false;
    enum status status = weights_choose(job, weights->path, npy_exists(weights->path), &use);
    if (status == STATUS_OK && use) {
        source->weight_read = weight_table_read;
        source->weight_self = weights;
        source->weight_file = weights->path;
        source->weight_unit = "edge";
    }
    return status;
}

static enum status feature_table_choose(const struct job *job, const char *folder, struct npy *features,
                                        struct edge_source *source)
{
    struct dataset_path path = dataset_path_join(folder, "raw/edge-feat.csv.gz");
    bool use = false;
    enum status status = edge_features_choose(job, path.text, npy_exists(path.text), &use);
    if (status == STATUS_OK && use) {
        const char *count = dataset_path_join(folder, "raw/num-edge-list.csv.gz").text;
        status = dataset_ogb_agree(count, 1, source->n_edge, "edges", path.text);
    }
    if (status == STATUS_OK && use) {
        status = csv_gz_table(path.text, NPY_TYPE_F32, source->n_edge, features);
    }
    return status == STATUS_OK && use ? edge_features_attach(features, source) : status;
}

/* The counts, compared with tables. The count of the edges, unless it is 0, is compared while their table is read. */
static enum status table_counts(const char *folder, int64_t *n_node, int64_t *n_edge)
{
    struct dataset_path nodes = dataset_path_join(folder, "raw/num-node-list.csv.gz");
    struct dataset_path edges = dataset_path_join(folder, "raw/num-edge-list.csv.gz");
    const char *const tables[] = {"raw/node-label.csv.gz", "raw/node-feat.csv.gz"};
    enum status status = dataset_ogb_count(nodes.text, n_node);
    if (status == STATUS_OK) {
        status = dataset_nodes_check(*n_node, nodes.text);
    }
    int t = dataset_path_exists(folder, tables[0]) ? 0 : 1;
    if (status == STATUS_OK && dataset_path_exists(folder, tables[t])) {
        status = dataset_ogb_agree(nodes.text, 1, *n_node, "nodes", dataset_path_join(folder, tables[t]).text);
    }
    if (status == STATUS_OK) {
        status = dataset_ogb_count(edges.text, n_edge);
    }
    return status == STATUS_OK && *n_edge == 0
               ? dataset_ogb_agree(edges.text, 1, 0, "edges", dataset_path_join(folder, "raw/edge.csv.gz").text)
               : status;
}

static enum status table_graph(const struct job *job, const char *folder, struct dataset *out)
{
    struct dataset_path path = dataset_path_join(folder, "raw/edge.csv.gz");
    struct dataset_path weight_path = dataset_path_join(folder, "raw/edge_weight.csv.gz");
    struct edge_table table = {path.text, NULL}, weights = {weight_path.text, NULL};
    struct edge_source source = {.file = path.text, .unit = "edge", .self = &table, .read = table_read};
    struct npy features = {0};
    enum status status = table_counts(folder, &out->n_node, &source.n_edge);
    if (status == STATUS_OK) {
        status = weight_table_choose(job, &weights, &source);
    }
    if (status == STATUS_OK) {
        status = feature_table_choose(job, folder, &features, &source);
    }
    if (status == STATUS_OK) {
        status = dataset_graph_build(job, &source, adds_reverse(out->name), out);
    }
    if (status == STATUS_OK) {
        status = table_end(&table, source.n_edge);
    }
    if (status == STATUS_OK) {
        status = table_end(&weights, source.n_edge);
    }
    csv_gz_close(table.csv);
    csv_gz_close(weights.csv);
    npy_close(&features);
    return status;
}

static enum status table_load(const struct job *job, const char *folder, struct dataset *out)
{
    enum status status = table_graph(job, folder, out);
    struct npy features = {0}, labels = {0};
    if (status == STATUS_OK && !job_makes_features(job) && dataset_path_exists(folder, "raw/node-feat.csv.gz")) {
        struct dataset_path path = dataset_path_join(folder, "raw/node-feat.csv.gz");
        status = csv_gz_table(path.text, NPY_TYPE_F32, out->n_node, &features);
        if (status == STATUS_OK) {
            status = dataset_features_dense(job, &features, out);
        }
        npy_close(&features);
    }
    bool lacks_labels = out->predicts && !dataset_path_exists(folder, "raw/node-label.csv.gz");
    if (status == STATUS_OK && (out->of_links || lacks_labels)) {
        return STATUS_OK;
    }
    if (status == STATUS_OK) {
        struct dataset_path path = dataset_path_join(folder, "raw/node-label.csv.gz");
        status = csv_gz_table(path.text, NPY_TYPE_F32, out->n_node, &labels);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return dataset_labels(&labels, true, 0, out);
}

/* edge_weight or edge_feat, where the archive has it and the job uses it. */
static enum status member_choose(const struct job *job, const struct npz *npz, const char *file, bool weights,
                                 struct npy *array, struct edge_source *source)
{
    const char *member = weights ? "edge_weight" : "edge_feat";
    char name[DATASET_PATH_BYTES + 32];
    bool use = false;
    snprintf(name, sizeof name, "%s: %s", file, member);
    enum status status = (weights ? weights_choose : edge_features_choose)(job, name, npz_has(npz, member), &use);
    if (status == STATUS_OK && use) {
        status = npz_member(npz, member, array);
    }
    if (status != STATUS_OK || !use) {
        return status;
    }
    return weights ? weights_attach(array, source) : edge_features_attach(array, source);
}

/* Compare the count of nodes with the rows of labels, or without labels (rank 0) of features, before memory is
 * allocated for so many nodes. */
static enum status rows_agree(const struct npz *npz, const struct npy *n_node, const struct npy *labels)
{
    struct npy rows = *labels;
    bool reads = labels->rank == 0 && npz_has(npz, "node_feat");
    enum status status = reads ? npz_member(npz, "node_feat", &rows) : STATUS_OK;
    if (status == STATUS_OK && rows.rank > 0 && rows.shape[0] != npy_int(n_node, 0)) {
        status = status_fail(STATUS_DATA,
                             "%s: entry 0: %" PRId64 " nodes, and %s has %" PRId64 " rows, expected as many",
                             n_node->name, npy_int(n_node, 0), rows.name, rows.shape[0]);
    }
    if (reads) {
        npy_close(&rows);
    }
    return status;
}

static enum status array_graph(const struct job *job, const struct npz *npz, const char *file,
                               const struct npy *labels, struct dataset *out)
{
    struct npy n_node = {0}, edges = {0}, weights = {0}, features = {0};
    struct edge_source source;
    enum status status = npz_member(npz, "num_nodes_list", &n_node);
    if (status == STATUS_OK) {
        status = npy_expect(&n_node, NPY_KIND_INTEGER, 1, 1, 0);
    }
    if (status == STATUS_OK) {
        out->n_node = npy_int(&n_node, 0);
        status = dataset_nodes_check(out->n_node, n_node.name);
    }
    if (status == STATUS_OK) {
        status = rows_agree(npz, &n_node, labels);
    }
    if (status == STATUS_OK) {
        status = npz_member(npz, "edge_index", &edges);
    }
    if (status == STATUS_OK) {
        status = edge_source_list(&edges, &source);
    }
    if (status == STATUS_OK) {
        status = member_choose(job, npz, file, true, &weights, &source);
    }
    if (status == STATUS_OK) {
        status = member_choose(job, npz, file, false, &features, &source);
    }
    if (status == STATUS_OK) {
        status = dataset_graph_build(job, &source, adds_reverse(out->name), out);
    }
    npy_close(&n_node);
    npy_close(&edges);
    npy_close(&weights);
    npy_close(&features);
    return status;
}

/* Open an archive of the folder and read one member of it. */
static enum status member_load(const char *folder, const char *file, const char *member, struct npy *out)
{
    struct dataset_path path = dataset_path_join(folder, file);
    struct npz *npz;
    enum status status = npz_open(path.text, &npz);
    if (status == STATUS_OK) {
        status = npz_member(npz, member, out);
        npz_close(npz);
    }
    return status;
}

static enum status array_load(const struct job *job, const char *folder, struct dataset *out)
{
    struct dataset_path path = dataset_path_join(folder, "raw/data.npz");
    struct npz *npz;
    struct npy features = {0}, labels = {0};
    bool lacks_labels = out->of_links || (out->predicts && !dataset_path_exists(folder, "raw/node-label.npz"));
    enum status status = lacks_labels ? STATUS_OK : member_load(folder, "raw/node-label.npz", "node_label", &labels);
    if (status == STATUS_OK) {
        status = npz_open(path.text, &npz);
    }
    if (status != STATUS_OK) {
        npy_close(&labels);
        return status;
    }
    status = array_graph(job, npz, path.text, &labels, out);
    if (status == STATUS_OK && !job_makes_features(job) && npz_has(npz, "node_feat")) {
        status = npz_member(npz, "node_feat", &features);
        if (status == STATUS_OK) {
            status = dataset_features_dense(job, &features, out);
        }
        npy_close(&features);
    }
    npz_close(npz);
    if (status == STATUS_OK && !lacks_labels) {
        status = dataset_labels(&labels, true, 0, out);
    }
    npy_close(&labels);
    return status;
}

static enum status splits_load(const char *folder, struct dataset *out)
{
    static const char *const names[] = {
        [DATASET_SPLIT_TRAIN] = "train.csv.gz",
        [DATASET_SPLIT_VALID] = "valid.csv.gz",
        [DATASET_SPLIT_TEST] = "test.csv.gz",
    };
    struct dataset_path splits;
    if (out->predicts && !dataset_path_exists(folder, "split")) {
        return dataset_split_finish(out);
    }
    enum status status = dataset_ogb_split_folder(folder, "train.csv.gz", &splits);
    for (int split = DATASET_SPLIT_TRAIN; split <= DATASET_SPLIT_TEST && status == STATUS_OK; split++) {
        struct dataset_path path = dataset_path_join(splits.text, names[split]);
        struct npy nodes;
        status = csv_gz_table(path.text, NPY_TYPE_I64, -1, &nodes);
        if (status == STATUS_OK) {
            status = dataset_split_add(&nodes, (enum dataset_split)split, out);
            npy_close(&nodes);
        }
    }
    if (status != STATUS_OK) {
        return status;
    }
    return dataset_split_finish(out);
}

enum status dataset_ogb_load(const struct job *job, const char *path, struct dataset *out)
{
    if (dataset_ogb_is_typed(path)) {
        return dataset_ogb_typed_load(job, path, out);
    }
    bool arrays = dataset_path_exists(path, "raw/data.npz") && !dataset_path_exists(path, "raw/edge.csv.gz");
    enum status status = arrays ? array_load(job, path, out) : table_load(job, path, out);
    if (status != STATUS_OK || out->of_links) {
        return status;
    }
    return splits_load(path, out);
}
