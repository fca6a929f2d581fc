/* What a prediction of links is asked: pairs whose scores, and nodes whose partners are wanted.
 *
 * Read before the prediction, while the graph is there: which nodes are joined with an asked one by an edge. Knows no
 * scores.
 */
#ifndef PARTITION_LINKS_ASKED_H
#define PARTITION_LINKS_ASKED_H

#include "partition/graph/links.h"

struct links_asked {
    struct links_pairs pairs; /* of predict.pairs */
    int64_t n;                /* of predict.nodes */
    uint32_t *node;           /* n */
    int relation;             /* of the partners: predict.relation; -1: relations do not count */
    /* Nodes that are no partners of node[i], as an edge joins them with it in either direction:
     * joined[joined_at[row[i]]] … joined[joined_at[row[i] + 1] - 1], ascending; repeats stay. No such with
     * predict.known. */
    uint32_t *row;      /* n: of a node that is asked for several times, the same one */
    int64_t n_row;      /* different nodes */
    int64_t *joined_at; /* n_row + 1 */
    int64_t n_joined;
    uint32_t *joined; /* n_joined */
};

/* Read the files of predict.pairs, integers [2, n], and predict.nodes, integers [m]; an empty key asks for nothing.
 *
 *   owns    the caller: links_asked_release, also after a failure
 *   errors  STATUS_NO_INPUT no such file · STATUS_DATA another shape, no integers, a node out of range: key, file,
 *           position, what was expected · STATUS_NOMEM
 *   cost    8 bytes for each pair, 8 for each asked node, 4 for each edge of an asked node from either end; the edges
 *           twice, and 4 bytes for each node of the graph while it runs
 */
enum status links_asked_read(const struct job *job, const struct dataset *dataset, struct links_asked *out);
void links_asked_release(struct links_asked *asked);

/* Does an edge of the graph join node[i] with `other`? */
bool links_asked_joins(const struct links_asked *asked, int64_t i, uint32_t other);

#endif
