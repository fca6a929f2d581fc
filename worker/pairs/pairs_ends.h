/* Pairs without an edge of the ends of edges (task.sampling = "ends"): at each of its ends an edge has some pairs in
 * which that end stays, and any node takes the place of the other.
 *
 * An edge's end with its pairs is a group, of the part that has the end's row. How many nodes a group's part draws
 * from another one follows from their numbers of rows, and which groups get them from a random order of all of them,
 * so that each pair of parts finds its own without looking at others. Every node is drawn alike. A pair that has an
 * edge of this relation, as far as training knows, is left out, and so is that of a node with itself.
 */
#ifndef WORKER_PAIRS_ENDS_H
#define WORKER_PAIRS_ENDS_H

#include "partition/part/part_halo.h"
#include "worker/pairs/pairs_draw.h"
#include "worker/pairs/pairs_list.h"

/* Pairs without an edge that part p draws from part q in an epoch (the key's; its stream is set here); the most in
 * any. */
int64_t pairs_ends_count(const struct pairs_draw *draw, const struct random_key *key, int32_t p, int32_t q);
int64_t pairs_ends_most(const struct pairs_draw *draw, int32_t p, int32_t q);

/* Ends of pairs with an edge in the part's rows whose other ends are in part q's; inverse: each edge of the graph
 * comes with one of an inverse relation, which is no pair. */
int64_t pairs_ends_between(const struct pairs_draw *draw, const struct part_halo *halo, bool inverse, int32_t q);

/* The same as the part's list has it. */
int64_t pairs_ends_listed(const struct pairs_draw *draw, const struct part *part, int32_t q);

/* The own part's pairs with an edge whose other ends are in part q; how many. */
int64_t pairs_ends_edges(const struct pairs_draw *draw, const struct part *own, int32_t q, struct pairs_item *out);

/* The own part's pairs with rows of part q, with an edge and then without: each edge's score has number (1 +
 * negatives) times its place in the part's list, and its pairs' scores follow. Returns how many items that makes,
 * those that are left out among them. chunks run on the device's threads. */
int64_t pairs_ends_block(const struct pairs_draw *draw, const struct random_key *key, const struct part *own,
                         int32_t q, struct device *device, struct pairs_item *out);

#endif
