/* Features of nodes of several types: each type's own matrix, put side by side into the dataset's one sparse matrix.
 *
 * The first linear map over that matrix is then a projection per type, and for types without features an embedding
 * per node. Independent of file formats.
 */
#ifndef PARTITION_NODE_TYPES_H
#define PARTITION_NODE_TYPES_H

#include "partition/files/npy.h"
#include "partition/graph/dataset_build.h"

#include <stdbool.h>
#include <stdint.h>

#define NODE_TYPE_MOST 65536

/* Rows of features, which are read twice, one after another. */
struct node_rows {
    enum status (*read)(void *self, int64_t row, float *out); /* row 0 starts again; NULL: no such rows */
    void *self;
    const char *file; /* for messages */
};

/* One type; its rows are its nodes, ascending. */
struct node_type {
    int64_t n_node;
    int64_t n_column; /* without features: n_node, the row's own column being 1 */
    int64_t column;   /* of the whole matrix: its first */
    struct npy dense; /* one of the three forms of features, … */
    struct csr sparse;
    struct node_rows rows;
    float *row; /* n_column: the last one of rows that was read; … or none of them */
    bool sorted;
    int64_t next; /* row of the next node met */
};

struct node_types {
    const struct npy *of_node; /* n_node integers; NULL: all of type 0 */
    int64_t n_node;
    int64_t n_type;
    struct node_type *type;
};

/* Count the nodes of each type; borrows `of_node`.
 *
 *   owns    the caller owns *out: node_types_close
 *   errors  STATUS_DATA shape, dtype, a type out of range (file, entry, what was expected)
 */
enum status node_types_open(const struct npy *of_node, int64_t n_node, struct node_types *out);
void node_types_close(struct node_types *types);

/* Set the features of type k; takes over the arrays, also on failure.
 *
 *   n_column  of sparse ones 0: the greatest column + 1
 *   errors    STATUS_DATA rows that are not the type's nodes, and as dataset_features_dense and _sparse
 */
enum status node_types_dense(struct node_types *types, int64_t k, struct npy *dense);
enum status node_types_sparse(struct node_types *types, int64_t k, struct csr *sparse);

/* The same row by row; borrows what `rows` points to. */
void node_types_rows(struct node_types *types, int64_t k, const struct node_rows *rows, int64_t n_column);

/* Build the dataset's sparse features. cost  reads arrays and rows twice; no memory but what stays and a row per type
 * errors  STATUS_DATA rows with a value that is not finite, or that differ in the second pass */
enum status node_types_features(const struct job *job, struct node_types *types, struct dataset *out);

#endif
