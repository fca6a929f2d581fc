/* The common second half of loading: checks and stores the data that readers and generators pass on.
 *
 * A reader sets out->n_node, then calls these in the order below, each at most once. All of them write into a dataset
 * under construction whose store is open; after a failure the caller closes the store. They are independent of file
 * formats.
 */
#ifndef PARTITION_DATASET_BUILD_H
#define PARTITION_DATASET_BUILD_H

#include "partition/files/npy.h"
#include "partition/graph/dataset.h"
#include "protocol/job/job.h"
#include "protocol/job/model_kinds.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A stream of directed edges that can be read again from the start: only the resulting edges are stored. */
struct edge_source {
    const char *file; /* for messages: the origin of edges, and the unit of their numbers there ("column", "line") */
    const char *unit;
    const char *n_node_file; /* also for messages: the file whose rows are the nodes; NULL: no file */
    int64_t n_edge;
    void *self;
    /* Edges first … first+n-1. Called in ascending order from 0, and again from 0. Ids are checked by the caller. */
    enum status (*read)(void *self, int64_t first, int64_t n, int64_t *source, int64_t *destination);

    /* Only for typed edges; zero for others. Types are checked by the caller. */
    int64_t (*type)(const void *type_self, int64_t edge);
    const void *type_self;
    const char *type_file; /* for messages */
    int64_t n_relation;    /* number of relations by another file; 0: by the types */

    /* Only for weighted edges; zero for others. Weights of edges first … first+n-1, called like read, but once. */
    enum status (*weight_read)(void *weight_self, int64_t first, int64_t n, double *out);
    void *weight_self;
    const char *weight_file; /* for messages: the origin of weights, and the unit of their numbers there */
    const char *weight_unit;

    /* Only for edges with features: their checked rows (edge_features_attach), which the graph then owns. NULL: no
     * features */
    struct npy *features;
};

/* Keep the name of a file, for messages. */
static inline void dataset_file_note(struct dataset *out, enum dataset_content content, const char *name)
{
    snprintf(out->file[content], sizeof out->file[content], "%s", name);
}

/* Does the job's model read the types of edges? */
static inline bool dataset_wants_types(const struct job *job)
{
    return model_kind_of(job)->needs_types;
}

/* Refuse zero nodes and more than 2^32 - 2; `file` is named. */
enum status dataset_nodes_check(int64_t n_node, const char *file);

/* indptr, indices, n_edge, n_duplicate, symmetric, loops, and if the model is typed edge_type and n_relation, from a
 * stream of edges; edge_weight and strength if the source has weights; and edges if it has features.
 * A generator's edges are all of relation 0.
 *
 *   auto_undirected  what undirected = "auto" means for this format
 *   errors  STATUS_DATA an id or a type out of range (file, place, what was expected), a relation without an edge
 *           beyond source->n_relation, a weight that is not finite or negative, a repeated edge with other features ·
 *           STATUS_NOMEM
 *   notes   weighted edges: a loop that the layer's definition needs is stored, with weight 1 where the source has
 *           none, as PyTorch Geometric's add_remaining_self_loops does; its reverse counts as one more, as in
 *           to_undirected
 *   cost    reads the stream twice; peak: the result with its duplicates, plus n_node × 4 bytes
 */
enum status dataset_graph_build(const struct job *job, const struct edge_source *source, bool auto_undirected,
                                struct dataset *out);

/* Give back what the arrays of n_entry edges have beyond n_edge. errors  STATUS_NOMEM */
enum status dataset_edges_shrink(int64_t n_entry, struct dataset *out);

/* Dense features [n_node, any]; takes over *npy. Becomes CSR if that saves half of the bytes.
 *
 *   errors  STATUS_DATA shape or a value that is not finite (row and column)
 */
enum status dataset_features_dense(const struct job *job, struct npy *npy, struct dataset *out);

/* Sparse features, of n_column columns; takes over the three arrays. Rows may come unsorted, not with repeats. */
enum status dataset_features_sparse(const struct job *job, struct csr *rows, struct dataset *out);

/* Features made from the built graph, which replace existing ones (dataset.features is a word): columns of degrees,
 * without loops, or a column for each node (dataset->embedded). errors  STATUS_NOMEM */
enum status dataset_features_make(const struct job *job, struct dataset *out);

/* Divide each dense row by the sum of its absolute values; rows of zeros stay. */
void dataset_rows_normalize(float *rows, int64_t n_row, int64_t n_column);

/* Labels: integers [n_node] or [n_node, 1] (-1 none), or rows [n_node, C] of 0, 1 and -1 or NaN (unknown):
 * multi-label. For regression numbers [n_node] or [n_node, C] instead, also integers; NaN marks a missing one. With
 * `real_classes`, floats in one column are class numbers and NaN marks an unlabelled node (OGB). Takes over *npy.
 *
 *   n_class  0: the largest label + 1, or the columns
 *   errors   STATUS_DATA shape, dtype, a label out of range
 */
enum status dataset_labels(struct npy *npy, bool real_classes, int64_t n_class, struct dataset *out);

/* Are these numbers of nodes, of this rank? errors  STATUS_DATA shape or dtype, booleans too */
enum status dataset_split_check(const struct npy *npy, int rank);

/* Put the nodes listed in `npy` (integers [any] or [any, 1]) into one split; borrows *npy.
 *
 *   errors  STATUS_DATA a node out of range, named twice, or in the training and another split
 */
enum status dataset_split_add(const struct npy *npy, enum dataset_split split, struct dataset *out);

/* The same node by node: first dataset_split_begin; `entry` is the place in the file `name`, for messages. */
enum status dataset_split_begin(const char *name, enum dataset_split split, struct dataset *out);
enum status dataset_split_node(const char *name, int64_t entry, int64_t node, enum dataset_split split,
                               struct dataset *out);

/* Does the node have a label, or one known label of several? */
bool dataset_has_label(const struct dataset *dataset, int64_t node);

/* Count the splits, remark on nodes in two of them, and refuse a dataset for training without a training node, or
 * with an unlabelled one. */
enum status dataset_split_finish(struct dataset *out);

/* Draw splits of `n_train` and `n_valid` nodes per class, the rest test (Shchur et al., 2018), keyed by seed. */
enum status dataset_split_draw(int64_t n_train, int64_t n_valid, uint64_t seed, struct dataset *out);

/* The readers. `path` exists; *out has its name and store. */
enum status dataset_npy_load(const struct job *job, const char *path, struct dataset *out);
enum status dataset_ogb_load(const struct job *job, const char *path, struct dataset *out);
enum status dataset_npz_load(const struct job *job, const char *path, struct dataset *out);
enum status generator_build(const struct job *job, struct dataset *out);

#endif
