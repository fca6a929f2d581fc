/* What travels from a part to a worker when it is not each pair's rows: rows that several parts of the worker take,
 * once for all of them; or rows and sums, a cover (part_cover.h) of the edges from the part's rows to all rows of the
 * worker's parts.
 *
 * A halo pass goes around the circle of parts; a part q of another worker comes by once for the worker's parts with
 * greater numbers, whose blocks with q come after those with their successors, and once for those with smaller
 * numbers. So what a worker takes of q is shared in two lists at most; one where the worker's parts have neighbouring
 * numbers. Knows counts alone.
 */
#ifndef PARTITION_PART_DEDUP_H
#define PARTITION_PART_DEDUP_H

#include "partition/graph/dataset.h"
#include "partition/part/part_halo.h"
#include "partition/part/partition.h"

#include <stdint.h>

/* Whose rows the list is of: takers' numbers are below the owner's, or above. */
enum part_dedup_side { PART_DEDUP_BELOW, PART_DEDUP_ABOVE, PART_DEDUP_N_SIDE };

/* Sums that a part makes for others, and the edges that are summed. */
struct part_sums {
    int64_t n_row, n_edge;
};

struct part_dedup {
    int32_t n_part, n_hop;
    uint32_t n_rank;
    bool mirrors;  /* both directions have the same array */
    bool covers;   /* what is listed are covers */
    bool scatters; /* each part's rows are picked out of what came; else its blocks' columns count that */
    struct part_sums *sums[PART_DIRECTION_N]; /* n_part × (n_hop + 1); NULL: nothing is covered */
    /* n_part × n_rank × PART_DEDUP_N_SIDE × (n_hop + 1): by owner, taker, side; rows of hop ≤ h, and all.
     * Covers: rows and sums for the edges into rows of hop ≤ h */
    uint32_t *n_row[PART_DIRECTION_N];
};

/* The list that part `to` takes part q's rows from. */
static inline enum part_dedup_side part_dedup_side_at(int32_t q, int32_t to)
{
    return to < q ? PART_DEDUP_BELOW : PART_DEDUP_ABOVE;
}

/* Both directions share an array where the graph is symmetric; but edges into rows of a hop, which a cover is of,
 * have no such mirror. */
static inline bool part_dedup_mirrors(bool symmetric, bool covers, int32_t n_hop)
{
    return symmetric && !(covers && n_hop > 0);
}

/* Memory for the counts, all 0; mirrors: of one direction.
 *
 *   owns    the caller owns *out: part_dedup_release, also after a failure
 *   errors  STATUS_NOMEM
 */
enum status part_dedup_acquire(int32_t n_part, uint32_t n_rank, int32_t n_hop, bool mirrors, struct part_dedup *out);
void part_dedup_release(struct part_dedup *dedup);

/* Bytes of that memory. */
int64_t part_dedup_bytes(int32_t n_part, uint32_t n_rank, int32_t n_hop, bool mirrors);

/* Counts of all parts and workers, from the graph.
 *
 *   shapes  rank_of_part n_part
 *   owns    the caller owns *out: part_dedup_release
 *   errors  STATUS_NOMEM
 *   cost    n_edge reads; where the graph is not symmetric twice, and n_node × 8 bytes
 */
enum status part_dedup_build(const struct dataset *dataset, const struct partition *partition,
                             const int32_t *rank_of_part, uint32_t n_rank, struct part_dedup *out);

/* Rows that travel without covers, each once to a worker's parts on one side; and with them, sums among them. */
struct part_cover_rows {
    int64_t n_halo, n_cover;
};

/* What covers are counted of. */
struct part_cover_input {
    const struct dataset *dataset;
    const struct partition *partition;
    const int32_t *rank_of_part; /* n_part */
    uint32_t n_rank;
    uint32_t hops
        /* bit h: rows travel for edges into rows of hop ≤ h, which then have a cover of their own */
        [PART_DIRECTION_N];
};

/* Counts of covers: of all edges, and of those up to the hops.
 *
 *   owns    the caller owns *out: part_dedup_release
 *   errors  STATUS_NOMEM
 *   cost    n_edge reads, twice, the matchings of all lists, on all cores; n_node × 4 bytes, and for each thread
 *           n_node × 12 bytes and 8 bytes an edge into a worker's parts, of all threads at most 8 an edge
 */
enum status part_dedup_cover(const struct part_cover_input *in, struct part_dedup *out,
                             struct part_cover_rows *rows_out);

/* Memory for sums, all 0. errors  STATUS_NOMEM */
enum status part_sums_acquire(struct part_dedup *dedup);
int64_t part_sums_bytes(int32_t n_part, int32_t n_hop, bool mirrors);

/* Those that part q makes for edges into rows of hop ≤ h, or for all. */
static inline struct part_sums *part_sums_at(const struct part_dedup *dedup, enum part_direction d, int32_t q,
                                             int32_t hop)
{
    return &dedup->sums[d][q * ((int64_t)dedup->n_hop + 1) + (hop < dedup->n_hop ? hop : dedup->n_hop)];
}

/* Of a symmetric graph whose directions have arrays of their own: all edges' counts, which are the same in both, are
 * those of in-edges. */
void part_dedup_mirror(struct part_dedup *dedup);

/* The place of the counts of one list: n_hop + 1. */
uint32_t *part_dedup_at(const struct part_dedup *dedup, enum part_direction d, int32_t q, uint32_t rank,
                        enum part_dedup_side side);

/* Rows up to a hop, or a cover's for edges up to one; all of them where there is no such hop. */
int64_t part_dedup_rows(const struct part_dedup *dedup, enum part_direction d, int32_t q, uint32_t rank,
                        enum part_dedup_side side, int32_t hop);

#endif
