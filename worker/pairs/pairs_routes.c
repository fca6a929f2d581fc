#include "worker/pairs/pairs_routes.h"

struct pairs_span pairs_span_make(const uint32_t *rank_of_part, int32_t n_part, uint32_t rank)
{
    struct pairs_span out = {.first = -1, .last = -1};
    for (int32_t q = 0; q < n_part; q++) {
        if (rank_of_part[q] == rank) {
            out.first = out.first < 0 ? q : out.first;
            out.last = q;
        }
    }
    return out;
}

/* How many times a rank receives rows of parts of rank `from`, or of all but its own where that is it. */
static int32_t n_between(const uint32_t *rank_of_part, int32_t n_part, uint32_t rank, uint32_t from)
{
    const struct pairs_span span = pairs_span_make(rank_of_part, n_part, rank);
    int32_t n = 0;
    for (int32_t q = 0; q < n_part; q++) {
        bool counts = from == rank ? rank_of_part[q] != rank : rank_of_part[q] == from;
        n += counts ? (int32_t)pairs_receives(&span, q, 0) + (int32_t)pairs_receives(&span, q, 1) : 0;
    }
    return n;
}

int32_t pairs_n_received(const uint32_t *rank_of_part, int32_t n_part, uint32_t rank)
{
    return n_between(rank_of_part, n_part, rank, rank);
}

int32_t pairs_n_sent(const uint32_t *rank_of_part, int32_t n_part, uint32_t rank, uint32_t n_rank)
{
    int32_t n = 0;
    for (uint32_t r = 0; r < n_rank; r++) {
        n += r != rank ? n_between(rank_of_part, n_part, r, rank) : 0;
    }
    return n;
}
