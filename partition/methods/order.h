/* The order of nodes inside each part: neighbours near one another, so that gathered rows are still in cache.
 *
 * order.c makes candidates, measures each and keeps the best; order_cluster.c and order_breadth.c make one each. A
 * candidate is one sequence of all nodes; parts take their nodes from it in its order. Independent of files and
 * layers.
 */
#ifndef PARTITION_ORDER_H
#define PARTITION_ORDER_H

#include "partition/graph/dataset.h"

#include <stdint.h>

/* Fill order[n_node] with node ids, part after part, as part_begin (n_part + 1) says.
 *
 *   notes   a fixed function of graph and owners; the dataset's own order stays unless another one is clearly better
 *   errors  STATUS_NOMEM
 *   cost    up to thirty passes over the edges (5.5 × 10^7 edges of rmat: 5 s on two threads), n_node × 72 bytes of
 *           scratch
 */
enum status order_build(const struct dataset *dataset, const int32_t *owner, int32_t n_part,
                        const int64_t *part_begin, uint32_t *order);

/* Count the sources that are not among the last `window` distinct rows fetched when rows are gathered in this order:
 * a first-in-first-out cache of `window` rows, over edges inside parts. To it is added the same of a cache of
 * ORDER_CACHES times the rows.
 *
 *   errors  STATUS_NOMEM
 *   cost    n_edge random accesses, n_node × 8 bytes of scratch
 */
#define ORDER_CACHES 4
enum status order_misses(const struct dataset *dataset, const int32_t *owner, const uint32_t *order, int64_t window,
                         int64_t *n_miss_out);

/* Clusters of at most `most` nodes by label propagation, one after another along their heaviest links; hubs first in
 * each. They lie inside of clusters of at most outer_most nodes that are found before, one of these after another.
 * sequence n_node.
 *
 *   errors  STATUS_NOMEM
 *   cost    n_edge random accesses per pass, at most 26 of them; n_node × 24 bytes of scratch
 *   source  Raghavan et al., "Near linear time algorithm to detect community structures", Phys. Rev. E 76 (2007)
 */
enum status order_cluster(const struct dataset *dataset, int64_t most, int64_t outer_most, uint32_t *sequence);

/* Breadth first from nodes of low degree, neighbours of low degree first, reversed; never from part to part.
 *
 *   errors  STATUS_NOMEM
 *   cost    n_edge random accesses, n_node × 5 bytes of scratch
 *   source  George & Liu, "Computer solution of large sparse positive definite systems" (1981), reverse Cuthill-McKee
 */
enum status order_breadth(const struct dataset *dataset, const int32_t *owner, uint32_t *sequence);

#endif
