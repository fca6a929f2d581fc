/* Arrays of edges as streams, in the two forms that files have. */
#ifndef PARTITION_DATASET_EDGES_H
#define PARTITION_DATASET_EDGES_H

#include "partition/files/npy.h"
#include "partition/graph/dataset_build.h"

/* Integers [2, E], in either order of memory: row 0 sources, row 1 destinations. Borrows `edges`. errors  STATUS_DATA
 * shape or dtype */
enum status edge_source_list(const struct npy *edges, struct edge_source *out);

/* Compressed rows, and the reader's current row. */
struct edge_rows {
    const struct npy *indptr, *indices;
    bool rows_are_sources; /* else destinations */
    int64_t row;
};

/* Row r's entries are indices[indptr[r] … indptr[r+1]). Borrows `rows`, which reading advances.
 * errors  STATUS_DATA shapes, offsets that fall or do not end at the number of entries */
enum status edge_source_rows(struct edge_rows *rows, int64_t n_node, struct edge_source *out);

#endif
