/* What travels from a part to a worker when it is not each pair's rows: rows that several parts of the worker take, once for all of them; or
 * rows and sums, a cover (part_cover.h) of the edges from the part's rows to all rows of the worker's parts.
 *
 * A halo pass goes around the circle of parts; a part q of another worker comes by once for the worker's parts with greater numbers, whose
 * blocks with q come after those with their successors, and once for those with smaller numbers. So what a worker takes of q is
 * shared in two lists at most; one where the worker's parts have neighbouring numbers. Knows counts alone.
 */
#ifndef PARTITION_PART_SHARED_H
#define PARTITION_PART_SHARED_H

#include "partition/dataset.h"
#include "partition/part/part_halo.h"
#include "partition/partition.h"

#include <stdint.h>

/* Whose rows the list is of: takers' numbers are below the owner's, or above. */
enum part_shared_side { PART_SHARED_BELOW, PART_SHARED_ABOVE, PART_SHARED_N_SIDE };

/* Sums that a part makes for others, and the edges that are summed. */
struct part_sums {
    int64_t n_row, n_edge;
};

struct part_shared {
    int32_t n_part, n_hop;
    uint32_t n_rank;
    bool symmetric; /* both directions have the same array */
    bool covers;    /* what is listed are covers */
    bool spreads;   /* each part's rows are picked out of what came; else its blocks' columns count that */
    struct part_sums *sums[PART_DIRECTION_N]; /* n_part; NULL: nothing is covered */
    uint32_t *n_row
        [PART_DIRECTION_N]; /* n_part × n_rank × PART_SHARED_N_SIDE × (n_hop + 1): by owner, taker, side; rows of hop ≤ h, and all */
};

/* The list that part `to` takes part q's rows from. */
static inline enum part_shared_side part_shared_side_of(int32_t q, int32_t to)
{
    return to < q ? PART_SHARED_BELOW : PART_SHARED_ABOVE;
}

/* Memory for the counts, all 0.
 *
 *   owns    the caller owns *out: part_shared_release, also after a failure
 *   errors  STATUS_NOMEM
 */
enum status part_shared_acquire(int32_t n_part, uint32_t n_rank, int32_t n_hop, bool symmetric, struct part_shared *out);
void part_shared_release(struct part_shared *shared);

/* Bytes of that memory. */
int64_t part_shared_bytes(int32_t n_part, uint32_t n_rank, int32_t n_hop, bool symmetric);

/* Counts of all parts and workers, from the graph.
 *
 *   shapes  rank_of_part n_part
 *   owns    the caller owns *out: part_shared_release
 *   errors  STATUS_NOMEM
 *   cost    n_edge reads; where the graph is not symmetric twice, and n_node × 8 bytes
 */
enum status part_shared_build(const struct dataset *dataset, const struct partition *partition, const int32_t *rank_of_part,
                              uint32_t n_rank, struct part_shared *out);

/* Rows that travel without covers, each once to a worker's parts on one side; and with them, sums among them. */
struct part_cover_rows {
    int64_t n_halo, n_cover;
};

/* Counts of covers, from a graph whose rows are not ordered by hop.
 *
 *   shapes  rank_of_part n_part
 *   owns    the caller owns *out: part_shared_release
 *   errors  STATUS_NOMEM
 *   cost    n_edge reads, the matchings of all lists; n_node × 8 bytes and 8 bytes an edge into a worker's parts from others'
 */
enum status part_shared_cover(const struct dataset *dataset, const struct partition *partition, const int32_t *rank_of_part,
                              uint32_t n_rank, struct part_shared *out, struct part_cover_rows *rows_out);

/* Memory for sums, all 0. errors  STATUS_NOMEM */
enum status part_sums_acquire(struct part_shared *shared);

/* The place of the counts of one list: n_hop + 1. */
uint32_t *part_shared_at(const struct part_shared *shared, enum part_direction d, int32_t q, uint32_t rank,
                         enum part_shared_side side);

/* Rows up to a hop; all of them where there is no such hop. */
int64_t part_shared_rows(const struct part_shared *shared, enum part_direction d, int32_t q, uint32_t rank,
                         enum part_shared_side side, int32_t hop);

#endif
