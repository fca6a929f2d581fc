/* The lists of payload rows, for the two files that make them. */
#ifndef WORKER_SHARED_ROWS_STATE_H
#define WORKER_SHARED_ROWS_STATE_H

#include "worker/run/shared_rows.h"

/* What an own part gives to one taker: rows, then sums. */
struct shared_given {
    int64_t row;   /* where its rows begin */
    int64_t n_sum; /* sums behind them, */
    int64_t ptr;   /* where the ends of their edges begin, */
    int64_t edge;  /* and their edges */
};

struct shared_rows {
    struct part_shared counts;
    struct shared_given *given_list[PART_DIRECTION_N]; /* n_own × n_rank × PART_SHARED_N_SIDE */
    int64_t *taken_at[PART_DIRECTION_N];               /* n_part × PART_SHARED_N_SIDE: where a list begins */
    int64_t n_given, n_taken;                          /* rows of all lists */
    int64_t n_sum_ptr, n_sum_edge;
    uint32_t *given, *node; /* n_given, n_taken; SHARED */
    float *scale;           /* n_taken; SHARED. NULL: no aggregate has scales */
    int64_t *sum_ptr;   /* n_sum_ptr: ends of sums' edges from 0 in each list; SHARED, as what follows. NULL: there are none */
    uint32_t *sum_cols; /* n_sum_edge: own rows */
    float *sum_weights; /* n_sum_edge; NULL unless weighted */
};

/* Where an own part's list for a taker is. */
static inline int64_t shared_place(const struct trainer *trainer, int32_t i, uint32_t rank, enum part_shared_side side)
{
    return ((int64_t)i * trainer->setup.n_rank + rank) * PART_SHARED_N_SIDE + side;
}

/* Directions that have lists of their own. */
static inline int shared_n_direction(const struct shared_rows *rows)
{
    return rows->counts.symmetric ? 1 : PART_DIRECTION_N;
}

/* Count covers' lists, and with `write` fill them and trim the blocks of taken rows. Of graphs that are symmetric, one direction. */
void shared_cover_walk(struct trainer *trainer, bool write);

#endif
