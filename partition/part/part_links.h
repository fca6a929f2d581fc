/* Pairs of nodes with an edge, which a job of links (task.kind = "link") trains on: of a part those of its own rows.
 *
 * A pair stands at both of its ends, as each makes its own gradient. Where the graph is symmetric an edge and its reverse
 * are one pair; else each edge is one. Loops are none. A node is known by its place in the partition's order.
 */
#ifndef PARTITION_PART_LINKS_H
#define PARTITION_PART_LINKS_H

#include "partition/graph/dataset.h"
#include "partition/part/partition.h"

#include <stdint.h>

/* Pairs of each part's own rows: out n_part. Returns all pairs, each once; 0 where the dataset is not of links.
 * cost  a scan of the edges */
int64_t part_links_count(const struct dataset *dataset, const struct partition *partition, int64_t *out);

/* All pairs by place, from which every part copies its rows.
 *
 *   owns    borrows dataset and partition; the caller owns *out: part_links_close
 *   errors  STATUS_NOMEM
 *   cost    8 bytes for each pair and each node
 */
struct part_links {
    int64_t n_pair;   /* each once; 0: the dataset is not of links, and the rest is NULL */
    int64_t *indptr;  /* n_node + 1 */
    uint32_t *places; /* ascending in a row */
    size_t n_node, n_place;
};

enum status part_links_open(const struct dataset *dataset, const struct partition *partition, const uint32_t *place,
                            struct part_links *out);
void part_links_close(struct part_links *links);

#endif
