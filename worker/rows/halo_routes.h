/* Routes: rows of a part on their way to another worker in a halo pass. Both ends list them, in the same way, once a
 * pass.
 *
 * enum halo_direction (models/program/op.h) says which rows go where. Pure counting from the parts' pairs, as a part
 * or its sizes have them: the plan, of any worker, and the trainer list the same.
 */
#ifndef WORKER_HALO_ROUTES_H
#define WORKER_HALO_ROUTES_H

#include "models/program/op.h"
#include "partition/part/part_dedup.h"

#include <stdbool.h>
#include <stdint.h>

/* Rows that a part receives from / sends to others in this direction, of those that count up to this hop (program.h);
 * from n_hop on, all. */
struct part_rows halo_rows_in(const struct part_halo *own, enum halo_direction direction, int32_t hop);
struct part_rows halo_rows_out(const struct part_halo *own, enum halo_direction direction, int32_t hop);

/* The hop by which a training pass's payloads are counted: of the rows that travel, or of covers, of the output's.
 * shared may be NULL. */
int32_t halo_list_hop(const struct part_dedup *dedup, const struct program *program, const struct op *op,
                      const struct halo_pass *pass);

/* Pairs of a part, whatever the direction. */
int64_t halo_n_pair(const struct part_halo *own);

/* Rows that a part takes over in-edges, and gives, of all its pairs together. */
int64_t halo_n_received(const struct part_halo *own);
int64_t halo_n_sent(const struct part_halo *own);

/* Counts that an own part's sample has (halo_drawn), in all. */
int64_t halo_n_drawn(const struct part_halo *own);

/* How many rows of each of a part's pairs a sample has: as part_rows.drawn. */
struct halo_drawn {
    uint32_t *received; /* of payload rows, by pair of in-edges */
    uint32_t *sent;     /* of own rows, by pair of out-edges */
    uint32_t *before;   /* n_pair + 1 of in-edges: payload rows of the pairs before, on the diagonal all own ones */
};

/* Who owns what, as a rank sees it. */
struct halo_owners {
    int32_t n_own_part;
    const struct part_halo **own; /* n_own_part, part numbers ascending */
    const uint32_t *rank_of_part; /* by part */
    uint32_t rank;
    const struct part_dedup *dedup; /* rows that own parts share; NULL: a part's travel for it alone */
    const struct halo_drawn *drawn; /* n_own_part: a sample, which is of in-edges; NULL: all rows travel */
};

/* Rows that own part i takes from others, or gives to them: halo_rows_in and _out, of a sample where there is one. */
struct part_rows halo_owners_in(const struct halo_owners *owners, int32_t i, enum halo_direction direction,
                                int32_t hop);
struct part_rows halo_owners_out(const struct halo_owners *owners, int32_t i, enum halo_direction direction,
                                 int32_t hop);

/* The edges that rows travel over; gradients that return come from over the rows' own. */
static inline enum part_direction halo_edges(enum halo_direction direction)
{
    return direction == HALO_DIRECTION_OUT ? PART_DIRECTION_OUT : PART_DIRECTION_IN;
}

/* Rows of part `from` for part `to`, or for all parts of its worker on its side of `from` (part_dedup.h): one of the
 * two is an own part. */
struct halo_route {
    int32_t from, to;
    int32_t i; /* own part; of deduplicated rows that are received one of those that read them */
    int32_t k; /* its pair; of deduplicated rows (is_dedup) the other worker and side: halo_route_taker */
    bool is_dedup;
    /* the other worker has asked for it in this pass, or where it is taken for the rows that it is made of
     * (halo_pass.ask) */
    bool begun;
    int64_t n_row;
};

/* How many, and their rows: summed, and of the largest one. */
struct halo_route_sums {
    int32_t n;
    int64_t n_row, most_row;
};

struct halo_route_totals {
    struct halo_route_sums received, sent;
};

struct halo_routes {
    struct halo_route *take, *give; /* in the order they are used; by own part, then receiver */
    struct halo_route_totals total;
};

/* Bytes of the most that a pass of any direction has. */
int64_t halo_routes_bytes(const struct halo_owners *owners);

/* Memory for them, counted by the caller: routes_bytes. */
void halo_routes_open(const struct halo_owners *owners, struct halo_routes *out);
void halo_routes_close(struct halo_routes *routes);

/* The routes of a pass: those of pairs, or of deduplicated rows. Taken ones are in the order of blocks: own parts
 * ascending, from = to+1, to+2, … (mod K); shared ones twice around the circle of parts, at most once for each
 * side. */
void halo_routes_list(const struct halo_owners *owners, enum halo_direction direction, int32_t hop,
                      struct halo_routes *out);

/* Their totals alone. */
struct halo_route_totals halo_routes_total(const struct halo_owners *owners, enum halo_direction direction,
                                           int32_t hop);

/* The route that own part i sends to receiver k, or that it receives of its pair k; NULL: there is none. */
struct halo_route *halo_routes_sent(const struct halo_routes *routes, int32_t i, int32_t k);
struct halo_route *halo_routes_received(const struct halo_routes *routes, const struct halo_owners *owners,
                                        enum halo_direction direction, int32_t i, int32_t k);

/* The number of a worker's parts on one side, as takers of deduplicated rows. */
static inline int32_t halo_route_taker(uint32_t rank, enum part_dedup_side side)
{
    return (int32_t)rank * PART_DEDUP_N_SIDE + (int32_t)side;
}

#endif
