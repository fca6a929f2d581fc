/* Which parts' rows each rank receives to score pairs of nodes: all rows of all parts of other ranks.
 *
 * An own part meets the others in the order of its own number, the next ones, … around the circle (D1). All own parts
 * walk together, twice around: those with smaller numbers than part q meet it on the first way, the others on the
 * second. Its rows come once for each way on which some do.
 */
#ifndef WORKER_PAIRS_ROUTES_H
#define WORKER_PAIRS_ROUTES_H

#include <stdbool.h>
#include <stdint.h>

/* The least and the greatest part of a rank. */
struct pairs_span {
    int32_t first, last;
};

struct pairs_span pairs_span_make(const uint32_t *rank_of_part, int32_t n_part, uint32_t rank);

/* Does a rank with these parts receive rows of another one's part q on this way, the first (0) or the second (1)? */
static inline bool pairs_receives(const struct pairs_span *span, int32_t q, int way)
{
    return way == 0 ? span->first < q : span->last > q;
}

/* The part that requests the rows, on this way. */
static inline int32_t pairs_receiver(const struct pairs_span *span, int way)
{
    return way == 0 ? span->first : span->last;
}

/* How many times a rank receives rows; how many times all other ranks receive those of its parts. */
int32_t pairs_n_received(const uint32_t *rank_of_part, int32_t n_part, uint32_t rank);
int32_t pairs_n_sent(const uint32_t *rank_of_part, int32_t n_part, uint32_t rank, uint32_t n_rank);

#endif
