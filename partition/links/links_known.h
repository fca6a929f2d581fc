/* Which nodes edges join with nodes that are asked about: those that count as known, and are neither proposed as
 * partners nor ranked against a held-out edge.
 *
 * Kept after the graph was released: for each different question a row of nodes.
 */
#ifndef PARTITION_LINKS_KNOWN_H
#define PARTITION_LINKS_KNOWN_H

#include "partition/graph/dataset.h"
#include "partition/graph/links.h"

#include <stdbool.h>
#include <stdint.h>

struct links_known {
    int64_t n;     /* questions */
    uint32_t *row; /* n: of equal questions the same one */
    int64_t n_row;
    int64_t *begin; /* n_row + 1 */
    int64_t n_known;
    uint32_t *node; /* n_known: ascending in a row, each once; what follows the last row is unused */
};

/* The tails of edges from a node, the heads of edges to it, or both; not the node itself. */
enum links_side { LINKS_SIDE_TAILS, LINKS_SIDE_HEADS, LINKS_SIDE_ANY };

/* The neighbours of each node, by edges of one relation or of any (-1), in either direction.
 *
 *   owns    the caller: links_known_release, also after a failure
 *   errors  STATUS_NOMEM
 *   cost    the edges twice; 12 bytes for each question, 4 for each edge that joins, and 4 for each node of the graph
 *           while it runs
 */
enum status links_known_nodes(const struct dataset *dataset, int64_t n, const uint32_t *node, int relation,
                              struct links_known *out);

/* Of the edges that a split holds out: question 2k has the tails of the head of edge k, in its relation where these
 * count, question 2k + 1 the heads of its tail. Edges are those of the graph and of both splits, with the reverse of
 * a held-out edge if the graph had it before; of graphs without relations that are made undirected they count in
 * both directions. */
enum status links_known_held(const struct dataset *dataset, enum links_split split, struct links_known *out);

void links_known_release(struct links_known *known);

/* Is the node one of question i? */
bool links_known_has(const struct links_known *known, int64_t i, uint32_t node);

#endif
