/* Rows of edges with a second number each, in ascending order: by (type, source), (source, weight) or (source, row of
 * features).
 *
 * Sorted in place, as dataset_graph.c sorts rows of sources: a row may be the whole graph. Independent of the meaning
 * of both numbers.
 */
#ifndef PARTITION_ROW_PAIRS_H
#define PARTITION_ROW_PAIRS_H

#include <stdint.h>

/* Arrays that belong together entry by entry; one of types, weights and rows is there. */
struct row_pairs {
    uint32_t *source;
    uint16_t *type;
    float *weight; /* not negative, so that their bits order them */
    uint32_t *row; /* of features of edges */
};

/* The number that entries are ordered by. */
uint64_t row_pairs_key(struct row_pairs rows, int64_t i);
void row_pairs_put(struct row_pairs rows, int64_t i, uint64_t key);

/* Sort each of n_node rows, indptr[v] … indptr[v + 1]. cost  no memory */
void row_pairs_sort(int64_t n_node, const int64_t *indptr, struct row_pairs rows);

#endif
