/* Which payloads travel in a halo pass: the rows that own parts take and give.
 *
 * enum halo_direction (models/op.h) says which rows go where.
 * Pure counting from parts or from their sizes; the plan and the trainer read the same lists.
 */
#ifndef WORKER_HALO_ROWS_H
#define WORKER_HALO_ROWS_H

#include "models/op.h"
#include "partition/part/part.h"

#include <stdbool.h>
#include <stdint.h>

/* Rows between one own part and every other part: take[dir][q] rows of part q that this part's blocks read, give[dir][q] own
 * rows that part q's blocks read. Zero at its own place. Behind these, for each hop, those rows of them that training needs. */
struct halo_counts {
    int32_t part, n_part;
    int32_t n_hop;
    int64_t *take[PART_DIRECTION_N]; /* (1 + n_hop) × n_part each */
    int64_t *give[PART_DIRECTION_N];
};

/* Counts of one part; release with halo_counts_release. */
void halo_counts_from_part(const struct part *part, struct halo_counts *out);
void halo_counts_from_sizes(const struct part_sizes *sizes, int32_t n_part, int32_t part, struct halo_counts *out);
void halo_counts_release(struct halo_counts *part);

/* Rows part `own` receives from / sends to part `other` in this direction, of those that count up to this hop (program.h);
 * from n_hop on, all. */
int64_t halo_rows_in(const struct halo_counts *own, int32_t other, enum halo_direction direction, int32_t hop);
int64_t halo_rows_out(const struct halo_counts *own, int32_t other, enum halo_direction direction, int32_t hop);

/* One remote payload that own part `to` needs from part `from`. */
struct halo_fetch {
    int32_t to, from;
    int64_t n_row;
};

/* The remote payloads of a halo pass, in the order they are used: own parts ascending, from = to+1, to+2, … (mod K). */
struct halo_list {
    int32_t n_fetch;
    struct halo_fetch *fetch;
    int32_t n_serve;     /* payloads that other ranks take from here */
    int64_t n_serve_row; /* their rows, summed */
    int64_t n_fetch_row;
    int64_t most_fetch_row, most_serve_row; /* of the largest one */
};

/* Who owns what, as a rank sees it. */
struct halo_owners {
    int32_t n_part, n_own_part;
    const struct halo_counts *own; /* n_own_part */
    const uint32_t *rank_of_part;  /* n_part */
    uint32_t rank;
};

void halo_list_build(const struct halo_owners *owners, enum halo_direction direction, int32_t hop, struct halo_list *out);
void halo_list_release(struct halo_list *list);

#endif
