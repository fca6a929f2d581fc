/* How many edges lie between each node and the training nodes: what a training epoch can leave out, and the order of
 * rows in which it ends its loops early to do so.
 *
 * A row at l edges from every training node plays no part in the loss but through l aggregates, so that after all but
 * l of them it need not be computed. Knows the graph and the split; neither models nor what is saved.
 */
#ifndef PARTITION_REACH_H
#define PARTITION_REACH_H

#include "partition/part/part.h"

#include <stdint.h>

struct reach {
    int32_t n_hop;
    int64_t n_all; /* nodes of the graph */
    uint8_t *hop; /* n_all: edges on the shortest path to a training node; n_hop: as many or more, or there is none */
    int64_t n_node[PART_N_HOP_MOST]; /* n_hop: nodes of hop ≤ h */
    int64_t n_edge[PART_N_HOP_MOST]; /* n_hop: stored edges into them */
};

/* Walk from the training nodes against the edges, n_hop ≥ 1 steps.
 *
 *   owns    the caller owns *out: reach_release
 *   errors  STATUS_NOMEM
 *   cost    n_edge reads at most, n_node × 5 bytes
 */
enum status reach_build(const struct dataset *dataset, int32_t n_hop, struct reach *out);
void reach_release(struct reach *reach);

/* Order each part's nodes by hop, those of one hop as they are; the partition then has the hops, and the reach has
 * none. */
enum status reach_order(struct reach *reach, struct partition *partition);

#endif
