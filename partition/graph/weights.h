/* Edge weights while a graph is built: whether the job reads them, checks of their file, sums of repeats.
 *
 * Separate from dataset_graph.c, which counts and places edges and calls this file for their weights.
 */
#ifndef PARTITION_WEIGHTS_H
#define PARTITION_WEIGHTS_H

#include "partition/files/npy.h"
#include "partition/graph/dataset_build.h"

#include <stdbool.h>
#include <stdint.h>

/* Decide whether the job reads the weights that `file` holds, or would hold: dataset.edge_weights, and a model that
 * uses them. A log line reports existing weights that "auto" does not use.
 *
 *   there   is it there?
 *   errors  STATUS_NO_INPUT "yes" without the file
 */
enum status weights_choose(const struct job *job, const char *file, bool there, bool *use_out);

/* Numbers [E] in the order of the source's edges. Borrows `weights`, which stay open while edges are read.
 * errors  STATUS_DATA shape or dtype, another number of entries than edges */
enum status weights_attach(const struct npy *weights, struct edge_source *source);

/* Edges first … first+n-1 of the source as float32.
 * errors  STATUS_DATA one that is not finite there, or negative (file, entry, value) */
enum status weights_read(const struct edge_source *source, int64_t first, int64_t n, float *out);

/* For edges that become undirected: do both directions already have the same weights? */
struct weights_mirror {
    int64_t n;      /* edges that are no loops */
    uint64_t apart; /* Σ hash(from, to, weight) − hash(to, from, weight): 0 if they do */
};
void weights_mirror_add(struct weights_mirror *mirror, int64_t from, int64_t to, float weight);

/* Log that they do, so that the reverse edges double all weights. */
void weights_mirror_remark(const struct weights_mirror *mirror, const struct edge_source *source);

/* Remove repeats of a source from sorted rows: their weights are added, the least first, so that both directions of
 * an edge have equal sums. Returns the number of stored loops. */
int64_t weights_rows_unique(int64_t n_node, int64_t *indptr, uint32_t *indices, float *weights);

/* strength[v] = the sum of row v's weights. errors  STATUS_DATA a sum out of float32's range (file and node) */
enum status weights_strength(const char *file, int64_t n_node, const int64_t *indptr, const float *weights,
                             float *strength);

#endif
