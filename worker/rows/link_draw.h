/* Pairs of nodes without an edge, drawn anew in each epoch: which ones, between the rows of two parts.
 *
 * Every two different nodes are drawn alike. The pairs of two parts are a function of seed, epoch and these parts
 * alone, so that both ends find the same ones, and no pair travels. How many there are follows from how many pairs of
 * nodes the two parts have, rounded so that all together are as many as wanted, in every epoch.
 */
#ifndef WORKER_LINK_DRAW_H
#define WORKER_LINK_DRAW_H

#include "models/device/device.h"
#include "partition/part/part.h"
#include "protocol/base/random.h"

#include <stddef.h>
#include <stdint.h>

/* Pairs that have an edge by chance are drawn again so many times. */
#define LINK_DRAW_TRIES 64

struct link_draw {
    int32_t n_part;
    int64_t n;      /* pairs in all, of an epoch */
    int64_t *begin; /* n_part + 1: the first place of each part's rows */
    /* n_part + 1: pairs of nodes, of which the one in the earlier part is in a part before */
    int64_t *before;
};

/* Of n pairs between parts that have so many rows. owns: the caller owns *out: link_draw_close */
void link_draw_open(int32_t n_part, const uint32_t *rows, int64_t n, struct link_draw *out);
void link_draw_close(struct link_draw *draw);

/* Pairs of parts a ≤ b in an epoch (the key's; its op and stream are set here), and the most in any. */
int64_t link_draw_count(const struct link_draw *draw, const struct random_key *key, int32_t a, int32_t b);
int64_t link_draw_most(const struct link_draw *draw, int32_t a, int32_t b);

/* The most memory that a block takes of any of these parts with any other one. */
size_t link_draw_bytes(const struct link_draw *draw, int32_t n_own, const int32_t *own);

/* What a part draws with part q, as device_links has it: places count q's rows from 0, in no order in a row. */
struct link_block {
    int64_t *indptr; /* rows of the part + 1 */
    uint32_t *places;
};

/* Draw it. Of the own part's list of pairs with an edge; memory of link_draw_bytes. chunks run on the device's
 * threads. */
struct link_block link_draw_block(const struct link_draw *draw, const struct random_key *key, const struct part *own,
                                  int32_t q, struct device *device, void *memory);

#endif
