/* The lists of payload rows, for the two files that make them. */
#ifndef WORKER_DEDUP_STATE_H
#define WORKER_DEDUP_STATE_H

#include "worker/route/dedup.h"

/* What an own part gives to the parts of one rank on one side: rows, then sums. */
struct dedup_sent {
    int64_t row;   /* where its rows begin */
    int64_t n_sum; /* sums behind them, */
    int64_t ptr;   /* where the ends of their edges begin, */
    int64_t edge;  /* and their edges */
};

struct dedup {
    const struct own_parts *own;
    struct part_dedup counts;
    bool symmetric;                  /* the graph: lists of all edges are the same in both directions */
    uint32_t hops[PART_DIRECTION_N]; /* that have covers of their own (part_cover_input) */
    struct dedup_sent *sent_list[PART_DIRECTION_N]; /* n_own × n_rank × PART_DEDUP_N_SIDE × n_list */
    int64_t *taken_at[PART_DIRECTION_N];            /* n_part × PART_DEDUP_N_SIDE × n_list: where a list begins */
    struct part_edges **trimmed; /* n_part × …: blocks of hops (part_device_setup.trimmed); NULL: there are none */
    int64_t *pair_begin[PART_DIRECTION_N]; /* n_own + 1: pairs of the own parts before */
    int64_t *scatter_at[PART_DIRECTION_N]; /* by own part and pair: where its places begin */
    int64_t n_given, n_taken, n_scatter;   /* rows of all lists; of pairs that pick theirs out of them */
    int64_t n_sent_in, n_scatter_in;       /* those of in-edges, which come first */
    int64_t n_sum_ptr, n_sum_edge;
    uint32_t *sent; /* n_given */
    struct part_lent sent_lent;
    uint32_t *node;    /* n_taken; SHARED */
    uint32_t *scatter; /* n_scatter: places in lists; SHARED */
    float *scale;      /* n_taken; SHARED. NULL: no aggregate has scales */
    /* n_sum_ptr: ends of sums' edges from 0 in each list; SHARED, as what follows. NULL: there are none */
    int64_t *sum_ptr;
    uint32_t *sum_cols; /* n_sum_edge: own rows */
    float *sum_weights; /* n_sum_edge; NULL unless weighted */
};

/* n_list: each hop's and all edges' cover; of rows one, whose first ones are those of a hop. */
static inline int32_t dedup_n_list(const struct dedup *rows)
{
    return rows->counts.covers ? rows->counts.n_hop + 1 : 1;
}

/* Which of them is a hop's. */
static inline int32_t dedup_hop_list(const struct dedup *rows, int32_t hop)
{
    int32_t last = dedup_n_list(rows) - 1;
    return hop < last ? hop : last;
}

/* Where an own part's list for a taker is. */
static inline int64_t dedup_place(const struct dedup *rows, int32_t i, uint32_t rank, enum part_dedup_side side,
                                  int32_t hop)
{
    int64_t taker = ((int64_t)i * rows->own->n_rank + rank) * PART_DEDUP_N_SIDE + side;
    return taker * dedup_n_list(rows) + dedup_hop_list(rows, hop);
}

/* dedup_sent, as the host has it. */
const uint32_t *dedup_sent_here(const struct dedup *rows, const struct dedup_list *list);

/* A taker of a list's rows: what is the same on both ranks, if not the number, is their order. */
struct dedup_taker {
    int32_t i, k;        /* own part and its pair */
    const uint32_t *row; /* received: node ids; sent: own rows */
    struct part_rows (*rows)(const struct part_halo *halo, enum part_direction d, int32_t hop);
};

/* The union of the takers' rows, each at the place where it first comes; found by a hash table with room for twice as
 * many. */
struct dedup_merge {
    struct dedup_taker *taker; /* n_part at most: part numbers ascending */
    int32_t n_taker;
    uint32_t *row;   /* by place */
    uint32_t *table; /* 1 + place; 0: free */
    size_t n_table;  /* a power of two */
    uint32_t n_row;
};

/* The place of a row that is there. */
uint32_t dedup_row_place(const struct dedup_merge *merge, uint32_t row);

/* The lists of a direction at a hop, or of all edges; each as it was merged. */
struct dedup_way {
    enum part_direction d;
    int32_t hop;
};

#endif
