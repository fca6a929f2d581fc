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
#include "partition/rows/row_pairs.h"

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
    _Atomic uint64_t *received; /* n_word: a bit for each place that is taken from another part */
    uint32_t *before;           /* n_word: bits of the words before */
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
 * alone). keeps: what side_write needs, 4 bytes for each edge. A bit for each node
 * of the graph is read and written.
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

/* --- what counting and writing share --- */

/* Row r's neighbours. */
static inline void side_row(const struct side *side, int64_t r, const uint32_t **first, const uint32_t **end)
{
    int64_t i = side->direction == PART_DIRECTION_IN ? side->node[r] : side->row_first + r;
    *first = side->indices + side->indptr[i];
    *end = side->indices + side->indptr[i + 1];
}

/* The part that a place lies in. */
static inline int32_t side_part_at(const struct side_tables *tables, uint32_t place)
{
    int32_t part = tables->part[place >> tables->shift];
    while (place >= tables->partition->part_begin[part + 1]) {
        part++;
    }
    return part;
}

/* A chunk's cursors, by part. */
static inline struct side_cursor *side_cursors(const struct side_tables *tables, const struct side *side,
                                               int32_t chunk)
{
    return side->cursor + chunk * (int64_t)tables->partition->n_part;
}

/* Is the side worth several threads? */
static inline bool side_is_large(const struct side *side)
{
    return side->chunk[side->n_chunk].edge > ROWS_PARALLEL_LEAST;
}

/* The bits of the 64 places around this one. */
static inline uint64_t side_word(const struct side *side, int64_t place)
{
    return atomic_load_explicit(&side->received[place / 64], memory_order_relaxed);
}

/* Places below this one that are taken. */
static inline int64_t side_received_before(const struct side *side, int64_t place)
{
    uint64_t below = ((uint64_t)1 << place % 64) - 1;
    return side->before[place / 64] + __builtin_popcountll(side_word(side, place) & below);
}

/* The next place from `from` on that is taken; `end` if it is not below that. */
static inline int64_t side_received_next(const struct side *side, int64_t from, int64_t end)
{
    while (from < end) {
        uint64_t rest = side_word(side, from) >> from % 64;
        if (rest != 0) {
            from += __builtin_ctzll(rest);
            return from < end ? from : end;
        }
        from += 64 - from % 64;
    }
    return end;
}

/* The places of a block's columns: own ones, or those taken from its part. */
struct side_columns {
    int64_t begin, end;
    bool own;
};

static inline struct side_columns side_columns_at(const struct side_tables *tables, const struct side *side,
                                                  int32_t b)
{
    int32_t part = side->block[b].part;
    const int64_t *begin = tables->partition->part_begin + part;
    return (struct side_columns){.begin = begin[0], .end = begin[1], .own = part == side->part};
}

/* The place of the next column, from this place on. */
static inline int64_t side_column_next(const struct side *side, const struct side_columns *columns, int64_t from)
{
    return columns->own ? from : side_received_next(side, from, columns->end);
}

#endif
