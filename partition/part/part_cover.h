/* Minimum vertex covers of the edges from a part's rows to rows of others: which of them are served by their source's
 * row, and which by a sum that the source's part makes for their destination.
 *
 * Rows that travel stand on one side, rows that take them on the other. A cover has an end of every edge; a taker in
 * it gets one row, the sum over all its edges from this part, instead of its sources' rows. The least cover is as
 * large as the greatest matching. Both ends find the same one from the same edges, so that nothing about it travels.
 * source  Hopcroft & Karp, SIAM J. Comput. 2 (1973); König 1931
 */
#ifndef PARTITION_PART_COVER_H
#define PARTITION_PART_COVER_H

#include <stdbool.h>
#include <stdint.h>

/* Edges by the row that travels: those of giver g are taker[indptr[g] … indptr[g+1]), ascending. */
struct part_cover_edges {
    int64_t n_giver, n_taker;
    const int64_t *indptr;
    const uint32_t *taker;
};

/* A taker with more edges than this leaves its list without sums: kernels cut such rows in pieces. */
#define PART_COVER_EDGES_MOST 65536

/* The same edges by their other end: indptr_out n_taker + 1, giver_out n_edge; from_out (NULL: not wanted) n_edge:
 * where each was. */
void part_cover_turn(const struct part_cover_edges *edges, int64_t *indptr_out, uint32_t *giver_out,
                     int64_t *from_out);

/* The least cover, or all givers with edges where that has no fewer rows.
 *
 *   shapes  sends_out n_giver: rows that travel · sums_out n_taker: takers for which a sum travels instead
 *   returns rows of both kinds
 *   cost    n_edge × sqrt(n_giver) at worst, a few times n_edge mostly; 5 numbers of 4 bytes a row
 */
int64_t part_cover(const struct part_cover_edges *edges, bool *sends_out, bool *sums_out);

#endif
