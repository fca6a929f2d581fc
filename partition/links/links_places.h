/* Pairs of nodes with an edge, which a job of links (task.kind = "link") trains on: of a part those of its own rows.
 *
 * A pair stands at both of its ends, as each makes its own gradient. Where the graph is symmetric an edge and its
 * reverse are one pair, whose head is the smaller node; else each edge is one, without inverse relations where
 * relations count. Loops are left out. A node is known by its place in the partition's order.
 */
#ifndef PARTITION_LINKS_PLACES_H
#define PARTITION_LINKS_PLACES_H

#include "partition/graph/dataset.h"
#include "protocol/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Pairs of each part's own rows, by the parts of nodes: owner n_node, out n_part. Returns all pairs, each once; 0
 * where nothing is trained on links. cost  a scan of the edges */
int64_t links_places_count(const struct dataset *dataset, const int32_t *owner, int32_t n_part, int64_t *out);

/* All pairs by place, from which every part copies its rows.
 *
 *   shapes  order n_node: the node at each place · place n_node: that of each node
 *   owns    the caller owns *out: links_places_close, also after a failure
 *   errors  STATUS_NOMEM
 *   cost    8 bytes for each pair and each node, 12 for pairs with relations
 */
struct links_places {
    int64_t n_pair;   /* each once; 0: nothing is trained on links, and the rest is NULL */
    int64_t n_joined; /* different ones */
    int64_t *indptr;  /* n_node + 1 */
    uint32_t *places; /* ascending in a row */
    /* 2 · relation, 0 where these do not count, + 1 where the row is the pair's tail; ascending where places are
     * equal. NULL: neither counts */
    uint16_t *types;
    size_t n_node, n_place;
};

enum status links_places_open(const struct dataset *dataset, const uint32_t *order, const uint32_t *place,
                              struct links_places *out);
void links_places_close(struct links_places *links);

#endif
