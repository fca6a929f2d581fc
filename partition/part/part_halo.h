/* The pairs of parts that share edges, and how many rows and edges each has: what a halo pass walks and a plan
 * counts.
 *
 * A pair without an edge is not listed and costs nothing; a listed one costs an entry in each direction. A part has
 * the lists of its own pairs, and so has each of part_sizes. Knows counts alone: arrays of edges are part.h's.
 */
#ifndef PARTITION_PART_HALO_H
#define PARTITION_PART_HALO_H

#include "protocol/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A halo direction. For IN, the block with part j holds edges from part j into this part. For OUT (the transposed
 * graph, for gradients), the block with part i holds edges from this part into part i, by own source row. The same
 * arrays when the graph is symmetric. What a part gives in one direction is listed in the other one: own rows with an
 * edge towards the taker. */
enum part_direction { PART_DIRECTION_IN, PART_DIRECTION_OUT, PART_DIRECTION_N };

/* Most hops that are told apart: rows further away are in no count but that of all rows. */
#define PART_N_HOP_MOST 16

/* A block, by what stands before it in its direction: own rows listed, edges, and payload rows; on the diagonal own
 * rows are both. */
struct part_pair {
    int64_t row;
    int64_t edge;
    uint32_t col;
    int32_t part; /* the other one */
};

/* One direction's blocks. */
struct part_pairs {
    int32_t n_pair;         /* those with an edge, and the diagonal */
    int32_t own;            /* place of the diagonal */
    struct part_pair *pair; /* n_pair + 1: part numbers ascending, and where all end */
    uint32_t *n_row_hop;    /* n_pair × n_hop: of its own rows those of hop ≤ h; NULL where n_hop is 0 */
    uint32_t *n_col_hop;    /* n_pair × n_hop: likewise of its payload rows */
};

struct part_halo {
    int32_t part, n_part;
    int32_t n_hop;
    bool symmetric; /* both directions have the same arrays */
    struct part_pairs pairs[PART_DIRECTION_N];
    int64_t n_edge_hop[PART_DIRECTION_N]
                      [PART_N_HOP_MOST]; /* edges into own rows (OUT: from own rows), destination's hop ≤ h */
};

/* Acquire memory for n_pair pairs in a direction of a zeroed halo whose n_hop is known.
 *
 *   owns    given back with part_halo_release, also after a failure
 *   errors  STATUS_NOMEM
 */
enum status part_halo_acquire(struct part_halo *halo, enum part_direction d, int32_t n_pair);

/* In-edges are listed: where the graph is symmetric, so are out-edges. */
void part_halo_mirror(struct part_halo *halo);
void part_halo_release(struct part_halo *halo);

/* Bytes of that memory. */
int64_t part_pairs_bytes(int32_t n_pair, int32_t n_hop);

/* Place of the pair with part q; -1: there is none. */
int32_t part_pair_find(const struct part_pairs *pairs, int32_t q);

static inline int64_t part_pair_rows(const struct part_pairs *pairs, int32_t k)
{
    return pairs->pair[k + 1].row - pairs->pair[k].row;
}

static inline int64_t part_pair_cols(const struct part_pairs *pairs, int32_t k)
{
    return pairs->pair[k + 1].col - pairs->pair[k].col;
}

static inline int64_t part_pair_edges(const struct part_pairs *pairs, int32_t k)
{
    return pairs->pair[k + 1].edge - pairs->pair[k].edge;
}

/* What stands before block k, or all, when the diagonal is left out. */
static inline struct part_pair part_pair_off_diagonal(const struct part_pairs *pairs, int32_t k)
{
    struct part_pair at = pairs->pair[k];
    if (k > pairs->own) {
        at.row -= part_pair_rows(pairs, pairs->own);
        at.edge -= part_pair_edges(pairs, pairs->own);
        at.col -= (uint32_t)part_pair_cols(pairs, pairs->own);
    }
    return at;
}

/* Rows that travel between a part and its others in a halo pass, one way: of each pair its own rows or its payload
 * rows. */
struct part_rows {
    const struct part_pairs *pairs;
    bool cols;
    int32_t n_hop, hop;    /* those up to this hop; all where that is n_hop or more */
    const uint32_t *drawn; /* n_pair × (n_hop + 1): of a sample, up to each hop, and all; NULL: each row travels */
};

/* Rows that the part takes from others in a direction, and rows that it gives. */
struct part_rows part_halo_received(const struct part_halo *halo, enum part_direction d, int32_t hop);
struct part_rows part_halo_sent(const struct part_halo *halo, enum part_direction d, int32_t hop);

/* Of pair k; 0 on the diagonal. */
static inline int64_t part_rows_at(const struct part_rows *rows, int32_t k)
{
    const struct part_pairs *pairs = rows->pairs;
    if (k == pairs->own) {
        return 0;
    }
    if (rows->drawn != NULL) {
        return rows->drawn[k * ((int64_t)rows->n_hop + 1) + (rows->hop < rows->n_hop ? rows->hop : rows->n_hop)];
    }
    if (rows->hop < rows->n_hop) {
        return (rows->cols ? pairs->n_col_hop : pairs->n_row_hop)[k * (int64_t)rows->n_hop + rows->hop];
    }
    return rows->cols ? part_pair_cols(pairs, k) : part_pair_rows(pairs, k);
}

/* Own rows of hop ≤ h; all of them where h ≥ n_hop. */
static inline int64_t part_halo_own(const struct part_halo *halo, int32_t hop)
{
    const struct part_pairs *pairs = &halo->pairs[PART_DIRECTION_IN];
    return hop < halo->n_hop ? pairs->n_col_hop[pairs->own * (int64_t)halo->n_hop + hop]
                             : part_pair_cols(pairs, pairs->own);
}

/* Of the pair with part q; 0 where there is none. */
int64_t part_rows_with(const struct part_rows *rows, int32_t q);

/* Of all pairs, and of the pair that has most. */
int64_t part_rows_all(const struct part_rows *rows);
int64_t part_rows_most(const struct part_rows *rows);

#endif
