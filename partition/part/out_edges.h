/* Out-edges of a run of parts, gathered from the dataset's in-edges: what the transposed direction of a part is
 * encoded from.
 *
 * Encoding all parts of a directed graph needs each out-edge once. A whole transposed graph would double the
 * coordinator's memory, and a scan of all edges per part costs parts × edges: parts are therefore gathered in runs.
 */
#ifndef PARTITION_OUT_EDGES_H
#define PARTITION_OUT_EDGES_H

#include "partition/graph/dataset.h"
#include "partition/part/partition.h"

#include <stdint.h>

struct out_edges {
    const struct dataset *dataset;
    const struct partition *partition;
    const uint32_t *place; /* n_node: each node's place in partition->order */
    int32_t part_end;      /* parts from here on are not gathered ahead */
    int64_t *n_of_part;    /* n_part: out-edges of each part's nodes */
    int32_t first, last;   /* the parts that are gathered, last excluded */
    int64_t n_row, n_edge; /* of those parts */
    int64_t *indptr;       /* n_row + 1: row r is the node at place part_begin[first] + r */
    uint32_t *indices;     /* n_edge: destinations, ascending in a row */
    uint16_t *types;       /* n_edge; NULL when untyped */
    float *weights;        /* n_edge; NULL unless weighted */
    uint32_t *edge_rows;   /* n_edge: as the dataset's; NULL unless edges have features */
};

/* Count each part's out-edges. part_end: as above, n_part where all parts are wanted.
 *
 *   owns    borrows all three; the caller owns *out and gives it back with out_edges_release
 *   cost    one scan of the edges
 */
void out_edges_init(const struct dataset *dataset, const struct partition *partition, const uint32_t *place,
                    int32_t part_end, struct out_edges *out);
void out_edges_release(struct out_edges *out);

/* Have this part among the gathered ones: with it the parts that follow, up to a quarter of all edges together.
 *
 *   errors  STATUS_NOMEM
 *   cost    none where the part is there, else two scans of the edges: at most 18 for all parts in ascending order
 */
enum status out_edges_gather(struct out_edges *out, int32_t part);

#endif
