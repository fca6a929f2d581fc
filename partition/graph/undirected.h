/* The graph for partitioners: symmetric, without loops, each neighbour once, in 32-bit numbers.
 *
 * Of METIS it uses only the width of its numbers.
 */
#ifndef PARTITION_UNDIRECTED_H
#define PARTITION_UNDIRECTED_H

#include "partition/graph/dataset.h"

#include <stdint.h>

struct undirected {
    int64_t n_node;
    int64_t n_entry;  /* each edge counts twice */
    int32_t *indptr;  /* n_node + 1 */
    int32_t *indices; /* n_entry, ascending in a row */
};

/* Build it from the dataset's in-edges.
 *
 *   n_entry_most  at most INT32_MAX
 *   owns          the caller owns *out: undirected_release
 *   errors        STATUS_DATA more than n_entry_most entries, or n_node past INT32_MAX; STATUS_NOMEM
 *   cost          n_entry × 4 bytes; while a directed graph is built, n_edge × 4 + n_node × 8 more, typed twice that
 */
enum status undirected_build(const struct dataset *dataset, int64_t n_entry_most, struct undirected *out);

void undirected_release(struct undirected *graph);

#endif
