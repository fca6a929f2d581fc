/* One direction of one part: which blocks have edges, which rows of other parts they take, and the bytes of the
 * direction's sections. Private to partition/.
 *
 * A node is known by its place in the partition's order, in which nodes lie part after part: the places that a side
 * takes are a set of bits, and a payload row's number in its block is how many of them stand before it. Threads take
 * chunks of rows, whose counts say where each one's rows and edges begin in every block: the bytes do not depend on
 * the number of threads.
 */
#ifndef PARTITION_PART_SIDE_H
#define PARTITION_PART_SIDE_H

#include "partition/part/out_edges.h"
#include "partition/part/part_format.h"

#include <stdatomic.h>
#include <stdint.h>

/* A chunk's rows and edges in a block: counted, and then where the next ones go. */
struct side_cursor {
    int64_t row, edge;
    int64_t seen;     /* 1 + the last row that had an edge in the block */
    int64_t row_edge; /* the first edge of the row being written */
};

/* Tables that the sides of all parts take turns with. Between two parts every edge_place is SIDE_EDGE_ROW_NONE. */
struct side_tables {
    const struct dataset *dataset;
    const struct partition *partition;
    uint32_t *place; /* n_node: each node's place in partition->order */
    int32_t *part;   /* of every 2^shift-th place */
    int shift;
    int32_t *slot;        /* n_part: number of a part's block in the side being written */
    uint32_t *edge_place; /* of each row of edges' features its row in the part; NULL: no features of edges */
};

#define SIDE_EDGE_ROW_NONE UINT32_MAX

/* A block, and where its entries begin in the direction's sections. */
struct side_block {
    int32_t part;
    struct part_counts counts;
    int64_t first_row, first_ptr, first_edge;
};

/* Rows of a side that one thread reads, all of the same hop; the end of them is where the next chunk begins. */
struct side_chunk {
    int64_t row;
    int64_t edge;
    int64_t spare;  /* edges of the widest rows of the chunks before it */
    int64_t widest; /* most neighbours of a row */
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
    struct side_chunk *chunk; /* n_chunk + 1 */
    int32_t n_chunk;
    bool kept;       /* places of all edges' other ends; else of a row at a time of each chunk */
    uint32_t *place; /* n_place */
    int64_t n_place;
    _Atomic uint64_t *taken; /* n_word: a bit for each place that is taken from another part */
    uint32_t *before;        /* n_word: bits of the words before */
    size_t n_word;
    struct side_cursor *cursor; /* n_chunk × n_part */
    struct side_block *block;   /* n_block: parts ascending */
    int32_t n_block;
};

/* Tables for the sides of this partition. owns  given back with side_tables_close, also after a failure; borrows
 * both until then. errors  STATUS_NOMEM. cost  4 bytes a node */
enum status side_tables_open(const struct dataset *dataset, const struct partition *partition,
                             struct side_tables *out);
void side_tables_close(struct side_tables *tables);

/* Count one direction of a part: its blocks, their sizes, the nodes it takes. `out_edges` has the part gathered (OUT
 * alone). keeps: what side_write needs, 4 bytes for each edge. A bit for each node of the graph is
 * read and written.
 *
 *   owns    the caller owns *out, gives it back with side_release, also after a failure
 *   errors  STATUS_NOMEM
 */
enum status side_count(const struct side_tables *tables, enum part_direction direction, int32_t part,
                       const struct out_edges *out_edges, bool keeps, struct side *out);
void side_release(struct side *side);

/* Stored values of the sparse features of the nodes that are taken. */
int64_t side_values(const struct side_tables *tables, const struct side *side);

/* Block b's columns of hop ≤ h, h = 0 … n_hop - 1, added to zeros; and its rows and edges, by their rows' hops. */
void side_columns_hops(const struct side_tables *tables, const struct side *side, int32_t b, uint32_t *out);
void side_rows_hops(const struct side_tables *tables, const struct side *side, int32_t b, uint32_t *n_row_out,
                    int64_t *n_edge_out);

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
