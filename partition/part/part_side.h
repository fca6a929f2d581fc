/* One direction of one part while it is encoded: which blocks have edges, which rows of other parts they take, and
 * the bytes of the direction's sections. Private to part_encode.c.
 *
 * A side lists its non-empty blocks (and the diagonal) alone, and the nodes it takes in the order of the partition,
 * in which they lie part after part: counting and writing cost edges and nodes of this part, whatever the number of
 * parts.
 */
#ifndef PARTITION_PART_SIDE_H
#define PARTITION_PART_SIDE_H

#include "partition/part/out_edges.h"
#include "partition/part/part_format.h"

#include <stdint.h>

/* Tables that the sides of all parts take turns with. Between two calls every column is SIDE_COLUMN_NONE, and between
 * two parts every edge_place. */
struct side_tables {
    const struct dataset *dataset;
    const struct partition *partition;
    uint32_t *place;      /* n_node: each node's place in partition->order */
    uint32_t *column;     /* n_node: payload row of a node of another part in its block */
    int32_t *slot;        /* n_part: number of a part's block in the side at hand */
    uint32_t *edge_place; /* of each row of edges' features its row in the part; NULL: no features of edges */
};

#define SIDE_COLUMN_NONE UINT32_MAX

/* A block, and where the next entries of the direction's sections go while it is written. */
struct side_block {
    int32_t part;
    struct part_counts counts;
    int64_t seen; /* 1 + the last row that had an edge in it */
    int64_t first_row, first_ptr, first_edge;
    int64_t row, ptr, edge, row_edge; /* row_edge: the first edge of the row being written */
};

struct side {
    enum part_direction direction;
    int32_t part;
    int64_t n_own;
    const uint32_t *node; /* n_own */
    /* Row r's neighbours: indices[indptr[i] … indptr[i+1]), i = node[r] of the dataset's in-edges, row_first + r of
     * gathered out-edges. */
    const int64_t *indptr;
    const uint32_t *indices;
    const uint16_t *types;     /* of the same entries; NULL when untyped */
    const float *weights;      /* likewise; NULL unless weighted */
    const uint32_t *edge_rows; /* likewise, as the dataset's; NULL unless edges have features */
    int64_t row_first;
    int64_t widest;    /* most neighbours of a row */
    uint32_t *payload; /* n_payload of n_room: places of the nodes taken from other parts, ascending */
    int64_t n_payload, n_room;
    struct side_block *block; /* n_block: parts ascending */
    int32_t n_block;
};

/* Count one direction of a part: its blocks, their sizes, the nodes it takes. `out_edges` has the part gathered (OUT
 * alone).
 *
 *   owns    the caller owns *out, gives it back with side_release, also after a failure
 *   errors  STATUS_NOMEM
 */
enum status side_count(const struct side_tables *tables, enum part_direction direction, int32_t part,
                       const struct out_edges *out_edges, struct side *out);
void side_release(struct side *side);

/* Rows of edges' features: number those of the side's edges that have no number yet, n_row and up, and return how
 * many there are then; copy each to its number's place in `out`; take the numbers back. Nothing is done where edges
 * have no features. */
int64_t side_edge_rows_number(const struct side_tables *tables, const struct side *side, int64_t n_row);
void side_edge_rows_write(const struct side_tables *tables, const struct side *side, float *out);
void side_edge_rows_clear(const struct side_tables *tables, const struct side *side);

/* Write the direction's sections into the part's zeroed bytes, laid out as the header says. errors  STATUS_NOMEM */
enum status side_write(const struct side_tables *tables, struct side *side, const struct part_header *header,
                       void *bytes);

#endif
