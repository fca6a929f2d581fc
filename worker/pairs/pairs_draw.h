/* Pairs of nodes without an edge, drawn anew in each epoch: which ones, between the rows of two parts.
 *
 * Every two different nodes are drawn alike, and pairs that have an edge by chance are left out. The pairs of two
 * parts are a function of seed, epoch and these parts alone, so that both ends find the same ones, and no pair
 * travels. How many are drawn follows from how many pairs of nodes the two parts have, rounded so that all together
 * are as many as wanted, in every epoch; how many of them have no edge is known in the mean.
 */
#ifndef WORKER_PAIRS_DRAW_H
#define WORKER_PAIRS_DRAW_H

#include "models/device/device.h"
#include "partition/part/part.h"
#include "protocol/base/random.h"
#include "worker/pairs/pairs_list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pairs_draw {
    int32_t n_part;
    int64_t n;      /* pairs in all, of an epoch, with those that are left out */
    double n_kept;  /* of them without an edge, in the mean; 0: not known */
    int64_t *begin; /* n_part + 1: the first place of each part's rows */
    int64_t *n_end; /* n_part: ends of pairs with an edge in each part's rows */
    int64_t negatives;
    bool of_ends; /* pairs are drawn at the ends of those with an edge (pairs_ends.h) */
    /* n_part + 1: pairs of nodes, of which the one in the earlier part is in a part before */
    int64_t *before;
};

static inline int64_t pairs_part_rows(const struct pairs_draw *draw, int32_t part)
{
    return draw->begin[part + 1] - draw->begin[part];
}

/* What a draw is of: pairs with an edge, of the whole graph, and how many others are wanted for each. */
struct pairs_draw_input {
    int32_t n_part;
    const uint32_t *rows; /* n_part: of each part */
    const int64_t *ends;  /* n_part: likewise ends of pairs with an edge */
    int64_t n_link;       /* as the graph has them, some twice */
    int64_t n_joined;     /* different ones; -1: not known, and neither is n_kept */
    int64_t negatives;
    bool of_ends;
};

/* owns: the caller owns *out: pairs_draw_close */
void pairs_draw_open(const struct pairs_draw_input *in, struct pairs_draw *out);
void pairs_draw_close(struct pairs_draw *draw);

/* Pairs of parts a ≤ b in an epoch (the key's; its stream is set here), and the most in any. */
int64_t pairs_draw_count(const struct pairs_draw *draw, const struct random_key *key, int32_t a, int32_t b);
int64_t pairs_draw_most(const struct pairs_draw *draw, int32_t a, int32_t b);

/* The most memory that a block takes of any of these parts with any other one. */
size_t pairs_draw_bytes(const struct pairs_draw *draw, int32_t n_own, const int32_t *own);

/* What a part draws with part q, as device_links has it: places count q's rows from 0, in no order in a row. */
struct pairs_block {
    int64_t *indptr; /* rows of the part + 1 */
    uint32_t *places;
};

/* Draw it. Of the own part's list of pairs with an edge; memory of pairs_draw_bytes. chunks run on the device's
 * threads. */
struct pairs_block pairs_draw_block(const struct pairs_draw *draw, const struct random_key *key,
                                    const struct part *own, int32_t q, struct device *device, void *memory);

/* Its pairs as items, one for each place: from row to row, which end is the head drawn likewise for both ends. */
int64_t pairs_draw_items(const struct pairs_draw *draw, const struct pairs_block *block, const struct part *own,
                         int32_t q, struct pairs_item *out);

#endif
