/* Lists of payload rows that are not a pair's own, put together by both ranks in the same way, so that no list
 * travels.
 *
 * Rows that own parts receive from a part of another rank: hop after hop, receiver after receiver, every row where it
 * first comes. In a covered job the list's cover (dedup_cover.c): rows, then sums. Columns of own parts' blocks count
 * places in the list (part_remap.h); where each part needs its rows as they would come for it alone
 * (memory_plan_scatters), it has their places in the list instead.
 */
#ifndef WORKER_DEDUP_H
#define WORKER_DEDUP_H

#include "worker/rows/own_parts.h"

struct dedup;

/* Make the lists, where memory_plan_dedups. Own parts are listed and remapped, and not yet on the device.
 *
 *   owns    borrows own; the caller owns *out: dedup_close, also after a failure
 *   errors  STATUS_NOMEM
 */
enum status dedup_open(const struct own_parts *own, struct dedup **out);
void dedup_close(struct dedup *dedup);

/* How many rows: of other parts' those that this rank takes, of own ones those that others take. NULL of NULL: each
 * part's rows travel for it alone. */
const struct part_dedup *dedup_counts(const struct dedup *dedup);

/* What an own part gives to the parts of one side of another rank. */
struct dedup_list {
    enum part_direction d;
    int32_t hop; /* of a cover: edges up to it; of rows, all the same */
    int32_t i;   /* the own part */
    uint32_t rank;
    enum part_dedup_side side;
};

/* The rows (device), and how many sums come behind them. */
const uint32_t *dedup_sent(const struct dedup *dedup, const struct dedup_list *list);
int64_t dedup_sums(const struct dedup *dedup, const struct dedup_list *list);

/* All of these lists, as they are lent to the device; NULL of NULL. */
const struct part_lent *dedup_sent_lent(const struct dedup *dedup);

/* Places in its list of the rows of own part i's pair k, a part of another rank (device). */
const uint32_t *dedup_scatter(const struct dedup *dedup, enum part_direction d, int32_t i, int32_t k);

/* The edges of n_row sums from `first` on: columns are own rows. The block has no schedule. */
struct device_block dedup_sum_block(const struct dedup *dedup, const struct dedup_list *list, int64_t first,
                                    int64_t n_row);

/* Scales (NULL: no aggregate has any) and node ids of part q's rows that come (device). */
const float *dedup_scale(const struct dedup *dedup, enum part_direction d, int32_t hop, int32_t q,
                         enum part_dedup_side side);
const uint32_t *dedup_node(const struct dedup *dedup, enum part_direction d, int32_t hop, int32_t q,
                           enum part_dedup_side side);

/* The trimmed blocks of hops (part_device_setup.trimmed); and forget them, once own parts have copied them. */
struct part_edges *const *dedup_trimmed(const struct dedup *dedup);
void dedup_trimmed_end(struct dedup *dedup);

#endif
