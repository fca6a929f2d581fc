/* Multilevel partitioning of large graphs: coarsening by clusters of limited weight, a method for the coarsest graph,
 * projection and refinement.
 *
 * Independent of METIS. One thread, no random numbers: the same graph gives the same parts.
 *
 * source  Meyerhenke, Sanders & Schulz, "Partitioning complex networks via size-constrained clustering" (2014)
 */
#ifndef PARTITION_PARTITION_COARSEN_H
#define PARTITION_PARTITION_COARSEN_H

#include <stdint.h>

#define COARSEN_N_CONSTRAINT 2
#define COARSEN_CLUSTERS_A_PART 64 /* what becomes one node has at most this fraction of a part's weight */

/* Symmetric, without loops. */
struct weighted_graph {
    int32_t n_node, n_constraint;
    int32_t *indptr, *indices; /* n_node + 1; indptr[n_node] */
    int32_t *edge_weight;      /* likewise; NULL: 1 each */
    int32_t *node_weight;      /* n_node × n_constraint */
};

/* Partitions the coarsest graph: fills owner (n_node), and returns 0, or what coarsen_parts returns then. */
typedef int coarsest_method(const void *context, const struct weighted_graph *graph, int32_t *owner);

/* Fill owner (n_node) with part numbers below n_part. Graphs of fewer than n_entry_few entries are the method's at
 * once.
 *
 *   returns  what the method does
 *   cost     up to 25 scans of each level's edges, a random access each; copies of the coarse graphs, and 24 bytes a
 *            node. Aborts without memory, as memory_alloc
 */
int coarsen_parts(const struct weighted_graph *graph, int32_t n_entry_few, int32_t n_part, coarsest_method *method,
                  const void *context, int32_t *owner);

#endif
