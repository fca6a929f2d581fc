/* Which parts' rows each rank takes to score pairs of nodes: all rows of all parts of other ranks.
 *
 * An own part meets the others in the order of its own number, the next ones, … around the circle (D1). All own parts
 * walk together, twice around: those with smaller numbers than part q meet it on the first way, the others on the
 * second. Its rows come once for each way on which some do.
 */
#ifndef WORKER_LINK_ROUTES_H
#define WORKER_LINK_ROUTES_H

#include <stdbool.h>
#include <stdint.h>

/* The least and the greatest part of a rank. */
struct link_ends {
    int32_t first, last;
};

struct link_ends link_ends_of(const uint32_t *rank_of_part, int32_t n_part, uint32_t rank);

/* Does a rank with these parts take the rows of another one's part q on this way, the first (0) or the second (1)? */
static inline bool link_takes(const struct link_ends *ends, int32_t q, int way)
{
    return way == 0 ? ends->first < q : ends->last > q;
}

/* The part that the rows are asked for, on this way. */
static inline int32_t link_taker(const struct link_ends *ends, int way)
{
    return way == 0 ? ends->first : ends->last;
}

/* How many times a rank takes rows; how many times all other ranks take those of its parts. */
int32_t link_n_taken(const uint32_t *rank_of_part, int32_t n_part, uint32_t rank);
int32_t link_n_given(const uint32_t *rank_of_part, int32_t n_part, uint32_t rank, uint32_t n_rank);

#endif
