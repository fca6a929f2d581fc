/* A list of pairs of own rows with rows of another part, as operations read it: sorted by direction and own row. */
#ifndef WORKER_PAIRS_LIST_H
#define WORKER_PAIRS_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A pair as it is drawn, and as one worker tells another of it: of part p's row, which is the edge's end that stays,
 * and part q's. */
struct pairs_item {
    uint32_t row, other; /* rows of p and of q; other PAIRS_LEFT_OUT: there is no such pair */
    uint32_t type;       /* 2 · the edge's relation, 0 without; + 1: p's row is its tail */
    union {
        uint32_t number; /* of its score, in p's */
        float slope;
    };
};

#define PAIRS_LEFT_OUT UINT32_MAX

/* A pair's relation, and whether an end of it is the tail. */
static inline uint32_t pairs_relation(uint32_t type)
{
    return type >> 1;
}

static inline bool pairs_is_tail(uint32_t type)
{
    return (type & 1U) != 0;
}

/* Pairs whose own rows are heads, then those whose own rows are tails. */
struct pairs_list {
    int64_t n, n_head;
    int64_t *end;     /* of each own row's, while it is sorted */
    uint32_t *rows;   /* own ones, ascending among heads, and among tails */
    uint32_t *places; /* rows of the other part */
    uint32_t *relations;
    union { /* as items have it */
        uint32_t *numbers;
        float *slopes;
    };
};

/* The bytes that a list takes; a list in such memory, with room for n_pair pairs of n_row own rows. */
size_t pairs_list_bytes(int64_t n_row, int64_t n_pair);
struct pairs_list pairs_list_in(void *memory, int64_t n_row, int64_t n_pair);

/* Sort items by p's row, or by q's, of n_row rows; those with the same row and direction stay in order. */
void pairs_list_sort(const struct pairs_item *item, int64_t n, bool by_other, int64_t n_row, struct pairs_list *out);

#endif
