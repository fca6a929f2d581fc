/* Which payloads travel in a halo pass: the rows that own parts take and give.
 *
 * enum halo_direction (models/program/op.h) says which rows go where.
 * Pure counting from a part's pairs, as the part or its sizes have them; the plan and the trainer count alike.
 */
#ifndef WORKER_HALO_ROWS_H
#define WORKER_HALO_ROWS_H

#include "models/program/op.h"
#include "partition/part/part_shared.h"

#include <stdbool.h>
#include <stdint.h>

/* Rows that a part receives from / sends to others in this direction, of those that count up to this hop (program.h); from n_hop
 * on, all. */
struct part_rows halo_rows_in(const struct part_halo *own, enum halo_direction direction, int32_t hop);
struct part_rows halo_rows_out(const struct part_halo *own, enum halo_direction direction, int32_t hop);

/* The hop by which a training pass's payloads are counted: of the rows that travel, or of covers, of the output's. shared may be NULL. */
int32_t halo_list_hop(const struct part_shared *shared, const struct program *program, const struct op *op,
                      const struct halo_pass *pass);

/* Flags for a part's payloads, by pair, whatever the direction. */
int64_t halo_n_flag(const struct part_halo *own);

/* Those that other ranks take of it in one pass, at most: by pair, or where rows are shared, by rank and side; both where passes differ. */
int64_t halo_n_taker(const struct part_halo *own, uint32_t n_rank, const struct part_shared *shared);

/* Rows that a part takes over in-edges, and gives, of all its pairs together. */
int64_t halo_n_taken(const struct part_halo *own);
int64_t halo_n_given(const struct part_halo *own);

/* Bytes of an own part's lists of sampled rows, at their largest, and of their counts (worker/route/sample.h). *lists_out: of them
 * what the device reads. */
int64_t halo_sample_bytes(const struct part_halo *own, int64_t *lists_out);

/* Who owns what, as a rank sees it. */
struct halo_owners {
    int32_t n_own_part;
    const struct part_halo *const *own; /* n_own_part, part numbers ascending */
    const uint32_t *rank_of_part;       /* by part */
    uint32_t rank;
    const struct part_shared *shared; /* rows that own parts share; NULL: a part's travel for it alone */
};

/* The remote payloads of a halo pass. */
struct halo_list {
    int32_t n_fetch;
    int32_t n_serve;     /* payloads that other ranks take from here */
    int64_t n_serve_row; /* their rows, summed */
    int64_t n_fetch_row;
    int64_t most_fetch_row, most_serve_row; /* of the largest one */
};

struct halo_list halo_list_count(const struct halo_owners *owners, enum halo_direction direction, int32_t hop);

/* The edges that rows travel over; gradients that return come from over the rows' own. */
static inline enum part_direction halo_edges(enum halo_direction direction)
{
    return direction == HALO_DIRECTION_OUT ? PART_DIRECTION_OUT : PART_DIRECTION_IN;
}

/* A remote payload that own part `to`, and of its side of `from` those that share its rows, needs from part `from`. */
struct halo_fetch {
    int32_t to, from;
    int64_t n_row;
};

/* How far a walk over a pass's remote payloads has come; zeroed: they all lie ahead. */
struct halo_cursor {
    int32_t i; /* own part; of shared rows: steps around the circle of parts */
    int32_t s; /* its pairs, counted from its own place */
};

/* The next payload in the order they are used: own parts ascending, from = to+1, to+2, … (mod K); shared ones twice around the circle, at
 * most once for each side. false: there is none left. */
bool halo_fetch_next(const struct halo_owners *owners, enum halo_direction direction, int32_t hop,
                     struct halo_cursor *cursor, struct halo_fetch *out);

#endif
