/* Edge features while a graph is built: whether the job reads them, checks of their file, repeats, rows of added
 * loops.
 *
 * Separate from dataset_graph.c, which counts and places edges with the number of each edge's row.
 */
#ifndef PARTITION_EDGE_FEATURES_H
#define PARTITION_EDGE_FEATURES_H

#include "partition/files/npy.h"
#include "partition/graph/dataset_build.h"

#include <stdbool.h>
#include <stdint.h>

/* Decide whether the job reads the features of edges that `file` holds, or would hold: dataset.edge_features, and a
 * kind that uses them. A log line reports existing features that "auto" does not use.
 *
 *   there   is it there?
 *   errors  STATUS_NO_INPUT "yes" without the file
 */
enum status edge_features_choose(const struct job *job, const char *file, bool there, bool *use_out);

/* Numbers [E, D] or [E] in the order of the source's edges. Borrows `features` until the graph is built, which then
 * owns them.
 * errors  STATUS_DATA shape or dtype, another number of rows than edges, one that is not finite as float32 (row and
 *         column) */
enum status edge_features_attach(struct npy *features, struct edge_source *source);

/* Store checked features: mapped if the file has float32, else converted; *npy is empty afterwards.
 * errors  STATUS_DATA more rows than a uint32 can number · STATUS_NOMEM */
enum status edge_features_take(struct npy *npy, struct dataset *out);

/* Remove repeats of a source from sorted rows: the first row of the file stays. *n_loop_out: stored loops.
 * errors  STATUS_DATA repeats with other features (file, both rows) */
enum status edge_features_rows_unique(const char *file, const struct dataset *dataset, int64_t *indptr,
                                      uint32_t *indices, uint32_t *edge_row, int64_t *n_loop_out);

/* Features of the loops that a definition adds: the mean of the node's other in-edges' rows, 0 for a node without
 * in-edges. Called again, for other edges, it overwrites them.
 *
 *   errors  STATUS_NOMEM
 *   cost    n_edge × n_edge_feature reads
 *   source  torch_geometric.utils.add_self_loops, fill_value = "mean"
 */
enum status edge_features_loops(struct dataset *out);

/* A part stores one thing of each edge: its features, its weight, or its type.
 *
 *   errors  STATUS_CONFIG a program reads two of them that the data set has, with both lines */
enum status edge_features_check_alone(const struct job *job, const struct dataset *dataset);

#endif
